"""Labels of devices: which texts can be one, and how two that ask for one label are told apart (ws.md 7.2)."""

import re
import unicodedata
from typing import Final

from handspan.core.errors import ToolError
from handspan.core.names import SEPARATOR
from handspan.core.principals import Origin
from handspan.registry.name_rights import describe_owner

LONGEST: Final = 24
_NOTHING_LEFT: Final = "device"
"""The label of a device whose name has no letter or digit."""


def clean_label(wanted: str, name: str = "") -> str:
    """Return a label made of the wanted one, else of the device's name: lower case, digits and single `_`."""
    for words in (wanted, name):
        plain = unicodedata.normalize("NFKD", words[:200].casefold())  # letters without their accents
        plain = "".join(char for char in plain if not unicodedata.combining(char))
        label = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
        if label:
            return _shorten(f"{_NOTHING_LEFT}_{label}" if label[0].isdigit() else label, LONGEST)
    return _NOTHING_LEFT


def number_label(label: str, number: int) -> str:
    """Return the label for the first, second, third … device that asks for it."""
    if number == 1:
        return label
    tail = f"_{number}"
    return f"{_shorten(label, LONGEST - len(tail))}{tail}"


def check_label(label: str) -> None:
    """Raise `ToolError`, with a label that would do, for a label that no device can have."""
    fitting = clean_label(label)
    if label != fitting:
        raise ToolError(
            "invalid_arguments",
            f"A device can't be called {label[:60]!r}: use lower-case letters, digits and single '_', beginning with a "
            f"letter, at most {LONGEST} characters, as in {fitting!r}.",
        )


def describe_kept_label(label: str, keeper: Origin) -> str:
    """Return why no device can have this label."""
    return f"Names that begin with {label + SEPARATOR!r} are for {describe_owner(keeper)}."


def _shorten(label: str, length: int) -> str:
    return label[:length].rstrip("_")
