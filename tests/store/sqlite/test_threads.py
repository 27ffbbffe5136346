"""What a message takes along when it is removed."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from handspan.core.messages import Message, ResultsMessage, UserMessage, check_all
from handspan.store.tables.threads import Kind, removal_range
from tests.store.things import answers, asks, says, user

TURNS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 3), st.booleans()), max_size=6
)  # words of the person, rounds, an answer


def kinds_of(messages: list[Message]) -> list[Kind]:
    return [
        "user" if isinstance(one, UserMessage) else "results" if isinstance(one, ResultsMessage) else "assistant"
        for one in messages
    ]


@given(TURNS, st.data())
def test_whatever_is_removed_the_rest_can_stand(turns: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    messages: list[Message] = []
    for said, rounds, is_answered in turns:
        messages += [user()] * said
        for number in range(rounds):
            messages += [asks(f"{len(messages)}-{number}"), answers(f"{len(messages)}-{number}")]
        messages += [says()] if is_answered else []
    while messages:
        seq = data.draw(st.integers(1, len(messages)))
        first, last = removal_range(kinds_of(messages), seq)
        assert 1 <= first <= seq <= last <= len(messages)
        del messages[first - 1 : last]
        check_all(messages)
        kinds = kinds_of(messages)
        assert ("assistant", "assistant") not in list(pairwise(kinds))
        assert not kinds or kinds[0] == "user"
