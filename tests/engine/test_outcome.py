"""What failing code leaves behind, in words."""

import pytest

from handspan.core.errors import ToolError
from handspan.core.results import Failure, encode_envelope
from handspan.engine.outcome import convert_error, describe_error


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_exception_that_can_not_be_put_into_words_is_named_by_its_type() -> None:
    assert describe_error(Speechless()) == "Speechless: it can't be put into words"


def test_an_exception_says_its_type_and_its_text() -> None:
    assert describe_error(LookupError("gone")) == "LookupError: gone"


def test_a_very_long_text_is_cut() -> None:
    assert len(describe_error(ValueError("x" * 1_000_000))) == 2000


def test_what_is_no_text_does_not_break_the_answer() -> None:
    result = convert_error(ToolError("file_not_found", "File not found: caf\udce9 ☕"))
    assert result == Failure("file_not_found", "File not found: caf? ☕")
    assert encode_envelope(result)
    assert describe_error(OSError("\udcff")) == "OSError: ?"


@pytest.mark.parametrize("code", ["my_own_code", ""])
def test_a_code_that_is_not_in_the_table_counts_as_failed_execution(code: str) -> None:
    error = ToolError(code, "no")  # type: ignore[arg-type]  # a tool's author who made one up
    assert convert_error(error) == Failure("execution_failed", "no")
