"""Marks that chat templates use, and that no text of a skill may have."""

import re

from handspan.skills.text import _TOKEN


def has_control_token(text: str) -> bool:
    return re.search(_TOKEN, text) is not None
