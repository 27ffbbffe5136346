"""A provider made with the kit: each method, each error code, and calls that are tried again (cetp.md 1 to 3)."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from datetime import date
from typing import Any, Literal

import pytest

from handspan.core.errors import DefinitionError
from handspan.core.values import Json, JsonObject
from handspan.provider import Access, Consumer, Provider, ProviderError
from handspan.wire.cetp import (
    CetpCode,
    CetpError,
    CetpRequest,
    CetpResponse,
    CetpSuccess,
    execute_request,
    read_data,
    read_info,
    read_tools,
)
from handspan.wire.cetp_manifest import ManifestError
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio
ME = Consumer(0, 1, "/usr/bin/bridge")


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> AsyncIterator[Provider]:
    """A provider with a few tools."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    provider = Provider("org.example.demo", label="Demo", description="For tests.", scopes={"all": "Everything."})

    @provider.tool
    def add(first: int, second: int = 1) -> int:
        """Add two numbers."""
        return first + second

    @provider.tool(name="days", description="Count the days of a kind since a day.")
    async def count_days(since: date, kind: Literal["work", "all"] = "all") -> str:
        return f"{since.year} {kind}"

    @provider.tool
    def refuse(code: str) -> None:
        """Refuse with this code."""
        known: Any = code
        raise ProviderError(known, f"It says {code}", hint="Open it", intent="org.example.ALLOW")

    @provider.tool
    def fail() -> None:
        """Fail."""
        raise ValueError("no such row")

    @provider.tool
    def leave() -> None:
        """End the program."""
        raise SystemExit(3)

    @provider.tool
    async def leave_the_loop() -> None:
        """End the program, from its event loop."""
        raise SystemExit(4)

    @provider.tool
    def wait_in_vain() -> None:
        """Wait for another computer, as long as the tool itself allows."""
        raise TimeoutError("no answer from the printer")

    @provider.tool
    def strange() -> object:
        """Return what has no JSON form."""
        return object()

    @provider.tool
    def large(size: int) -> str:
        """Return a text of this size."""
        return "x" * size

    yield provider
    await provider.close()


async def call(app: Provider, tool: str, arguments: JsonObject | None = None, request_id: str = "") -> CetpResponse:
    """The answer to one call."""
    return await soon(app.answer(execute_request(tool, arguments or {}, request_id), ME))


def value(response: CetpResponse) -> Json:
    """The value of a success."""
    assert isinstance(response, CetpSuccess), response
    return read_data(response.data)


def refusal(response: CetpResponse, code: CetpCode) -> str:
    """The message of an error with this code."""
    assert isinstance(response, CetpError), response
    assert response.error_code == code
    return response.error_message


async def test_tools_are_listed_with_their_schemas(app: Provider) -> None:
    response = await app.answer(CetpRequest("list_tools"), ME)
    assert isinstance(response, CetpSuccess)
    add, days, *_ = read_tools(response.data).tools
    assert (add.name, add.description, add.only_reads) == ("add", "Add two numbers.", True)
    assert add.parameters["required"] == ["first"]
    assert (days.name, days.description) == ("days", "Count the days of a kind since a day.")


async def test_provider_info_names_the_app_and_its_scopes(app: Provider) -> None:
    response = await app.answer(CetpRequest("get_provider_info"), ME)
    assert isinstance(response, CetpSuccess)
    info = read_info(response.data)
    assert (info.provider_name, info.description, info.scopes[0].name) == ("Demo", "For tests.", "all")


async def test_tools_run_with_their_arguments_on_a_thread_or_on_the_loop(app: Provider) -> None:
    assert value(await call(app, "add", {"first": 2})) == 3
    assert value(await call(app, "days", {"since": "2026-01-02", "kind": "work"})) == "2026 work"


async def test_an_unknown_method_and_an_unknown_tool_are_not_found(app: Provider) -> None:
    assert "list_tools" in refusal(await app.answer(CetpRequest("write_tool", {}), ME), "TOOL_NOT_FOUND")
    assert "Did you mean 'add'?" in refusal(await call(app, "ad"), "TOOL_NOT_FOUND")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add", {}),
        ("add", {"first": "two"}),
        ("add", {"first": 1, "third": 3}),
        ("days", {"since": "soon"}),
        ("days", {"since": "2026-01-01", "kind": "no"}),
    ],
)
async def test_arguments_that_do_not_fit_are_named(tool: str, arguments: JsonObject, app: Provider) -> None:
    assert "parameter" in refusal(await call(app, tool, arguments), "INVALID_ARGS")


async def test_a_call_without_a_tool_or_with_unreadable_arguments_is_refused(app: Provider) -> None:
    wrong: list[JsonObject | None] = [None, {}, {"tool_name": ""}]
    for extras in wrong:
        response = await app.answer(CetpRequest("execute_tool", extras), ME)
        assert refusal(response, "INVALID_ARGS") == "missing tool_name"
    response = await app.answer(CetpRequest("execute_tool", {"tool_name": "add", "args": "first=1"}), ME)
    assert "JSON" in refusal(response, "INVALID_ARGS")


@pytest.mark.parametrize("code", ["AUTH_REQUIRED", "PERMISSION_DENIED", "RATE_LIMITED", "INTERNAL_ERROR"])
async def test_a_tool_may_refuse_with_a_code(code: CetpCode, app: Provider) -> None:
    response = await call(app, "refuse", {"code": code})
    assert refusal(response, code) == f"It says {code}"


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("fail", "ValueError: no such row"),
        ("leave", "SystemExit: 3"),
        ("leave_the_loop", "SystemExit: 4"),
        ("wait_in_vain", "TimeoutError: no answer from the printer"),
        ("strange", "TypeError"),
    ],
)
async def test_a_tool_that_fails_is_an_internal_error(
    tool: str, words: str, app: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, "handspan.provider"):
        said = refusal(await call(app, tool), "INTERNAL_ERROR")
    assert words in said and "RuntimeError" not in said
    assert value(await call(app, "add", {"first": 1})) == 2


async def test_an_answer_that_no_consumer_would_take_is_an_error(app: Provider) -> None:
    assert "too much" in refusal(await call(app, "large", {"size": 5_000_000}), "INTERNAL_ERROR")


async def test_a_tool_that_hangs_ends_with_the_time_and_counts_until_its_thread_returns() -> None:
    provider, done = Provider("org.example.slow", timeout=0.05, calls_at_once=1), threading.Event()

    @provider.tool
    def wait() -> None:
        """Wait."""
        done.wait(60)

    assert "0.05 seconds" in refusal(await call(provider, "wait"), "INTERNAL_ERROR")
    assert "running" in refusal(await call(provider, "wait"), "RATE_LIMITED")
    done.set()
    await until(lambda: not provider.calls_running)


async def test_calls_beyond_the_limit_of_a_program_are_limited() -> None:
    provider = Provider("org.example.rate", calls_per_minute=2)
    provider.tool(name="now", description="Say now.")(lambda: "now")
    assert [type(await call(provider, "now")) for _ in range(3)] == [CetpSuccess, CetpSuccess, CetpError]
    assert "try again in" in refusal(await call(provider, "now"), "RATE_LIMITED")
    other = await provider.answer(execute_request("now", {}), Consumer(0, 2, "/usr/bin/other"))
    assert value(other) == "now"


class Slow:
    """A provider with a tool that waits, and counts how often it runs."""

    def __init__(self, **options: Any) -> None:
        self.provider = Provider("org.example.slow", **options)
        self.go = asyncio.Event()
        self.runs = 0
        self.provider.tool(self.wait)

    async def wait(self, number: int = 0) -> int:
        """Wait and count."""
        self.runs += 1
        await self.go.wait()
        return self.runs


async def test_calls_beyond_those_at_once_are_limited() -> None:
    slow = Slow(calls_at_once=1)
    first = asyncio.create_task(call(slow.provider, "wait"))
    await until(lambda: slow.runs)
    assert "running" in refusal(await call(slow.provider, "wait"), "RATE_LIMITED")
    slow.go.set()
    assert value(await first) == 1


async def test_the_same_request_id_runs_once_and_gets_the_same_answer() -> None:
    slow = Slow()
    both = [asyncio.create_task(call(slow.provider, "wait", {"number": 1}, "r1")) for _ in range(2)]
    await until(lambda: slow.runs)
    slow.go.set()
    assert [value(await one) for one in both] == [1, 1]
    assert value(await call(slow.provider, "wait", {"number": 1}, "r1")) == 1
    assert value(await call(slow.provider, "wait", {"number": 2}, "r1")) == 2
    assert value(await call(slow.provider, "wait", {"number": 1}, "r2")) == 3
    assert value(await call(slow.provider, "wait", {"number": 1})) == 4


async def test_a_call_whose_consumer_went_away_runs_on_and_its_answer_waits() -> None:
    slow = Slow()
    first = asyncio.create_task(call(slow.provider, "wait", {}, "r1"))
    await until(lambda: slow.runs)
    first.cancel()
    slow.go.set()
    assert value(await call(slow.provider, "wait", {}, "r1")) == 1


async def test_a_provider_that_closes_ends_calls_that_run_on() -> None:
    slow = Slow()
    first = asyncio.create_task(call(slow.provider, "wait", {}, "r1"))
    await until(lambda: slow.runs)
    await soon(slow.provider.close())
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_an_error_is_not_kept(app: Provider) -> None:
    answers = iter([ProviderError("RATE_LIMITED", "later"), None])

    @app.tool
    def once() -> str:
        """Fail once."""
        if error := next(answers):
            raise error
        return "now"

    assert refusal(await call(app, "once", {}, "r1"), "RATE_LIMITED") == "later"
    assert value(await call(app, "once", {}, "r1")) == "now"


async def test_every_call_is_logged_with_its_request_id_and_without_arguments(
    app: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "handspan.provider"):
        await call(app, "add", {"first": 12345}, "r-77")
        await call(app, "nothing\nfake line", {}, "r-78")
    good, bad = (record.getMessage() for record in caplog.records)
    assert "request_id='r-77' tool='add' consumer='bridge' outcome=ok" in good
    assert "12345" not in good
    assert "request_id='r-78'" in bad and "outcome=TOOL_NOT_FOUND" in bad and "\n" not in bad


async def test_a_tool_knows_the_program_that_calls(app: Provider) -> None:
    @app.tool
    def balance(consumer: Consumer) -> str:
        """Say the balance."""
        return f"{consumer.name} {consumer.is_coarse}"

    response = await app.answer(CetpRequest("list_tools"), ME)
    assert isinstance(response, CetpSuccess)
    assert read_tools(response.data).tools[-1].parameters.get("properties") == {}
    assert value(await call(app, "balance")) == "bridge False"


async def test_grants_that_can_not_be_written_are_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "state").write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    provider = Provider("org.example.asks", access=Access("ask"))
    provider.tool(name="now", description="Say now.")(lambda: "now")
    assert "grants" in refusal(await call(provider, "now"), "INTERNAL_ERROR")


@pytest.mark.parametrize("wrong", ["", "../finance", "a b", "a..b"])
def test_an_id_that_no_consumer_would_take_is_refused(wrong: str) -> None:
    with pytest.raises(ManifestError):
        Provider(wrong)


def test_a_function_that_can_not_be_a_tool_is_refused() -> None:
    provider = Provider("org.example.demo")
    with pytest.raises(DefinitionError, match="no description"):
        provider.tool(name="bare")(lambda: None)
    with pytest.raises(DefinitionError, match="can't be a tool's name"):
        provider.tool(name="Bad Name", description="Say.")(lambda: None)
    provider.tool(name="one", description="Say.")(lambda: None)
    with pytest.raises(DefinitionError, match="already"):
        provider.tool(name="one", description="Say.")(lambda: None)
