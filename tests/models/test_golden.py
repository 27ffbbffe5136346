"""The golden cases: whole conversations over every API, each request judged by what the real API would refuse."""

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.artifacts import ArtifactRef
from handspan.core.calls import new_call_id
from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    Native,
    Part,
    RepliesInARow,
    ResultsMessage,
    StopReason,
    Text,
    Thinking,
    UnpairedCalls,
    UserMessage,
    check_all,
    check_next,
)
from handspan.core.results import Attachment
from handspan.core.values import Json
from handspan.models.choice import codec_for, target_for
from handspan.models.model import Prompt
from handspan.models.projection import EncodedProjection
from handspan.models.schema.lowering import lower_all
from tests.models.conversations import (
    APIS,
    MODELS,
    PIXEL,
    TOOLS,
    answers,
    failure,
    model_at,
    reply_of,
    success,
    talking,
    user,
)
from tests.models.fake_replies import Words
from tests.models.fake_server import Asked, Call, FakeModelServer, Turn
from tests.models.schema.validators import VALIDATORS, Issued, check_gemini
from tests.thoroughness import examples

PICTURE = Attachment("image", "image/png", PIXEL, name="photo.png")
THREE = Turn(
    "I look.",
    "Three things at once.",
    (Call("weather", '{"city":"Tōkyō"}'), Call("weather", '{"city":"nowhere"}'), Call("camera")),
)


def _round(message: AssistantMessage) -> ResultsMessage:
    """One success, one error, one image."""
    first, second, third = message.calls
    return answers(message, success(first, {"degrees": 21}), failure(second), success(third, "a photo", PICTURE))


def _refusals(asked: Sequence[Asked]) -> list[str]:
    return [request.refused for request in asked if request.refused]


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
async def test_three_parallel_calls_with_an_error_and_an_image(api: Api, stream: bool) -> None:
    async with talking(api, [THREE, Turn(text="Done.")], stream=stream) as (server, model):
        history: list[Message] = [user("What is going on?")]
        history.append(await reply_of(model, history))
        assert isinstance(history[-1], AssistantMessage)
        history.append(_round(history[-1]))
        assert (await reply_of(model, history)).text == "Done."
    sent = msgspec.json.encode(server.asked[1].body).decode()
    assert _refusals(server.asked) == []
    assert "File not found: x" in sent
    assert sent.count("iVBORw0KGgo") == 1  # the image, as an image


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
async def test_two_chained_rounds_send_the_models_own_state_back_unchanged(api: Api, stream: bool) -> None:
    script = [
        Turn("", "First I need the weather.", (Call("weather", '{"city":"Tōkyō"}'),)),
        Turn("", "Now a photo.", (Call("camera"), Call("camera"))),
        Turn(text="Done."),
    ]
    async with talking(api, script, stream=stream) as (server, model):
        history: list[Message] = [user("Look around.")]
        for _ in script:
            history.append(await reply_of(model, history))
            assert isinstance(history[-1], AssistantMessage)
            if history[-1].calls:
                history.append(answers(history[-1]))
    assert _refusals(server.asked) == []
    sent = msgspec.json.encode(server.asked[2].body).decode()
    state = server.issued.signatures or {"First I need the weather."}
    assert len(server.issued.signatures) == (0 if api == "openai-chat" else 2)
    assert all(sealed in sent for sealed in state)


@pytest.mark.anyio
@pytest.mark.parametrize("origin", APIS)
async def test_one_stored_run_goes_to_all_four_and_foreign_state_to_none(origin: Api) -> None:
    async with FakeModelServer([THREE, Turn("Done.", "That was easy.")]) as server:
        model = model_at(server, origin)
        history: list[Message] = [user("What is going on?")]
        history.append(await reply_of(model, history))
        assert isinstance(history[-1], AssistantMessage)
        history += [_round(history[-1])]
        history += [await reply_of(model, history), user("Once more?")]
        await model.close()
        for api in APIS:
            other = model_at(server, api)
            server.script.append(Turn(text="Again."))
            assert (await reply_of(other, history)).text == "Again."
            await other.close()
            sent = msgspec.json.encode(server.asked[-1].body).decode()
            is_own = api == origin
            assert any(sealed in sent for sealed in server.issued.signatures) is (is_own and api != "openai-chat")
            assert ("Three things at once." in sent) <= is_own
    assert _refusals(server.asked) == []


@pytest.mark.anyio
@pytest.mark.parametrize("api", APIS)
async def test_a_chain_of_twelve_rounds(api: Api) -> None:
    script = [Turn(f"Step {step}.", "Hm.", (Call("weather", f'{{"city":"{step}"}}'),)) for step in range(12)]
    async with talking(api, [*script, Turn(text="Done.")]) as (server, model):
        projection = model.projection("Be brief.")
        projection.append(user("Go."))
        for _ in range(12):
            said = [event async for event in model.reply(projection, TOOLS)][-1]
            message = said.message  # type: ignore[union-attr] # `Replied` is always last
            projection.append(message)
            projection.append(answers(message))
        said = [event async for event in model.reply(projection, TOOLS)][-1]
    assert said.message.text == "Done."  # type: ignore[union-attr] # as above
    assert len(projection) == 25
    assert _refusals(server.asked) == []


@pytest.mark.anyio
@pytest.mark.parametrize("order", list(itertools.permutations(APIS))[::5])
async def test_the_api_may_change_in_mid_conversation(order: tuple[Api, ...]) -> None:
    async with FakeModelServer([]) as server:
        models = {api: model_at(server, api) for api in order}
        history: list[Message] = [user("Look around, whoever you are.")]
        for step, api in enumerate(order * 2):
            server.script.append(Turn(f"Step {step}.", "Hm.", THREE.calls))
            message = await reply_of(models[api], history)
            history += [message, _round(message)]
        for model in models.values():
            await model.close()
    check_all(history)
    assert _refusals(server.asked) == []
    assert len(server.asked) == 8


# Any interleaving of what can happen gives a history that all four APIs take (SPEC M4).

words = st.one_of(st.sampled_from(["", " ", "Hello", "\n", "世界 🌍", "a" * 50]), st.text(max_size=8))
names = st.sampled_from(["weather", "camera", "no_such_tool", "a bad name!", "x" * 90, ""])
arguments = st.sampled_from(["", "{}", '{"city":"x"}', '{"city":', "[1]", "null", '{"a":{"$ref":"#"}}', "not json"])
media = st.sampled_from(
    [
        PICTURE,
        Attachment("file", "application/pdf", b"%PDF-1.4", name="a.pdf"),
        Attachment("audio", "audio/wav", b"RIFF"),
        Attachment("file", "text/plain", b"plain words", name="a.txt"),
        Attachment("file", "application/x-odd", b"\x00\xff"),
        Attachment("image", "image/png", artifact=ArtifactRef("a1", 10**7, "image/png", "big.png")),
    ]
)
users = st.lists(st.one_of(words.map(Text), media.map(Media)), max_size=3).map(lambda parts: UserMessage(tuple(parts)))
STOPS: tuple[StopReason, ...] = ("end", "calls", "length", "aborted", "refusal", "other")
said = st.lists(st.one_of(words.map(Text), words.map(Thinking)), max_size=3)


@st.composite
def scripted_turns(draw: st.DrawFn) -> Turn:
    """A turn as a real model of some API would take it."""
    calls = draw(st.lists(st.sampled_from(THREE.calls), max_size=3))
    return Turn(draw(words), draw(st.sampled_from(["", "Hm."])), tuple(calls), ids=draw(st.booleans()))


@st.composite
def assistants(draw: st.DrawFn) -> AssistantMessage:
    """What a model of some API said; with its native form, or without one (offline, aborted)."""
    if draw(st.booleans()):
        api = draw(st.sampled_from(APIS))
        turn = draw(scripted_turns())
        body = msgspec.json.decode(Words(api, Issued(), itertools.count(1)).whole(turn, MODELS[api]))
        try:
            return codec_for(api, MODELS[api]).decode(body, {tool.name: tool.name for tool in TOOLS}, MODELS[api])
        except Exception as error:
            raise AssertionError(f"{api} can't read {body}") from error
    parts: list[Part] = [*draw(said)]
    ids = draw(st.lists(st.sampled_from(["", "call_1", "call_1", "x!y", "z" * 70]), max_size=3))
    parts += [CallPart(new_call_id(), draw(names), draw(arguments), wire_id) for wire_id in ids]
    stop = draw(st.sampled_from(STOPS))
    native = draw(st.sampled_from([None, *(Native(api, MODELS[api], _odd_native(api)) for api in APIS)]))
    return AssistantMessage(tuple(parts), stop, "m", None, native)


def _odd_native(api: Api) -> Json:
    """Native content of a turn whose calls are not in the message, such as after a cut."""
    call = Turn("Hm.", "", (Call("weather", '{"city":"lost"}'),))
    body = msgspec.json.decode(Words(api, Issued(), itertools.count(900)).whole(call, "m"))
    native: Json
    match api:
        case "openai-chat":
            native = body["choices"][0]["message"]
        case "openai-responses":
            native = body["output"]
        case "anthropic":
            native = body["content"]
        case "gemini":
            native = body["candidates"][0]["content"]
    return native


@st.composite
def results(draw: st.DrawFn, calls: Sequence[CallPart]) -> ResultsMessage:
    made = []
    for call in calls:
        attachments = tuple(draw(st.lists(media, max_size=2)))
        kind = draw(st.sampled_from(["good", "bad", "interrupted", "empty"]))
        good = success(call, {"text": draw(words)}, *attachments)
        bad = msgspec.structs.replace(failure(call), attachments=attachments)
        closed = CallResult(call.id, call.name, '{"status":"error","code":"interrupted"}', is_error=True)
        empty = CallResult(call.id, call.name, "")
        made.append({"good": good, "bad": bad, "interrupted": closed, "empty": empty}[kind])
    return ResultsMessage(tuple(made))


@st.composite
def histories(draw: st.DrawFn, *, replies_in_a_row: bool = False) -> list[Message]:
    """A history as the store lets it become: what `check_next` refuses is not kept, what is open is closed honestly.

    With `replies_in_a_row` as stores of old versions let it become.
    """
    kept: list[Message] = [UserMessage((Text("Go."),))]
    for _ in range(draw(st.integers(0, 8))):
        last = kept[-1]
        open_calls = last.calls if isinstance(last, AssistantMessage) else ()
        coming: list[Message]
        event = st.sampled_from(
            ["say", "answer", "answer twice", "finish", "late", "duplicate", "reorder", "crash", "cancel"]
        )
        match draw(event):
            case "say":
                coming = [
                    UserMessage(
                        (*draw(st.lists(words.map(Text), max_size=2)), *map(Media, draw(st.lists(media, max_size=1))))
                    )
                ]
            case "answer":
                coming = [draw(assistants())]
            case "answer twice":  # two that work on one session, or one that does not know where it is
                coming = [draw(assistants()), draw(assistants())]
            case "finish":
                coming = [draw(results(open_calls))]
            case "late":  # the result of a call that was closed long ago
                coming = [ResultsMessage((CallResult("gone", "weather", "{}"),))]
            case "duplicate":
                coming = [last]
            case "reorder":
                coming = [draw(results(open_calls[::-1]))]
            case "crash":  # after a restart every open call is closed
                coming = [draw(results(open_calls))] if open_calls else []
            case _:  # cancelled in mid-answer: what arrived is kept
                coming = [AssistantMessage((Text(draw(words)),), "aborted")]
        for message in coming:
            if _is_kept(kept, message, replies_in_a_row=replies_in_a_row):
                kept.append(message)
    if isinstance(kept[-1], AssistantMessage) and kept[-1].calls:
        kept.append(draw(results(kept[-1].calls)))
    if not isinstance(kept[-1], ResultsMessage):
        kept.append(UserMessage((Text("And now?"),)))
    return kept


def _is_kept(kept: Sequence[Message], coming: Message, *, replies_in_a_row: bool) -> bool:
    try:
        check_next(kept[-1], coming)
    except RepliesInARow:
        return replies_in_a_row
    except UnpairedCalls:
        return False
    return True


def test_a_reply_that_comes_after_a_reply_is_not_part_of_a_history() -> None:
    """The histories below are exactly those that can be stored."""
    reply = AssistantMessage((Text("Hm."),))
    assert not _is_kept([reply], reply, replies_in_a_row=False)
    assert _is_kept([reply], reply, replies_in_a_row=True)
    calling = AssistantMessage((CallPart("c1", "weather", "{}"),), "calls")
    assert not _is_kept([calling], reply, replies_in_a_row=True)


@given(history=st.one_of(histories(), histories(replies_in_a_row=True)))
@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@pytest.mark.parametrize("api", APIS)
def test_whatever_happened_every_api_takes_the_history(api: Api, history: list[Message]) -> None:
    check_all(history)
    codec, issued = codec_for(api, MODELS[api]), Issued()
    projection = EncodedProjection(codec, "Be brief.")
    for message in history:
        projection.append(message)
    tools = lower_all(TOOLS, target_for(api)).tools
    raw = codec.request(Prompt(MODELS[api], "Be brief.", projection.items, tools, stream=True))
    body = msgspec.json.decode(raw)
    VALIDATORS[api](body, issued)
    if api == "gemini":
        check_gemini(body, issued, model=MODELS[api])
