"""So many connections a second have their turn to be read; the others wait in order (SPEC S7)."""

from handspan.gateway.serving.reading_turns import ReadingTurns
from tests.gateway.manual_loop import ManualLoop


class Connection:
    """Notes its turns in a list of all connections."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self._name = name
        self._turns = turns

    def read_on(self) -> None:
        self._turns.append(self._name)


def test_as_many_turns_as_in_a_second_are_free_at_once_and_then_each_waits_for_its_time() -> None:
    loop, had = ManualLoop(), list[str]()
    turns = ReadingTurns(4, loop.as_loop)
    for name in "abcdef":
        turns.wait(Connection(name, had))
    assert had == []  # not before `wait` returns
    loop.run_soon()
    assert had == ["a", "b", "c", "d"]
    loop.fire()
    assert had[4:] == ["e"]
    loop.fire()
    assert had[4:] == ["e", "f"]
    assert loop.delays == [0.25, 0.25] and not loop.has_timer


def test_a_turn_is_taken_at_once_only_if_it_is_free_and_no_connection_waits() -> None:
    loop = ManualLoop()
    turns = ReadingTurns(2, loop.as_loop)
    assert [turns.take() for _ in range(3)] == [True, True, False]
    turns.wait(Connection("a", []))
    loop.now = 100.0
    assert not turns.take()


def test_turns_become_free_again_with_time_but_never_more_than_those_of_a_second() -> None:
    loop = ManualLoop()
    turns = ReadingTurns(4, loop.as_loop)
    assert [turns.take() for _ in range(5)] == [True] * 4 + [False]
    loop.now = 0.5
    assert [turns.take() for _ in range(3)] == [True, True, False]
    loop.now = 1000.0
    assert [turns.take() for _ in range(5)] == [True] * 4 + [False]


def test_a_loop_that_was_late_gives_one_turn_and_not_all_that_it_missed() -> None:
    loop, had = ManualLoop(), list[str]()
    turns = ReadingTurns(1, loop.as_loop)
    assert turns.take()
    for name in "abc":
        turns.wait(Connection(name, had))
    loop.now = 60.0
    loop.fire()
    assert had == ["a"]
    loop.fire()
    loop.fire()
    assert had == ["a", "b", "c"]
    assert not turns.take()  # the minute was not saved up


def test_a_connection_that_is_gone_has_no_turn_and_costs_none() -> None:
    loop, had = ManualLoop(), list[str]()
    turns = ReadingTurns(1, loop.as_loop)
    assert turns.take()
    gone = Connection("gone", had)
    turns.wait(gone)
    turns.wait(Connection("here", had))
    turns.remove(gone)
    turns.remove(gone)
    loop.fire()
    assert had == ["here"]
