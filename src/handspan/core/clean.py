"""Text from outside without characters that a person can't see (SPEC S4).

Tags, zero-width and bidirectional control characters can carry words that only a model reads. They are removed from the
text of tools and strangers before a model gets it. Line breaks and tabs stay.
"""

import re
from typing import Final

# C0 and C1 controls except tab, newline and return; soft hyphen; zero-width and bidi controls; invisible operators;
# variation selectors that can hide data; tag characters.
_INVISIBLE: Final = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Return the text without invisible characters. Joiners of emoji and scripts (U+200C, U+200D, U+FE0F) stay."""
    return text if text.isascii() and text.isprintable() else re.sub(_INVISIBLE, "", text)
