"""A projection: encoded once, appended to, never with a call whose result is not next to it (SPEC M4)."""

from collections.abc import Sequence

import msgspec
import pytest

from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    UnpairedCalls,
)
from handspan.models.choice import codec_for
from handspan.models.kept_messages import KeptMessages
from handspan.models.projection import EncodedProjection
from tests.models.conversations import APIS, user

CALLING = AssistantMessage((CallPart("c1", "weather", "{}", "w1"), CallPart("c2", "camera", "{}", "w2")), "calls")


def results(*ids: str) -> ResultsMessage:
    return ResultsMessage(tuple(CallResult(call_id, "weather", "{}") for call_id in ids))


def project(api: Api, messages: Sequence[Message]) -> EncodedProjection:
    projection = EncodedProjection(codec_for(api), "Be brief.")
    for message in messages:
        projection.append(message)
    return projection


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "coming",
    [user("?"), CALLING, results("c1"), results("c2", "c1"), results("c1", "c2", "c3"), results("c1", "c1"), results()],
)
def test_what_must_not_follow_a_call_changes_nothing(api: Api, coming: Message) -> None:
    projection = project(api, [user("Go."), CALLING])
    before = list(projection.items)
    with pytest.raises(UnpairedCalls):
        projection.append(coming)
    assert (list(projection.items), len(projection)) == (before, 2)
    projection.append(results("c1", "c2"))


@pytest.mark.parametrize("api", APIS)
def test_a_result_without_a_call_is_refused(api: Api) -> None:
    before: list[Message] = [user("Go."), CALLING, results("c1", "c2")]
    for count in (0, 1, 3):
        projection = project(api, before[:count])
        with pytest.raises(UnpairedCalls):
            projection.append(results("c1"))


@pytest.mark.parametrize("api", APIS)
def test_open_calls_make_it_incomplete(api: Api) -> None:
    projection = project(api, [user("Go."), CALLING])
    with pytest.raises(UnpairedCalls, match="c1"):
        projection.check_complete()
    projection.append(results("c1", "c2"))
    projection.check_complete()


@pytest.mark.parametrize("api", APIS)
def test_what_was_encoded_stays_as_it_is(api: Api) -> None:
    messages: list[Message] = [user("Go."), CALLING, results("c1", "c2"), AssistantMessage(()), user("More.")]
    projection = project(api, [])
    items: list[bytes] = []
    for message in messages:
        projection.append(message)
        assert list(projection.items[: len(items)]) == items
        items = list(projection.items)
    assert (len(projection), projection.instructions, projection.api) == (5, "Be brief.", api)
    assert all(isinstance(msgspec.json.decode(item), dict) for item in items)


@pytest.mark.parametrize("api", APIS)
def test_replies_in_a_row_of_an_old_conversation_are_sent_as_one(api: Api) -> None:
    """Versions before kept them. What comes before and after them is encoded as ever."""
    one, two, nothing = AssistantMessage((Text("one"),)), AssistantMessage((Text("two"),)), AssistantMessage(())
    three = AssistantMessage((Text("three"), *CALLING.parts), "calls")
    joined = AssistantMessage((Text("one"), Text("two"), *three.parts), "calls")
    old: list[Message] = [user("Go."), one, two, nothing, three, results("c1", "c2"), user("And?"), two]
    new: list[Message] = [user("Go."), joined, results("c1", "c2"), user("And?"), two]
    projection = project(api, old)
    assert projection.items == project(api, new).items
    assert len(projection) == len(old)
    plain = KeptMessages()
    for message in old:
        plain.append(message)
    assert plain.messages == new


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_the_models_own_ids_go_back_unless_they_repeat(api: Api) -> None:
    again = AssistantMessage((CallPart("c3", "weather", "{}", "w1"),), "calls")
    messages: list[Message] = [user("Go."), CALLING, results("c1", "c2"), again, results("c3"), user("Go on.")]
    items = [msgspec.json.decode(item) for item in project(api, messages).items]
    key = "tool_call_id" if api == "openai-chat" else "call_id"
    answered = [item[key] for item in items if item.get("role") == "tool" or item.get("type") == "function_call_output"]
    assert answered[:2] == ["w1", "w2"]
    assert len(set(answered)) == 3
    assert answered[2] in str([item for item in items if "tool_calls" in item or item.get("type") == "function_call"])
