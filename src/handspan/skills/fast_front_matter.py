"""Simple front matter, read without loading YAML: lines of `key: value` with plain words and lists.

YAML reads every other text. Both give the same values for a simple text.
"""

import re
from typing import Final

from handspan.core.fast import IS_FAST
from handspan.skills.text import WrittenValue

_WORD: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
_LINE: Final = re.compile(
    rf"({_WORD}): (?:\[({_WORD}(?:, {_WORD})*)\]|(\d+\.\d+\.\d+|[A-Za-z](?:[A-Za-z0-9 _.,;'()/-]*[A-Za-z0-9_.')/])?))"
)
_NO_TEXT: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
"""Words that YAML may not read as text, in upper or lower case."""
_BOOLS: Final = {"true": True, "false": False}


def read_simple(front: str, first_line: int) -> tuple[dict[str, object], dict[str, WrittenValue]] | None:
    """Return the values and where they are written; None when the text needs YAML, and always without speed tricks."""
    values: dict[str, object] = {}
    written: dict[str, WrittenValue] = {}
    for number, line in enumerate(front.removesuffix("\n").split("\n") if IS_FAST else ("",), first_line):
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        key, items, text = found.groups()
        value = items.split(", ") if items else _BOOLS.get(text, text)
        words = [key, *(value if isinstance(value, list) else [value] if isinstance(value, str) else [])]
        if key in values or any(word.lower() in _NO_TEXT for word in words):
            return None
        values[key] = value
        written[key] = WrittenValue(number, text)
    return values, written
