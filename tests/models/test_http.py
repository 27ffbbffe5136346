"""A codec over HTTP: whatever the server does, the caller gets the answer or a `ModelError`, and never half a call."""

import asyncio
import traceback
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import msgspec
import pytest

from handspan.config.settings import ModelSettings
from handspan.core.errors import ConfigError
from handspan.core.messages import Api, AssistantMessage, CallPart, StopReason, UnpairedCalls
from handspan.models.choice import codec_for, target_for
from handspan.models.http import HttpModel, join_url
from handspan.models.model import (
    CallDelta,
    ModelError,
    ModelEvent,
    ModelFault,
    Prompt,
    Queued,
    Replied,
    Retrying,
    TextDelta,
    ThinkingDelta,
)
from handspan.models.projection import EncodedProjection
from handspan.models.retry import RetryPolicy
from handspan.models.schema.lowering import lower_all
from handspan.models.sse import SseReader
from handspan.net.guard import NetGuard
from tests.models.conversations import APIS, MODELS, TOOLS, Pauses, ask, model_at, reply_of, spec_of, talking, user
from tests.models.fake_server import KEY, Call, FakeModelServer, Fault, Turn
from tests.net.site import Site, response
from tests.thoroughness import IS_DEEP

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("api", APIS)]

HELLO = [user("Hello")]
CUTS = [(8, 0), (1, 7), (3, 2), (1000, 1), *([(1, 1)] if IS_DEEP else [])]
"""Characters in an event, and bytes in a write. Both one by one are thousands of writes."""
WEATHER_CALLS = (Call("weather", '{"city":"Tōkyō"}'), Call("weather", '{"city":"Zürich"}'))


class TestFailures:
    @pytest.mark.parametrize(
        ("fault", "meant", "words"),
        [
            ("auth", "auth", "key"),
            ("quota", "quota", "[Qq]uota|credit"),
            ("unknown_model", "unknown_model", "model"),
            ("too_long", "too_long", "too long|longer"),
            ("redirect", "rejected", "elsewhere.invalid.*check base_url"),
            ("html", "unreadable", "'text/html' that begins with '<!doctype html>"),
            ("wrong_type", "unreadable", "'text/plain' that begins with 'all is well'"),
        ],
    )
    async def test_what_will_not_pass_is_explained_and_not_tried_again(
        self, api: Api, fault: Fault, meant: ModelFault, words: str
    ) -> None:
        async with talking(api, [Turn(fault=fault), Turn(text="never")]) as (server, model):
            with pytest.raises(ModelError, match=words) as refused:
                await ask(model, HELLO)
        assert refused.value.fault == meant
        assert len(server.asked) == 1

    async def test_a_request_that_the_api_refuses_is_not_tried_again(self, api: Api) -> None:
        async with talking(api, [Turn(text="never")], key="another") as (server, model):
            with pytest.raises(ModelError) as refused:
                await ask(model, HELLO)
        assert refused.value.fault == "auth"
        assert len(server.asked) == 1

    @pytest.mark.parametrize("fault", ["cut", "cut_clean"])
    async def test_a_stream_that_is_cut_in_the_arguments_gives_no_call(self, api: Api, fault: Fault) -> None:
        turn = Turn(text="One moment.", calls=(Call("weather", '{"city":"' + "x" * 3000 + '"}'),), fault=fault)
        events = []
        async with talking(api, [turn, Turn(text="never")]) as (server, model):
            with pytest.raises(ModelError) as cut:
                async for event in model.reply(_begun(model), TOOLS):
                    events.append(event)  # noqa: PERF401 - what came before the error is what counts
        assert cut.value.fault == "cut"
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "One moment."
        assert not any(isinstance(event, Replied) for event in events)
        assert len(server.asked) == 1

    @pytest.mark.parametrize("fault", ["garbage", "broken_json"])
    @pytest.mark.parametrize("stream", [True, False])
    async def test_an_answer_that_is_not_json_is_unreadable(self, api: Api, fault: Fault, stream: bool) -> None:
        turn = Turn(text="A text that is long enough for several events.", fault=fault)
        async with talking(api, [turn, turn, turn, turn], stream=stream) as (_, model):
            with pytest.raises(ModelError) as unreadable:
                await ask(model, HELLO)
        assert unreadable.value.fault in ("unreadable", "cut")

    async def test_a_server_that_says_nothing_is_left_after_its_silence(self, api: Api) -> None:
        once = RetryPolicy(tries=1)
        async with talking(api, [Turn(fault="hang")], silence=0.2, retry=once) as (server, model):
            with pytest.raises(ModelError, match="did not answer in time") as silent:
                await ask(model, HELLO)
            assert silent.value.fault == "network"
            await asyncio.wait_for(server.gone.wait(), 60)

    async def test_a_stream_that_falls_silent_is_cut(self, api: Api) -> None:
        turn = Turn(text="Some words of an answer that never ends.", fault="hang_midway")
        async with talking(api, [turn], silence=0.3) as (_, model):
            with pytest.raises(ModelError, match="broke off") as cut:
                await ask(model, HELLO)
        assert cut.value.fault == "cut"

    async def test_a_name_that_nobody_has_is_tried_again_and_told(self, api: Api) -> None:
        pauses = Pauses()
        model = _model(api, base_url="https://api.example", guard=NetGuard(resolve=_nobody), pause=pauses)
        with pytest.raises(ModelError, match=r"DNS: cannot resolve host 'api\.example'") as unreachable:
            await ask(model, HELLO)
        assert unreachable.value.fault == "network"
        assert len(pauses.seconds) == 3
        await model.close()

    async def test_a_name_that_leads_to_a_clouds_secrets_is_not_asked(self, api: Api) -> None:
        pauses = Pauses()
        model = _model(api, base_url="https://api.example", guard=NetGuard(resolve=_metadata), pause=pauses)
        with pytest.raises(ModelError, match="cloud metadata") as refused:
            await ask(model, HELLO)
        assert (refused.value.fault, pauses.seconds) == ("network", [])
        await model.close()

    async def test_an_event_without_end_is_unreadable(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("handspan.models.http.SseReader", partial(SseReader, 20))
        async with talking(api, [Turn(text="Hi.")] * RetryPolicy().tries) as (_, model):
            with pytest.raises(ModelError, match="longer than 20 bytes") as unreadable:
                await ask(model, HELLO)
        assert unreadable.value.fault == "unreadable"

    async def test_an_answer_that_is_no_object_is_unreadable(self, api: Api) -> None:
        path = join_url("", codec_for(api).path("m", stream=False)).partition("?")[0]
        async with Site({path: response(b"[1]", headers={"Content-Type": "application/json"})}) as site:
            model = _model(api, base_url=site.url(""), stream=False)
            with pytest.raises(ModelError, match=r"not a JSON object; it begins with '\[1\]'"):
                await ask(model, HELLO)
            await model.close()
        assert len(site.seen) == RetryPolicy().tries, "it is tried again while nothing was delivered"

    async def test_nobody_there_is_a_network_error_that_names_the_place(self, api: Api) -> None:
        async with FakeModelServer([]) as server:
            pass
        pauses = Pauses()
        model = model_at(server, api, pause=pauses)
        with pytest.raises(ModelError, match=f"refused by '127.0.0.1' port {server.port}") as unreachable:
            await ask(model, HELLO)
        assert unreachable.value.fault == "network"
        assert len(pauses.seconds) == 3
        await model.close()

    async def test_the_key_is_in_no_error_and_no_repr(self, api: Api) -> None:
        async with talking(api, [Turn(fault="echo_key")]) as (server, model):
            with pytest.raises(ModelError) as refused:
                await ask(model, HELLO)
        assert KEY in str(server.asked[0].headers)
        assert KEY not in "".join(traceback.format_exception(refused.value))
        assert KEY not in repr(model) + repr(vars(refused.value))

    async def test_a_key_that_looks_like_none_is_in_no_error_either(self, api: Api) -> None:
        async with FakeModelServer([Turn(fault="echo_key")], key="hunter2") as server:
            model = model_at(server, api, key="hunter2")
            with pytest.raises(ModelError, match="was …") as refused:
                await ask(model, HELLO)
            await model.close()
        assert "hunter2" not in "".join(traceback.format_exception(refused.value))

    async def test_of_an_endless_error_only_the_beginning_is_read(self, api: Api) -> None:
        async def endless(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
            while True:
                writer.write(b"wrong! " * 1000)
                await writer.drain()

        path = codec_for(api).path("m", stream=True).partition("?")[0]
        async with Site({path: endless}) as site:
            model = _model(api, base_url=site.url(""))
            with pytest.raises(ModelError, match="wrong!") as refused:
                async with asyncio.timeout(60):
                    await ask(model, HELLO)
            await model.close()
        assert (refused.value.fault, refused.value.status) == ("rejected", 400)
        assert len(str(refused.value)) < 1000

    async def test_a_key_that_no_header_can_hold_is_refused_unseen(self, api: Api) -> None:
        with pytest.raises(ConfigError, match="The key of the model 'm' holds blanks") as refused:
            _model(api, base_url="https://api.example", key="s3c ret\n2")
        assert "s3c" not in str(refused.value)

    async def test_a_base_url_that_is_none_is_refused(self, api: Api) -> None:
        with pytest.raises(ConfigError, match="base_url of the model 'm' can't be used"):
            _model(api, base_url="localhost:80", key="")

    async def test_open_calls_are_never_sent(self, api: Api) -> None:
        async with talking(api, []) as (server, model):
            projection = _begun(model)
            projection.append(AssistantMessage((CallPart("c1", "weather", "{}"),), "calls"))
            with pytest.raises(UnpairedCalls, match="c1"):
                await anext(model.reply(projection, TOOLS))
        assert server.asked == []

    async def test_a_conversation_in_another_apis_words_is_refused(self, api: Api) -> None:
        other: Api = "gemini" if api != "gemini" else "anthropic"
        projection = _model(other, base_url="https://api.example", key="").projection()
        with pytest.raises(ModelError, match=f"not encoded for {api}"):
            await anext(_model(api, base_url="https://api.example", key="").reply(projection, TOOLS))


class TestRetries:
    @pytest.mark.parametrize(
        ("fault", "stream"),
        [
            ("error_event", True),
            *((fault, on) for fault in ("rate_limited", "server_error", "overloaded", "reset") for on in (True, False)),
        ],
    )
    async def test_what_may_pass_is_tried_again_and_said(self, api: Api, fault: Fault, stream: bool) -> None:
        pauses = Pauses()
        async with talking(api, [Turn(fault=fault), Turn(text="Hi.")], stream=stream, pause=pauses) as (server, model):
            events = await ask(model, HELLO)
        assert [type(event) for event in events] == [Retrying, TextDelta, Replied]
        assert isinstance(events[0], Retrying)
        assert pauses.seconds == [events[0].seconds]
        assert 0 < events[0].seconds <= 0.5
        assert len(server.asked) == 2

    async def test_the_server_says_how_long_to_wait(self, api: Api) -> None:
        pauses = Pauses()
        script = [Turn(fault="rate_limited", retry_after="7"), Turn(text="Hi.")]
        async with talking(api, script, pause=pauses) as (_, model):
            await ask(model, HELLO)
        assert 7 <= pauses.seconds[0] <= 7.5

    async def test_a_wait_that_is_too_long_is_told_in_place_of_waited(self, api: Api) -> None:
        pauses = Pauses()
        async with talking(api, [Turn(fault="rate_limited", retry_after="3600")], pause=pauses) as (_, model):
            with pytest.raises(ModelError, match=r"It asks to wait 3600 s\.") as limited:
                await ask(model, HELLO)
        assert (limited.value.fault, limited.value.status, pauses.seconds) == ("overloaded", 429, [])

    async def test_patience_ends(self, api: Api) -> None:
        pauses = Pauses()
        async with talking(api, [Turn(fault="server_error")] * 9, pause=pauses) as (server, model):
            with pytest.raises(ModelError) as failed:
                await ask(model, HELLO)
        assert failed.value.fault == "overloaded"
        assert len(server.asked) == 4
        assert len(pauses.seconds) == 3


class TestAnswers:
    @pytest.mark.flood
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize(("delta", "chunk"), CUTS)
    async def test_parallel_calls_with_thinking_and_text_arrive_whole(
        self, api: Api, stream: bool, delta: int, chunk: int
    ) -> None:
        turn = Turn("Grüße, 世界 🌍!", "Two cities.", WEATHER_CALLS, input=40, output=25, cached=10)
        turn = msgspec.structs.replace(turn, delta=delta, chunk=chunk)
        async with talking(api, [turn], stream=stream) as (server, model):
            events = await ask(model, HELLO)
        last = events[-1]
        assert isinstance(last, Replied)
        message = last.message
        assert (message.text, message.stop) == (turn.text, "calls")
        assert [(call.name, msgspec.json.decode(call.arguments)) for call in message.calls] == [
            ("weather", {"city": "Tōkyō"}),
            ("weather", {"city": "Zürich"}),
        ]
        assert len({call.id for call in message.calls}) == 2
        assert message.usage is not None
        assert (message.usage.input, message.usage.output, message.usage.cached) == (40, 25, 10)
        assert message.native is not None
        assert (message.native.api, message.native.model) == (api, MODELS[api])
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text
        assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == turn.thinking
        assert _arguments(events) == [call.arguments for call in message.calls]
        assert server.asked[0].streamed is stream

    @pytest.mark.parametrize(("stop", "meant"), [("length", "length"), ("refusal", "refusal")])
    async def test_the_reason_to_stop_is_kept(self, api: Api, stop: str, meant: StopReason) -> None:
        turn = msgspec.convert({"text": "I was say", "stop": stop}, Turn)
        async with talking(api, [turn]) as (_, model):
            message = await reply_of(model, HELLO)
        assert (message.text, message.stop) == ("I was say", meant)

    async def test_a_server_that_can_not_stream_is_understood(self, api: Api) -> None:
        async with talking(api, [Turn("Hi.", calls=WEATHER_CALLS, fault="not_streamed")]) as (server, model):
            events = await ask(model, HELLO)
        assert server.asked[0].streamed
        assert list(dict.fromkeys(type(event) for event in events)) == [TextDelta, CallDelta, Replied]

    async def test_the_last_event_needs_no_blank_line(self, api: Api) -> None:
        async with talking(api, [Turn("Hi.", calls=WEATHER_CALLS, fault="unended")]) as (_, model):
            assert len((await reply_of(model, HELLO)).calls) == 2

    async def test_two_turns_at_once_share_the_model(self, api: Api) -> None:
        async with talking(api, [Turn(text="Hi."), Turn(text="Hi.")]) as (server, model):
            both = await asyncio.gather(reply_of(model, HELLO), reply_of(model, HELLO))
        assert [message.text for message in both] == ["Hi.", "Hi."]
        assert len(server.asked) == 2

    async def test_what_is_shown_as_the_request_is_what_is_sent(self, api: Api) -> None:
        async with talking(api, [Turn(text="Hi.")], options={"top_p": 0.5}) as (server, model):
            begun, tools = _begun(model), lower_all(TOOLS, target_for(api)).tools
            prompt = Prompt(MODELS[api], begun.instructions, begun.items, tools, stream=True, options={"top_p": 0.5})
            shown = codec_for(api, MODELS[api], server.url(api)).request(prompt)
            async with aclosing(model.reply(_begun(model), TOOLS)) as events:
                assert [type(event) async for event in events][-1] is Replied
        assert msgspec.json.decode(shown) == server.asked[0].body

    async def test_a_connection_that_breaks_after_the_end_does_no_harm(self, api: Api) -> None:
        async with talking(api, [Turn("Hi.", calls=WEATHER_CALLS, fault="late_break")]) as (_, model):
            message = await reply_of(model, HELLO)
        assert (message.text, len(message.calls)) == ("Hi.", 2)

    async def test_what_a_person_hears_comes_as_it_is_said(self, api: Api) -> None:
        turn = Turn("A text that is long enough for some events.", fault="hang_midway")
        async with talking(api, [turn]) as (server, model):
            async with aclosing(model.reply(_begun(model), TOOLS)) as events:
                async with asyncio.timeout(60):
                    first = await anext(events)
                assert isinstance(first, TextDelta)
            # Closing the events closes the connection, so that the server stops and no more tokens are paid for.
            await asyncio.wait_for(server.gone.wait(), 60)

    async def test_a_cancelled_turn_closes_its_connection(self, api: Api) -> None:
        async with talking(api, [Turn(fault="hang")]) as (server, model):
            asking = asyncio.create_task(ask(model, HELLO))
            while not server.asked:
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(server.gone.wait(), 60)

    async def test_a_request_above_the_bound_says_that_it_waits_and_is_answered_later(self, api: Api) -> None:
        turn = Turn("A text that is long enough for some events.", fault="hang_midway")
        async with talking(api, [turn, Turn(text="Second.")], requests=1) as (server, model):
            async with aclosing(model.reply(_begun(model), TOOLS)) as first:
                await asyncio.wait_for(anext(first), 60)
                second = model.reply(_begun(model), TOOLS)
                assert await asyncio.wait_for(anext(second), 60) == Queued(1)
                assert len(server.asked) == 1
            rest = [event async for event in second]
        assert isinstance(rest[-1], Replied) and rest[-1].message.text == "Second."

    async def test_a_closed_model_can_be_asked_again(self, api: Api) -> None:
        async with talking(api, [Turn(text="One."), Turn(text="Two.")]) as (_, model):
            assert (await reply_of(model, HELLO)).text == "One."
            await model.close()
            assert (await reply_of(model, HELLO)).text == "Two."

    async def test_the_names_of_tools_find_their_way_back(self, api: Api) -> None:
        odd = spec_of("server__list.files/all")
        async with FakeModelServer([]) as server:
            model = model_at(server, api)
            (lowered,) = lower_all((odd,), target_for(api)).tools
            server.script.append(Turn(calls=(Call(lowered.name),)))
            message = await reply_of(model, HELLO, (odd,))
            await model.close()
        assert [call.name for call in message.calls] == ["server__list.files/all"]

    async def test_a_tool_that_the_api_can_not_take_is_left_out_and_told(self, api: Api) -> None:
        broken = msgspec.structs.replace(spec_of("broken"), parameters={"type": "object", "properties": 3})
        async with talking(api, [Turn(text="Hi.")]) as (server, model):
            await ask(model, HELLO, (*TOOLS, broken))
            quarantined = lower_all((*TOOLS, broken), target_for(api)).quarantined
            assert [tool.spec.name for tool in quarantined] == ["broken"]
        assert "broken" not in str(server.asked[0].body)
        assert "camera" in str(server.asked[0].body)

    async def test_strict_tools_get_no_null_for_what_was_left_out(self, api: Api) -> None:
        optional = spec_of("find", {"name": {"type": "string"}, "limit": {"type": "integer"}}, ["name"])
        left_out, whole = Call("find", '{"name":"x","limit":null}'), Call("find", '{"name":"y"}')
        script = [Turn(calls=(left_out, left_out, Call("other", "{}"))), Turn(calls=(whole,))]
        async with talking(api, script, strict=True) as (server, model):
            first = await reply_of(model, HELLO, (optional,))
            second = await reply_of(model, HELLO, (optional,))
        is_strict = "'strict': True" in str(server.asked[0].body["tools"])
        kept = {"name": "x"} if is_strict else {"name": "x", "limit": None}
        assert is_strict is api.startswith("openai")
        assert [msgspec.json.decode(call.arguments) for call in first.calls] == [kept, kept, {}]
        assert second.calls[0].arguments == '{"name":"y"}'

    async def test_broken_arguments_of_a_strict_tool_stay_broken_for_the_engine_to_say(self, api: Api) -> None:
        script = [Turn(calls=(Call("weather", '{"city":'),))] if api.startswith("openai") else []
        async with talking(api, [*script, Turn(calls=(Call("weather", "{}"),))], strict=True) as (_, model):
            message = await reply_of(model, HELLO)
        assert [call.arguments for call in message.calls] == (['{"city":'] if script else ["{}"])


@pytest.mark.parametrize(
    ("base", "path", "whole"),
    [
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1beta/", "/v1beta/models/m:x?alt=sse", "https://a.example/v1beta/models/m:x?alt=sse"),
        ("https://a.example/proxy/v1", "/chat/completions", "https://a.example/proxy/v1/chat/completions"),
        ("https://a.example/responses", "/responses", "https://a.example/responses/responses"),
    ],
)
async def test_a_version_in_base_url_and_path_is_meant_once(api: Api, base: str, path: str, whole: str) -> None:
    assert join_url(base, path) == whole


def _begun(model: HttpModel) -> EncodedProjection:
    projection = model.projection()
    projection.append(user("Hello"))
    return projection


def _model(
    api: Api,
    *,
    base_url: str,
    key: str = "",
    guard: NetGuard = NetGuard(),  # noqa: B008 - it holds no state that tests could share
    stream: bool = True,
    pause: Pauses | None = None,
) -> HttpModel:
    target, codec = target_for(api), codec_for(api)
    given = ModelSettings(base_url=base_url, key=key, model="m", stream=stream)
    return HttpModel(codec, guard, given, target=target, pause=pause or Pauses())


async def _nobody(host: str, port: int) -> Sequence[str]:
    raise OSError("Name or service not known")


async def _metadata(host: str, port: int) -> Sequence[str]:
    return ["169.254.169.254"]


def _arguments(events: Sequence[ModelEvent]) -> list[str]:
    """The arguments of each call, out of the deltas."""
    by_index: dict[int, str] = {}
    for event in events:
        if isinstance(event, CallDelta):
            by_index[event.index] = by_index.get(event.index, "") + event.arguments
    return [by_index[index] for index in sorted(by_index)]
