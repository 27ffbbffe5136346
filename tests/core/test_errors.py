"""SPEC X2: one table of the words that a failed call can end with, and the tree of errors as it is drawn."""

import re
from typing import get_args

import pytest

from handspan.core import errors
from handspan.core.errors import ERROR_TYPES, ErrorCode, ErrorType, HandspanError, ToolError

TABLE: dict[ErrorType, set[str]] = {
    "validation_error": {"tool_not_found", "tool_not_available", "tool_disabled", "invalid_arguments", "invalid_path"},
    "permission_denied": {
        "permission_denied",
        "permission_denied_forever",
        "approval_denied",
        "question_expired",
        "policy_denied",
        "hook_cancelled",
        "auth_required",
    },
    "timeout": {"timeout"},
    "execution_error": {
        "interrupted",
        "unknown_outcome",
        "execution_failed",
        "file_not_found",
        "file_too_large",
        "network_error",
        "rate_limited",
        "busy",
        "cancelled",
        "disconnected",
        "internal_error",
    },
}
"""As SPEC X2 has it."""


@pytest.mark.parametrize("error_type", TABLE)
def test_every_code_of_the_spec_stands_under_its_error_type_and_no_other_does(error_type: ErrorType) -> None:
    assert {code for code, its_type in ERROR_TYPES.items() if its_type == error_type} == TABLE[error_type]


def test_every_code_that_can_be_written_has_its_error_type() -> None:
    assert set(ERROR_TYPES) == set(get_args(ErrorCode))
    assert set(ERROR_TYPES.values()) == set(get_args(ErrorType))


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn = re.findall(r"^([│ ]*)(?:[├└]── )?(\w+)(?=  |$)", errors.__doc__ or "", re.MULTILINE)
    names = {name for _, name in drawn if hasattr(errors, name)}
    real = {
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, HandspanError) and thing.__module__ == errors.__name__
    }
    assert names == real
    below = {
        "StoreError": ToolError,
        "NotYours": ToolError,
        "SessionDeleted": ToolError,
        "TakenOver": ToolError,
        "NameTaken": errors.DefinitionError,
    }
    for name in real - {"HandspanError"}:
        assert getattr(errors, name).__bases__ == (below.get(name, HandspanError),)


def test_a_tool_error_carries_its_code_and_reads_as_its_message() -> None:
    error = ToolError("busy", "Five are running: try again later.")
    assert (error.code, error.message, str(error)) == (
        "busy",
        "Five are running: try again later.",
        "Five are running: try again later.",
    )
