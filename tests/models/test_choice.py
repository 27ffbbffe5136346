"""Which model answers, and why: the named one, else the first key, else a local Ollama, else offline."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.config.settings import ModelPrice, ModelSettings, Settings
from handspan.core.errors import ConfigError
from handspan.core.messages import Api, AssistantMessage, Native, Text, Thinking
from handspan.core.values import Json
from handspan.models.choice import Choice, choose, codec_for, falls_back_to_offline, find_ollama
from handspan.models.http import HttpModel
from handspan.models.model import NoModel
from handspan.models.offline import Offline
from handspan.models.vendors import VENDORS
from handspan.net.guard import NetGuard
from tests.models.conversations import APIS, reply_of, user
from tests.models.fake_server import KEY, Call, FakeModelServer, Turn
from tests.net.site import Answer, Site, response

GUARD = NetGuard()


def chosen(environ: dict[str, str] | None = None, named: str = "", model: str = "", **models: ModelSettings) -> Choice:
    return chosen_among(models, environ or {}, named, model)


def chosen_among(models: dict[str, ModelSettings], environ: dict[str, str], named: str = "", model: str = "") -> Choice:
    return choose(Settings(Path("/w"), Path("/s"), model=model, models=models), GUARD, environ, named)


def model_text(choice: Choice) -> str:
    assert isinstance(choice.model, HttpModel)
    return repr(choice.model)


class TestWhatCanNotBeFollowed:
    def test_an_unknown_name_is_an_error_with_a_hint(self) -> None:
        with pytest.raises(ConfigError, match=r"no model 'fats'\. Did you mean 'fast'\? Name one of fast, offline, or"):
            chosen(named="fats", fast=ModelSettings("anthropic"))

    @pytest.mark.parametrize("named", ["anthropic:", "nobody:model", ":x", "anthropic"])
    def test_half_a_name_is_an_error(self, named: str) -> None:
        with pytest.raises(NoModel, match="there is no model") as refused:
            chosen(named=named)
        assert refused.value.fault == "unknown_model"

    def test_a_vendors_model_without_a_key_is_an_error_that_names_the_variable(self) -> None:
        with pytest.raises(ConfigError, match=r"no key for gemini\. Set GEMINI_API_KEY or GOOGLE_API_KEY"):
            chosen(named="gemini:gemini-3-flash")
        with pytest.raises(NoModel, match=r"models\.x\.key: there is no key for anthropic") as refused:
            chosen({"ANTHROPIC_API_KEY": "  "}, x=ModelSettings("anthropic"))
        assert refused.value.fault == "auth"

    def test_a_custom_model_needs_an_address(self) -> None:
        with pytest.raises(ConfigError, match=r"models\.x\.base_url: a custom model needs the address"):
            chosen(x=ModelSettings())

    def test_a_key_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match=r"models\.x\.key: the environment variable 'MINE' is not set"):
            chosen({"ANTHROPIC_API_KEY": KEY}, x=ModelSettings("anthropic", key="env:MINE"))

    def test_an_address_that_is_none_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="base_url"):
            chosen({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "nowhere"})


class TestKeysStayAtHome:
    def test_a_vendors_key_never_goes_to_another_address_by_itself(self) -> None:
        settings = ModelSettings("openai-chat", "http://elsewhere.example/v1", model="m")
        made = chosen({"OPENAI_API_KEY": KEY}, x=settings).model
        assert KEY not in repr(vars(made))

    def test_a_choice_shows_no_key(self) -> None:
        choice = chosen({"ANTHROPIC_API_KEY": KEY}, x=ModelSettings("anthropic", key="literal-key-1"))
        assert KEY not in repr(choice)
        assert "literal-key-1" not in repr(choice)


def test_without_anything_it_is_offline_and_says_why() -> None:
    choice = chosen()
    assert isinstance(choice.model, Offline)
    assert choice.why == (
        "offline, a rule-based stand-in: no model is named in the settings and no key is set "
        "(ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY)."
    )


def test_offline_may_be_named_though_there_is_a_key() -> None:
    choice = chosen({"OPENAI_API_KEY": KEY}, model="offline")
    assert isinstance(choice.model, Offline)
    assert choice.why == "offline, a rule-based stand-in, because the setting `model` names it."


@pytest.mark.parametrize(
    ("environ", "asked_for", "why"),
    [
        (
            {"ANTHROPIC_API_KEY": KEY},
            "('anthropic', 'claude-sonnet-5', base_url='https://api.anthropic.com')",
            "ANTHROPIC",
        ),
        ({"OPENAI_API_KEY": KEY}, "('openai-responses', 'gpt-5.5', base_url='https://api.openai.com/v1')", "OPENAI"),
        ({"GEMINI_API_KEY": KEY}, "base_url='https://generativelanguage.googleapis.com')", "GEMINI"),
        ({"GOOGLE_API_KEY": KEY}, "('gemini', 'gemini-flash-latest'", "GOOGLE"),
        ({"GOOGLE_API_KEY": KEY, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, "'anthropic'", "ANTHROPIC"),
        ({"GOOGLE_API_KEY": KEY, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": " "}, "'openai-responses'", "OPENAI"),
        (
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:8000/v1", "OPENAI_MODEL": "qwen"},
            "('openai-chat', 'qwen', base_url='http://localhost:8000/v1')",
            "OPENAI",
        ),
        (
            {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://proxy.example/", "ANTHROPIC_MODEL": "claude-x"},
            "('anthropic', 'claude-x', base_url='https://proxy.example')",
            "ANTHROPIC",
        ),
        (
            {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "https://g.example"},
            "base_url='https://g.example'",
            "GEMINI",
        ),
    ],
)
def test_the_first_key_that_is_there_decides(environ: dict[str, str], asked_for: str, why: str) -> None:
    choice = chosen(environ)
    assert asked_for in model_text(choice)
    assert choice.why.endswith(f", because {why}_API_KEY is set and no model is named in the settings.")


@pytest.mark.parametrize(
    ("named", "asked_for"),
    [
        ("anthropic:claude-x", "('anthropic', 'claude-x', base_url='https://api.anthropic.com')"),
        ("openai:gpt-x", "('openai-responses', 'gpt-x', base_url='https://api.openai.com/v1')"),
        ("openai-chat:gpt-x", "('openai-chat', 'gpt-x', base_url='https://api.openai.com/v1')"),
        ("openai-responses:gpt-x", "('openai-responses', 'gpt-x'"),
        ("google:gemini-x", "('gemini', 'gemini-x'"),
        ("gemini:gemini-x", "('gemini', 'gemini-x'"),
        ("ollama:qwen3:8b", "('openai-chat', 'qwen3:8b', base_url='http://127.0.0.1:11434/v1')"),
    ],
)
def test_a_model_may_be_named_by_its_api(named: str, asked_for: str) -> None:
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    choice = chosen(keys, named)
    assert asked_for in model_text(choice)
    assert choice.why == f"{named}, because it is named so."


def test_an_api_that_is_named_is_kept_also_at_another_address() -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:8000/v1"}
    assert "'openai-chat'" in model_text(chosen(environ, "openai:m"))
    assert "'openai-responses'" in model_text(chosen(environ, "openai-responses:m"))


def test_the_name_that_was_given_wins_over_the_settings_and_these_over_keys() -> None:
    models = {
        "fast": ModelSettings("anthropic", key="k", model="a"),
        "slow": ModelSettings("anthropic", key="k", model="b"),
    }
    environ = {"OPENAI_API_KEY": KEY}
    assert "'b'" in model_text(chosen_among(models, environ, "slow", "fast"))
    assert "'b'" in model_text(chosen_among(models, environ, model="slow"))
    first = chosen_among(models, environ)
    assert "'a'" in model_text(first)
    assert first.why == "fast (a), because it is the first of `models`, and the setting `model` names none."
    assert "'openai-responses'" in model_text(chosen(environ))


def test_a_configured_model_is_as_the_settings_say() -> None:
    price = ModelPrice(1.0, 2.0)
    given = ModelSettings("custom", "http://localhost:1234/v1", "k", "qwen", context=8192, price=price)
    choice = chosen(x=given)
    assert "('openai-chat', 'qwen', base_url='http://localhost:1234/v1')" in model_text(choice)
    assert choice.model.name == "x"
    assert (choice.context, choice.price) == (8192, price)
    assert choice.why == "x (qwen), because it is the only one of `models`, and the setting `model` names none."
    assert "'y'" in model_text(chosen(y=msgspec.structs.replace(given, model="")))


def test_a_vendors_variables_hold_for_a_configured_model_without_its_own() -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://proxy.example"}
    assert "base_url='https://proxy.example'" in model_text(chosen(environ, x=ModelSettings("anthropic")))


def test_ollama_is_worth_a_look_only_for_want_of_another() -> None:
    bare = Settings(Path("/w"), Path("/s"))
    named = Settings(Path("/w"), Path("/s"), model="offline")
    assert falls_back_to_offline(bare, {})
    assert not falls_back_to_offline(bare, {"GOOGLE_API_KEY": KEY})
    assert not falls_back_to_offline(bare, {}, "offline")
    assert not falls_back_to_offline(named, {})


@pytest.mark.anyio
@pytest.mark.parametrize("api", APIS)
async def test_a_chosen_model_answers_through_its_codec(api: Api) -> None:
    async with FakeModelServer([Turn(calls=(Call("weather", '{"city":"x"}'),))]) as server:
        given = ModelSettings(api, server.url(api), "env:MINE", "gemini-2.5-flash", options={"top_p": 1}, strict=True)
        model = chosen({"MINE": KEY}, x=given).model
        assert isinstance(model, HttpModel)
        message = await reply_of(model, [user("Go.")])
        await model.close()
    assert [call.name for call in message.calls] == ["weather"]
    assert server.asked[0].refused == ""
    assert "gemini-2.5-flash" in server.asked[0].path + str(server.asked[0].body)
    assert "top" in str(server.asked[0].body)


@pytest.mark.anyio
class TestOllama:
    async def test_nobody_there_is_none(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            assert await find_ollama(GUARD, {"OLLAMA_HOST": f"127.0.0.1:{unused.getsockname()[1]}"}) is None

    @pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"models": 3}', b'{"models": [{}, 3, {"name": 4}]}'])
    async def test_another_server_is_none(self, body: bytes) -> None:
        async with Site({"/api/tags": response(body)}) as site:
            assert await find_ollama(GUARD, {"OLLAMA_HOST": site.url("")}) is None

    async def test_one_that_hangs_is_left(self) -> None:
        async def hang(_: Any) -> None:
            await asyncio.Event().wait()

        async with Site({"/api/tags": hang}) as site:
            assert await find_ollama(GUARD, {"OLLAMA_HOST": site.url("")}, seconds=0.2) is None

    async def test_a_redirect_is_not_followed(self) -> None:
        moved = response(b"", "302 Found", {"Location": "/other"})
        async with Site({"/api/tags": moved, "/other": response(_tags("a"))}) as site:
            assert await find_ollama(GUARD, {"OLLAMA_HOST": site.url("")}) is None

    async def test_a_model_that_only_embeds_is_none(self) -> None:
        async with _ollama({"nomic": ["embedding"]}) as site:
            assert await find_ollama(GUARD, {"OLLAMA_HOST": site.url("")}) is None

    async def test_the_first_that_can_call_tools_is_taken(self) -> None:
        async with _ollama({"nomic": ["embedding"], "qwen3:8b": ["completion", "tools"]}) as site:
            choice = await find_ollama(GUARD, {"OLLAMA_HOST": site.url("")})
        assert choice is not None
        assert choice.why == f"qwen3:8b, because a local Ollama answers at {site.url('')} and no other model is set."
        assert f"('openai-chat', 'qwen3:8b', base_url='{site.url('/v1')}')" in model_text(choice)

    async def test_one_that_can_only_talk_is_better_than_none(self) -> None:
        async with _ollama({"gemma": ["completion"]}) as site:
            choice = await find_ollama(GUARD, {"OLLAMA_HOST": f"0.0.0.0:{site.port}"})
        assert choice is not None
        assert choice.why.startswith("gemma, which may not be able to call tools, because a local Ollama")

    async def test_the_wanted_one_is_taken_if_it_is_there(self) -> None:
        async with _ollama({"a": ["tools"], "b": ["tools"]}) as site:
            for wanted, found in (("b", "b"), ("c", None)):
                choice = await find_ollama(GUARD, {"OLLAMA_HOST": site.url(""), "OLLAMA_MODEL": wanted})
                assert (choice and choice.model.name) == found


def _tags(*names: str) -> bytes:
    return msgspec.json.encode({"models": [{"name": name, "model": name} for name in names]})


def _ollama(models: dict[str, list[str]]) -> Site:
    """A server that answers as Ollama does; it shows its models in the order in which it listed them."""
    left = [response(msgspec.json.encode({"capabilities": abilities})) for abilities in models.values()]

    async def show(writer: Any) -> None:
        asked_for = msgspec.json.decode(site.seen[-1].body)["model"]
        writer.write(left[list(models).index(asked_for)])
        await writer.drain()

    routes: dict[str, Answer] = {"/api/tags": response(_tags(*models)), "/api/show": show}
    site = Site(routes)
    return site


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("box:80/", "http://box:80"),
        ("http://box", "http://box:80"),
        ("https://box", "https://box:443"),
        ("https://box:8443", "https://box:8443"),
    ],
)
def test_ollamas_variable_is_read_as_ollama_reads_it(host: str, base: str) -> None:
    assert f"base_url='{base}/v1'" in model_text(chosen({"OLLAMA_HOST": host}, "ollama:m"))


@pytest.mark.outside
def test_the_vendors_know_the_models_that_are_asked_by_default() -> None:
    anthropic = pytest.importorskip("anthropic.types.model")
    openai = pytest.importorskip("openai.types.shared.chat_model")
    known = {vendor.api: vendor.model for vendor in VENDORS}
    assert known["anthropic"] in str(anthropic.Model)
    assert f"'{known['openai-responses']}'" in str(openai.ChatModel)


@pytest.mark.parametrize("api", APIS)
def test_each_api_has_its_codec(api: Api) -> None:
    assert codec_for(api, "m", "https://api.example/v1").api == api


@pytest.mark.parametrize(
    ("api", "content"),
    [
        ("anthropic", [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "text", "text": "Hi."}]),
        ("openai-responses", [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sig"}]),
    ],
)
def test_the_thinking_of_a_model_goes_back_to_that_model_only(api: Api, content: Json) -> None:
    message = AssistantMessage((Thinking("Hm."), Text("Hi.")), model="one", native=Native(api, "one", content))
    sent = {model: b"".join(codec_for(api, model).encode(message, None)) for model in ("one", "two")}
    assert b'"sig"' in sent["one"] and b'"sig"' not in sent["two"]


@pytest.mark.outside
def test_choosing_offline_loads_no_adapter_and_no_network() -> None:
    code = (
        "import sys; from pathlib import Path; from handspan.config.settings import Settings\n"
        "from handspan.models.choice import choose; from handspan.net.guard import NetGuard\n"
        "choose(Settings(Path('/w'), Path('/s')), NetGuard(), {})\n"
        "late = {'httpx2', *('handspan.models.' + name for name in ('http', 'chat', 'gemini', 'lowering'))}\n"
        "print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
