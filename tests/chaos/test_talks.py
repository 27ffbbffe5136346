"""What must be left of a conversation, and what is found when it is not."""

from handspan.core.messages import AssistantMessage, Message, Text, UserMessage
from tests.chaos.talks import missing_from


def said(text: str) -> Message:
    return UserMessage((Text(text),))


ANSWER = AssistantMessage((Text("so be it"),))


def test_what_was_answered_and_is_there_once_is_not_missing() -> None:
    assert missing_from([said("a"), ANSWER, said("b")], ["a"]) == []


def test_what_is_gone_was_said_twice_or_has_no_answer_is_missing() -> None:
    assert missing_from([said("a"), ANSWER, said("a"), ANSWER, said("c")], ["a", "b", "c"]) == ["a", "b", "c"]
