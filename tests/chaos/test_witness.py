"""The witness finds what breaks a promise: here everything breaks one."""

import pytest

from handspan.core.values import JsonObject
from tests.chaos.figures import Figure
from tests.chaos.witness import StoredCall, Witness

DONE: JsonObject = {"status": "success", "result": "done"}
OTHER: JsonObject = {"status": "success", "result": "other"}


def witness() -> Witness:
    """Of one call that went well."""
    made = Witness()
    made.asked.add("a")
    made.was_told("a", DONE)
    made.ran["a"] = 1
    made.acknowledged["a"] = "done"
    return made


def broken(made: Witness, journal: dict[str, StoredCall]) -> list[str]:
    return [figure.name for figure in made.figures(journal) if not figure.holds]


def test_a_call_that_went_well_breaks_nothing() -> None:
    figures: list[Figure] = witness().figures({"a": StoredCall("done", DONE)})
    assert len(figures) == 5 and all(figure.holds for figure in figures)


@pytest.mark.parametrize(
    ("journal", "promise"),
    [
        ({}, ["calls lost", "acknowledged results lost"]),
        ({"a": StoredCall("started", None)}, ["calls still open", "acknowledged results lost"]),
        ({"a": StoredCall("done", OTHER)}, ["calls with two results", "acknowledged results lost"]),
    ],
)
def test_what_the_journal_lacks_is_found(journal: dict[str, StoredCall], promise: list[str]) -> None:
    assert broken(witness(), journal) == promise


def test_a_caller_who_was_told_nothing_is_found() -> None:
    made = witness()
    made.asked.add("b")
    assert broken(made, {"a": StoredCall("done", DONE), "b": StoredCall("done", DONE)}) == ["calls lost"]


def test_a_caller_who_was_told_twice_is_found() -> None:
    made = witness()
    made.was_told("a", DONE)
    assert broken(made, {"a": StoredCall("done", DONE)}) == ["calls with two results"]


def test_a_call_that_ran_twice_is_found() -> None:
    made = witness()
    made.ran["a"] = 2
    assert broken(made, {"a": StoredCall("done", DONE)}) == ["calls run twice"]
