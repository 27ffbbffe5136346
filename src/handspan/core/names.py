"""Names of tools: our own, a tool name from outside mapped to fit the rule, and globs (SPEC T2, R3)."""

import hashlib
import heapq
import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from handspan.core.errors import DefinitionError
from handspan.core.late_imports import difflib

SEPARATOR: Final = "__"
MAX_LENGTH: Final = 64

_OWN: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_OUTSIDE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TAIL: Final = 8
"""Digits of the hash at the end of a converted name."""
_MAX_NAMESPACE: Final = MAX_LENGTH - 16
"""Short enough that a converted name still shows its namespace, the separator and a part of its own name."""
_MAX_COMPARED: Final = 100
_MAX_LISTED: Final = 12

# What is blank is written out: `\s` of Python and of JSON Schema differ.
Disabled: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^((?!origin:)[^\s\x1c-\x1f\x85\ufeff]+|origin:(builtin|plugin|mcp|remote|device|browser)(\(.+\))?)$",
        description="a tool's name, a glob such as 'web_*', 'origin:KIND' or 'origin:KIND(NAME)'"
        " with a KIND of builtin, plugin, mcp, remote, device, browser",
    ),
]
"""What a switch names: one tool or several (SPEC R9)."""


def check_own_name(name: str) -> None:
    """Raise `DefinitionError` for a name that our own tools and plugins' tools may not have."""
    if not _OWN.fullmatch(name) or len(name) > MAX_LENGTH:
        raise DefinitionError(
            f"{name!r} can't be a tool's name: use snake_case (lower-case words joined by single '_'), "
            f"at most {MAX_LENGTH} characters, as in 'read_file'"
        )


def check_namespace(namespace: str) -> None:
    """Raise `DefinitionError` for a namespace that would make names ambiguous: the first `__` splits a name."""
    fits = _OUTSIDE.fullmatch(namespace) is not None and len(namespace) <= _MAX_NAMESPACE
    if not fits or SEPARATOR in namespace or namespace.endswith("_"):
        raise DefinitionError(
            f"{namespace!r} can't be a namespace: use letters, digits, '-' and single '_', not starting with a digit "
            f"or '-', not ending with '_', at most {_MAX_NAMESPACE} characters, as in 'my_server'"
        )


def is_outside_name(name: str) -> bool:
    """Whether every model API accepts this name."""
    return _OUTSIDE.fullmatch(name) is not None


def outside_name(name: str, namespace: str = "", taken: Collection[str] = ()) -> str:
    """Return the name that a tool from outside gets: its own if that is valid, else a converted one with a hash.

    The same name always gives the same result, two names never do, and no result is a taken name. The source stores
    the tool's own name beside the result, so the conversion can be undone.
    """
    full = f"{namespace}{SEPARATOR}{name}" if namespace else name
    if is_outside_name(full) and full not in taken:
        return full
    valid = re.sub(r"[^A-Za-z0-9_-]", "_", full)
    valid = valid if valid[:1].isalpha() or valid[:1] == "_" else f"_{valid}"
    for attempt in range(len(taken) + 1):
        tail = hashlib.sha256(f"{attempt}:{full}".encode("utf-8", "surrogatepass")).hexdigest()[:_TAIL]
        converted = f"{valid[: MAX_LENGTH - _TAIL - 1]}_{tail}"
        if converted not in taken:
            return converted
    raise AssertionError("more attempts than taken names can't all be taken")


def split_name(name: str) -> tuple[str, str]:
    """Return namespace and own name; the first `__` splits. A name without it has the empty namespace."""
    namespace, separator, own = name.partition(SEPARATOR)
    return (namespace, own) if separator and namespace else ("", name)


@lru_cache(maxsize=4096)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    # Only `*` and `?` are special; fnmatch would give brackets a meaning, too.
    first, *others = ("".join("." if char == "?" else re.escape(char) for char in part) for part in pattern.split("*"))
    # Each middle part matches at its first place and never again (an atomic group): so no pattern takes long.
    middle = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    return re.compile(f"{first}{middle}.*{others[-1]}" if others else first, re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Whether a glob (`*`, `?`) matches the whole name."""
    return pattern == "*" or _compile_glob(pattern).fullmatch(name) is not None


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the globs matches the whole name."""
    return any(matches(pattern, name) for pattern in patterns)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a hint such as " Did you mean 'camera'?", or nothing if no known word is similar."""
    by_folded = {name.casefold(): name for name in known}
    folded, candidates = wrong[:MAX_LENGTH].casefold(), list(by_folded)
    if len(candidates) > _MAX_COMPARED:  # one comparison takes up to 0.2 ms and blocks the event loop
        pairs = _pairs(folded)
        candidates = heapq.nlargest(_MAX_COMPARED, candidates, key=lambda name: len(pairs & _pairs(name)))
    near = [by_folded[name] for name in difflib.get_close_matches(folded, candidates, n=2, cutoff=0.6)]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def list_known(known: Sequence[str]) -> str:
    """Return a hint such as " There are: 'camera', 'spawn' and 3 more.", or nothing if there are none."""
    if len(known) == 1:
        return f" There is only {known[0][:MAX_LENGTH]!r}."
    listed = ", ".join(repr(name[:MAX_LENGTH]) for name in known[:_MAX_LISTED])
    more = f" and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return f" There are: {listed}{more}." if known else ""


def _pairs(word: str) -> set[tuple[str, str]]:
    """Return all pairs of neighbouring characters."""
    return set(pairwise(word))
