"""SPEC E6: one deadline, and waiting for a person does not count."""

from handspan.core.context import Deadline


def test_time_that_does_not_count_moves_the_deadline_and_not_its_owner() -> None:
    deadline = Deadline(100.0, "the caller's deadline")
    assert deadline.later(2.5) == Deadline(102.5, "the caller's deadline")
    assert deadline.at == 100.0
