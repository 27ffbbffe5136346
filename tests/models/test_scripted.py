"""The model that plays a script."""

from collections.abc import Sequence

import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallResult,
    Media,
    Message,
    ResultsMessage,
    Text,
    Thinking,
    UnpairedCalls,
    Usage,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.models.kept_messages import KeptMessages, message_events
from handspan.models.model import CallDelta, Model, ModelError, ModelEvent, Replied, TextDelta, ThinkingDelta
from handspan.models.scripted import Call, Scripted, ScriptedReply, ScriptOver, ScriptTurn, call
from handspan.tools.clock import GetCurrentTime
from handspan.tools.files import ReadFile

pytestmark = pytest.mark.anyio

SPECS = [GetCurrentTime.spec, ReadFile.spec]


def asked(model: Scripted, text: str = "go") -> KeptMessages:
    projection = model.projection("be brief")
    projection.append(UserMessage((Text(text),)))
    return projection


async def events_of(model: Model, projection: KeptMessages) -> list[ModelEvent]:
    return [event async for event in model.reply(projection, SPECS)]


async def answer_of(turn: ScriptTurn) -> AssistantMessage:
    model = Scripted([turn])
    last = (await events_of(model, asked(model)))[-1]
    assert isinstance(last, Replied)
    return last.message


async def test_script_that_is_over_says_so_and_what_was_asked() -> None:
    model = Scripted(["first"], name="my double")
    projection = asked(model, "a long question " * 50)
    await events_of(model, projection)
    with pytest.raises(ScriptOver, match=r"'my double' is over: it has 1 turn, and this is request 2.*a long question"):
        await events_of(model, projection)


async def test_empty_script_is_over_at_once_even_when_it_loops() -> None:
    model = Scripted([], loop=True)
    with pytest.raises(ScriptOver, match=r"it has 0 turns, and this is request 1.*The last message: none"):
        await events_of(model, model.projection())


async def test_exception_as_a_turn_is_raised_and_the_script_goes_on() -> None:
    model = Scripted([ModelError("overloaded", "come back later", status=529), "here I am"])
    projection = asked(model)
    with pytest.raises(ModelError, match="come back later") as failed:
        await events_of(model, projection)
    assert (failed.value.fault, failed.value.status) == ("overloaded", 529)
    assert TextDelta("here I am") in await events_of(model, projection)


async def test_results_that_belong_to_no_call_are_refused() -> None:
    model = Scripted(["x"])
    with pytest.raises(UnpairedCalls):
        asked(model).append(ResultsMessage((CallResult("nobody", "read_file", "{}"),)))


async def test_text_comes_in_a_few_deltas_that_make_up_the_whole() -> None:
    text = "one two three " * 40
    model = Scripted([text])
    events = await events_of(model, asked(model))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert 1 < len(deltas) <= 9
    assert "".join(deltas) == text
    assert events[-1] == Replied(AssistantMessage((Text(text),), "end", "scripted"))


async def test_calls_come_with_name_and_arguments_and_an_index_each() -> None:
    model = Scripted([["let me see", call("read_file", path="a"), Call("get_current_time", "{broken")]])
    events = await events_of(model, asked(model))
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(0, name="read_file"),
        CallDelta(0, arguments='{"path":"a"}'),
        CallDelta(1, name="get_current_time"),
        CallDelta(1, arguments="{broken"),
    ]
    last = events[-1]
    assert isinstance(last, Replied)
    assert last.message.stop == "calls"
    assert [one.arguments for one in last.message.calls] == ['{"path":"a"}', "{broken"]
    assert len({one.id for one in last.message.calls}) == 2


async def test_call_without_arguments_is_called_with_an_empty_object() -> None:
    assert (await answer_of(call("get_current_time"))).calls[0].arguments == "{}"


async def test_thinking_is_streamed_and_kept_apart_from_the_text() -> None:
    model = Scripted([[Thinking("hm"), "yes"]])
    events = await events_of(model, asked(model))
    assert events[:2] == [ThinkingDelta("hm"), TextDelta("yes")]
    assert (await answer_of([Thinking("hm"), "yes"])).text == "yes"


async def test_turn_can_carry_usage_and_another_reason_to_stop() -> None:
    answer = await answer_of(ScriptedReply(["cut off"], usage=Usage(3, 4), stop="length"))
    assert (answer.usage, answer.stop) == (Usage(3, 4), "length")
    assert (await answer_of("plain")).usage is None


async def test_function_as_a_turn_answers_from_what_was_said() -> None:
    def shout(messages: Sequence[Message]) -> str:
        last = messages[-1]
        assert isinstance(last, UserMessage)
        return "".join(part.text for part in last.parts if isinstance(part, Text)).upper()

    assert (await answer_of(shout)).text == "GO"


async def test_what_the_model_was_sent_is_kept_as_it_was_then() -> None:
    model = Scripted([call("get_current_time"), "done"])
    projection = asked(model)
    last = (await events_of(model, projection))[-1]
    assert isinstance(last, Replied)
    projection.append(last.message)
    projection.append(ResultsMessage((CallResult(last.message.calls[0].id, "get_current_time", "{}"),)))
    await events_of(model, projection)
    assert [len(request.messages) for request in model.requests] == [1, 3] == [1, len(projection)]
    assert model.requests[0].tools == ("get_current_time", "read_file")
    assert model.requests[0].instructions == "be brief"


async def test_media_of_an_answer_is_kept_and_has_no_deltas() -> None:
    answer = AssistantMessage((Media(Attachment("image", "image/png", b"x")), Text("see")), "end")
    assert list(message_events(answer)) == [TextDelta("see"), Replied(answer)]


async def test_model_has_the_name_under_which_usage_is_counted() -> None:
    assert (Scripted([]).name, Scripted([], name="double").name) == ("scripted", "double")


async def test_looping_script_begins_again() -> None:
    model = Scripted(["tick", "tock"], loop=True)
    projection = asked(model)
    texts = [event.text for _ in range(5) for event in await events_of(model, projection) if type(event) is TextDelta]
    assert texts == ["tick", "tock", "tick", "tock", "tick"]
