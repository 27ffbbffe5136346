"""What a device may be called: a word that its tools' names begin with (ws.md 7.2)."""

import re
import unicodedata
from typing import Final

from handspan.core.errors import ToolError

LONGEST: Final = 24
_NOTHING_LEFT: Final = "device"


def clean_label(wanted: str, name: str = "") -> str:
    """A label made of what the device asked for, else of its name: lower case, digits and single `_`."""
    for words in (wanted, name):
        plain = unicodedata.normalize("NFKD", words[:200].casefold())  # letters without their accents
        plain = "".join(char for char in plain if not unicodedata.combining(char))
        label = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
        if label:
            return _shortened(f"{_NOTHING_LEFT}_{label}" if label[0].isdigit() else label, LONGEST)
    return _NOTHING_LEFT


def numbered(label: str, number: int) -> str:
    """The label of the first, second, third … device that asks for this one."""
    if number == 1:
        return label
    tail = f"_{number}"
    return f"{_shortened(label, LONGEST - len(tail))}{tail}"


def check_label(label: str) -> None:
    """Refuse what no device can be called; says what would do."""
    fitting = clean_label(label)
    if label != fitting:
        raise ToolError(
            "invalid_arguments",
            f"A device can't be called {label[:60]!r}: use lower-case letters, digits and single '_', beginning with a "
            f"letter, at most {LONGEST} characters, as in {fitting!r}.",
        )


def _shortened(label: str, length: int) -> str:
    return label[:length].rstrip("_")
