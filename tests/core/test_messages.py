"""What may follow what in a conversation (SPEC M4)."""

import itertools

import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    Native,
    RepliesInARow,
    ResultsMessage,
    Text,
    Thinking,
    UnpairedCalls,
    Usage,
    UserMessage,
    check_all,
    check_next,
    merge_replies,
)

SAID = UserMessage((Text("hello"),))
REPLIED = AssistantMessage((Text("yes"),))
ABORTED = AssistantMessage((), "aborted")
CALLED = AssistantMessage((CallPart("c1", "double", "{}"), CallPart("c2", "double", "{}")), "calls")
ANSWERED = ResultsMessage((CallResult("c1", "double", "{}"), CallResult("c2", "double", "{}")))


@pytest.mark.parametrize("last", [REPLIED, ABORTED])
@pytest.mark.parametrize("coming", [REPLIED, ABORTED, CALLED])
def test_a_reply_straight_after_a_reply_is_refused(last: Message, coming: Message) -> None:
    with pytest.raises(RepliesInARow, match="a user message has to stand between them, or results"):
        check_next(last, coming)


@pytest.mark.parametrize("coming", [SAID, REPLIED, CALLED, ABORTED])
def test_while_calls_are_open_only_their_results_may_come(coming: Message) -> None:
    with pytest.raises(UnpairedCalls, match=r"the calls \['c1', 'c2'\] have no results yet"):
        check_next(CALLED, coming)
    with pytest.raises(UnpairedCalls, match="have no results yet"):
        check_all([SAID, CALLED, coming])


@pytest.mark.parametrize(
    ("last", "coming"),
    [
        (None, ANSWERED),
        (SAID, ANSWERED),
        (REPLIED, ANSWERED),
        (ANSWERED, ANSWERED),
        (REPLIED, ResultsMessage(())),
        (CALLED, ResultsMessage(ANSWERED.results[:1])),
        (CALLED, ResultsMessage(ANSWERED.results[::-1])),
        (CALLED, ResultsMessage((*ANSWERED.results, ANSWERED.results[0]))),
    ],
)
def test_results_that_answer_something_else_are_refused(last: Message | None, coming: Message) -> None:
    with pytest.raises(UnpairedCalls, match="can't follow calls"):
        check_next(last, coming)
    with pytest.raises(UnpairedCalls, match="can't follow calls"):
        check_all([coming] if last is None else [last, coming])


def test_a_conversation_that_is_right_passes() -> None:
    messages: list[Message] = [SAID, SAID, CALLED, ANSWERED, CALLED, ANSWERED, SAID, CALLED, ANSWERED, REPLIED]
    messages += [SAID, ABORTED, SAID]
    check_all(messages)
    check_next(None, SAID)
    check_next(None, REPLIED)
    for last, coming in itertools.pairwise(messages):
        check_next(last, coming)


# What versions before kept.


def test_replies_in_a_row_of_an_old_conversation_pass_when_all_is_checked() -> None:
    check_all([SAID, REPLIED, ABORTED, REPLIED, CALLED, ANSWERED])


def test_two_replies_as_one_have_all_parts_and_end_like_the_second() -> None:
    native = Native("anthropic", "m1", [])
    first = AssistantMessage((Thinking("hm"), Text("one")), "length", "m1", Usage(1, 2), native)
    second = AssistantMessage((Text("two"), CallPart("c1", "double", "{}")), "calls", "m2", Usage(3, 4), native)
    assert merge_replies(first, second) == AssistantMessage((*first.parts, *second.parts), "calls", "m2")


@pytest.mark.parametrize(
    ("last", "coming"), [(None, REPLIED), (SAID, REPLIED), (REPLIED, SAID), (CALLED, REPLIED), (CALLED, ANSWERED)]
)
def test_nothing_else_becomes_one(last: Message | None, coming: Message) -> None:
    assert merge_replies(last, coming) is None
