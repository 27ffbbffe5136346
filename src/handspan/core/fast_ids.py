"""Ids drawn in bulk: 256 with one system call (a speed trick)."""

import os
from collections import deque
from typing import Final

_AT_ONCE: Final = 256
_ids: Final[deque[str]] = deque()
os.register_at_fork(after_in_child=_ids.clear)  # a child draws its own: two processes must not use one id


def draw_id() -> str:
    """Returns an id in UUID form that can't be guessed.

    The ids of one draw share their first half, and each has 60 random bits of its own.
    """
    while True:
        try:
            return _ids.popleft()
        except IndexError:  # none are left, or another thread took the last one
            first, *drawn = os.urandom(8 + _AT_ONCE * 8).hex(" ", 8).split()
            shared = f"{first[:8]}-{first[8:12]}-4{first[12:15]}-a"
            _ids.extend([f"{shared}{own[:3]}-{own[3:15]}" for own in drawn])
