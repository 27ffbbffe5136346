"""What is made shorter follows from sizes, marks and limits alone, and never breaks the conversation (SPEC L1, M4)."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from handspan.agent.compaction.planner import Plan, PlanLimits, plan, start_of_last_turn, visible_size
from handspan.agent.compaction.sizes import MessageSizes
from handspan.agent.compaction.view import text_of, visible
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    UserMessage,
    check_all,
    check_next,
)
from handspan.core.records import ContextMarks
from tests.thoroughness import examples

_LIMITS = st.builds(
    lambda target, more, summary, request: PlanLimits(target + more, target, summary, request),
    st.integers(300, 20_000),
    st.integers(0, 10_000),
    st.sampled_from([0, 100, 500]),
    st.integers(500, 20_000),
)


def user(size: int, turn: str = "") -> UserMessage:
    return UserMessage((Text("w" * 4 * size),), turn=turn)


def round_of(number: int, sizes: Sequence[int], words: int = 3) -> list[Message]:
    """A reply with calls, and their results of about so many tokens."""
    calls = [CallPart(f"call_{number}_{place}", "read_file", "{}") for place, _ in enumerate(sizes)]
    results = [
        CallResult(call.id, call.name, '{"status":"success","result":"' + "r" * 3 * size + '"}')
        for call, size in zip(calls, sizes, strict=True)
    ]
    return [AssistantMessage((Text("w" * 4 * words), *calls), "calls"), ResultsMessage(tuple(results))]


def says(size: int) -> AssistantMessage:
    return AssistantMessage((Text("w" * 4 * size),))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of any shape: with rounds of calls, joined messages, no answer, or an end in the middle."""
    messages: list[Message] = []
    size = st.integers(0, 3000)
    for number in range(draw(st.integers(1, 12))):
        turn = f"turn_{number}"
        messages.append(user(draw(size), turn))
        for each in range(draw(st.integers(0, 4))):
            if each and draw(st.booleans()):
                messages.append(user(draw(st.integers(0, 50)), turn))
            messages += round_of(number * 10 + each, draw(st.lists(size, min_size=1, max_size=3)))
        if draw(st.integers(0, 5)):
            messages.append(says(draw(size)))
    if isinstance(messages[-1], AssistantMessage) and not messages[-1].calls:
        messages.append(user(draw(st.integers(0, 200)), "last"))
    check_all(messages)
    return messages


def carried_out(messages: list[Message], limits: PlanLimits, *, fails: bool = False) -> tuple[Plan, list[Plan]]:
    """The last plan, and all of them, with a summary of the size that was allowed wherever one is needed."""
    sizes, marks = MessageSizes(), ContextMarks()
    plans: list[Plan] = []
    while True:
        plans.append(plan(messages, sizes, marks, limits, moves=bool(plans)))
        cut = plans[-1].summarize
        if not cut:
            return plans[-1], plans
        if fails:
            limits = structs.replace(limits, summary=0)
            continue
        assert cut > marks.summarized, "each summary stands for more"
        text = "s" * 4 * (limits.summary - 1)
        marks = structs.replace(marks, summarized=cut, short=max(cut, marks.short), summary=text, made=len(messages))


@settings(max_examples=examples(150), deadline=None)
@given(conversations(), _LIMITS, st.booleans())
def test_whatever_is_cut_the_conversation_stays_one(messages: list[Message], limits: PlanLimits, fails: bool) -> None:
    last, _ = carried_out(messages, limits, fails=fails)
    marks, turn = last.marks, start_of_last_turn(messages)
    assert marks.summarized <= turn, "the last turn is never summarised"
    assert isinstance(messages[turn], UserMessage)
    seen = list(visible(messages, marks))
    before: Message | None = None
    for message in seen:  # no call without its result, and none of the person's messages behind the cut is missing
        check_next(before, message)
        before = message
    kept = [one for one in messages[marks.summarized :] if not isinstance(one, ResultsMessage)]
    shown = [one for one in seen if not isinstance(one, ResultsMessage)][bool(marks.summarized) :]
    assert len(shown) == len(kept) and shown[-1:] == kept[-1:]
    for (now, whole), after in zip(zip(shown, kept, strict=True), [*kept[1:], None], strict=True):
        assert now == whole or isinstance(after, UserMessage), "only a message without an answer is shown short"
    assert isinstance(seen[0], UserMessage)


@settings(max_examples=examples(150), deadline=None)
@given(conversations(), _LIMITS)
def test_it_ends_below_the_limit_or_says_by_how_much_it_can_not(messages: list[Message], limits: PlanLimits) -> None:
    last, _ = carried_out(messages, limits)
    sizes = MessageSizes()
    size = visible_size(sizes, last.marks, sizes.follow(messages))
    assert size <= limits.most + last.too_much
    if last.too_much:  # then nothing is left that could be shorter
        assert len(messages) - last.marks.short <= isinstance(messages[-1], UserMessage)
        assert last.marks.summarized in (start_of_last_turn(messages), 0)
    seen = MessageSizes()
    real = seen.whole[seen.follow(list(visible(messages, last.marks)))]
    assert real <= size + 150 * len(messages), "the sums are those of what the model sees"


@settings(max_examples=examples(60), deadline=None)
@given(conversations(), _LIMITS)
def test_the_same_history_gives_the_same_plan_and_a_second_one_changes_nothing(
    messages: list[Message], limits: PlanLimits
) -> None:
    last, plans = carried_out(messages, limits)
    again, same = carried_out(list(messages), limits)
    assert (again, same) == (last, plans)
    once_more = plan(messages, MessageSizes(), last.marks, structs.replace(limits, summary=0))
    if not last.too_much:
        assert once_more == Plan(last.marks)


def test_results_are_shortened_before_anything_is_summarised() -> None:
    messages = [user(10), *round_of(1, [3000]), says(10), user(10), *round_of(2, [100]), says(10), user(10)]
    last, plans = carried_out(messages, PlanLimits(2000, 1000, 500, 5000))
    assert len(plans) == 1 and (last.marks.short, last.marks.summarized) == (3, 0)


def test_older_messages_are_summarised_at_turns_and_no_further_than_needed() -> None:
    messages: list[Message] = [one for _ in range(20) for one in (user(100), says(100))]
    messages.append(user(10))
    limits = PlanLimits(3000, 1500, 300, 100_000)
    last, plans = carried_out(messages, limits)
    cut = plans[0].summarize
    assert isinstance(messages[cut], UserMessage) and 0 < cut < start_of_last_turn(messages)
    sizes = MessageSizes()
    count = sizes.follow(messages)
    assert visible_size(sizes, last.marks, count) <= 1500
    less = structs.replace(last.marks, summarized=cut - 2, short=cut - 2)
    assert visible_size(sizes, less, count) > 1500


def test_a_history_larger_than_a_request_is_summarised_in_steps() -> None:
    messages: list[Message] = [one for _ in range(60) for one in (user(100), says(100))]
    messages.append(user(10))
    _, plans = carried_out(messages, PlanLimits(1000, 700, 200, 2500))
    cuts = [one.summarize for one in plans if one.summarize]
    assert len(cuts) >= 4 and cuts == sorted(cuts)


def test_a_result_of_the_last_turn_that_alone_is_too_much_is_cut() -> None:
    messages = [user(10), *round_of(1, [9000])]
    last, _ = carried_out(messages, PlanLimits(2000, 1000, 300, 1000))
    assert not last.too_much and last.marks.room
    result = list(visible(messages, last.marks))[-1]
    assert isinstance(result, ResultsMessage)
    assert 2000 < len(result.results[0].envelope) < 6500 and "call_1_0" in result.results[0].envelope


def test_a_message_that_joined_belongs_to_the_turn_that_it_joined() -> None:
    joined: list[Message] = [user(1, "a"), *round_of(1, [1]), user(1, "a"), *round_of(2, [1])]
    assert start_of_last_turn([user(1, "x"), says(1), *joined]) == 2
    unanswered: list[Message] = [user(1, "x"), says(1), user(1, "failed"), user(1, "b")]
    assert start_of_last_turn(unanswered) == 2
    assert start_of_last_turn([]) == 0


@pytest.mark.parametrize("count", [1, 2])
def test_only_a_person_s_last_message_that_is_too_long_can_not_be_helped(count: int) -> None:
    last, _ = carried_out([user(5000)] * count, PlanLimits(2000, 1000, 300, 1000))
    assert last.too_much >= 3000


@pytest.mark.parametrize("between", [[], round_of(1, [10])], ids=["at once", "while a turn ran"])
def test_a_message_without_an_answer_that_is_too_long_is_shown_with_its_head_and_tail(between: list[Message]) -> None:
    said = UserMessage((Text("first " + "w" * 20_000 + " last"),))
    messages: list[Message] = [user(10), *between, said, user(10)]
    last, _ = carried_out(messages, PlanLimits(2000, 1000, 300, 1000))
    (seen,) = [one for one in visible(messages, last.marks) if isinstance(one, UserMessage) and "first" in text_of(one)]
    text = text_of(seen)
    assert not last.too_much and len(text) < 1000
    assert text.startswith("first ") and text.endswith(" last") and "characters of this message are not shown" in text
