"""Finds a query in the bytes of a file: a literal text, or a regular expression in linear time (google-re2)."""

import importlib.util
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from handspan.core.errors import ToolError
from handspan.core.late_imports import re2

_LONGEST_QUERY: Final = 10_000
_META_CHARACTERS: Final = frozenset(r"\.^$*+?{}[]|()")
_EXPRESSION_MEMORY: Final = 8 * 1024 * 1024


Find: TypeAlias = Callable[[bytes, int], int]
"""(data, begin) → where the next match from `begin` on begins; -1 when there is none. A match lies within one line."""


def has_expressions() -> bool:
    """Whether regular expressions can be used: google-re2 is installed."""
    return importlib.util.find_spec("re2") is not None


def make_find(query: str, *, is_literal: bool, ignores_case: bool) -> Find:
    """Return what finds this query. Raises `ToolError` (`invalid_arguments`) for a query that can't be used."""
    if len(query) > _LONGEST_QUERY or "\n" in query:
        raise ToolError("invalid_arguments", f"A query is one line of at most {_LONGEST_QUERY} characters.")
    is_literal = is_literal or not _META_CHARACTERS & set(query)
    text = query.encode("utf-8", "surrogatepass")
    if is_literal and not ignores_case:
        return lambda data, begin: data.find(text, begin)
    if has_expressions():
        return _find_by(_compile(query, is_literal=is_literal, ignores_case=ignores_case))
    if is_literal:
        return _find_by(re.compile(re.escape(text), re.IGNORECASE))
    raise ToolError(
        "invalid_arguments",
        "Regular expressions can't be used here, because google-re2 is not installed: search for a literal text, with "
        "literal true.",
    )


def _find_by(pattern: re.Pattern[bytes]) -> Find:
    def find(data: bytes, begin: int) -> int:
        found = pattern.search(data, begin)
        return -1 if found is None else found.start()

    return find


def _compile(query: str, *, is_literal: bool, ignores_case: bool) -> re.Pattern[bytes]:
    """Return the pattern of google-re2, which needs linear time for every query and text, and releases the GIL."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignores_case
    options.literal = is_literal
    options.never_nl = True
    options.max_mem = _EXPRESSION_MEMORY
    try:
        pattern: re.Pattern[bytes] = re2.compile(query if is_literal else f"(?m){query}", options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error, re2.error) else "half a character"
        raise ToolError(
            "invalid_arguments",
            f"The query is no regular expression ({reason}). Set literal to true to search for it as it is; "
            "look-around and back-references do not exist here.",
        ) from None
    return pattern
