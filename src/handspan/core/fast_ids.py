"""Ids drawn in bulk: the random bits of 256 ids with one system call (a speed trick)."""

import os
from collections import deque
from typing import Final

_AT_ONCE: Final = 256
_RANDOM: Final = int.from_bytes(bytes.fromhex("ffff0fff3fff") * _AT_ONCE, "big")
"""The random bits in the three middle groups of digits."""
_FIXED: Final = int.from_bytes(bytes.fromhex("000040008000") * _AT_ONCE, "big")
"""Version and variant of a random UUID, in the same groups."""
_MIDDLES: Final = range(0, 15 * _AT_ONCE, 15)
"""Where the middle groups of each id begin in the digits of all: 14 characters, and a "-" that is left out."""
_ids: Final[deque[str]] = deque()
os.register_at_fork(after_in_child=_ids.clear)  # a child draws its own: two processes must not use one id


def draw_id() -> str:
    """Return a random UUID (version 4) that can't be guessed: each has 122 random bits of its own."""
    while True:
        try:
            return _ids.popleft()
        except IndexError:  # none are left, or another thread took the last one
            drawn = os.urandom(16 * _AT_ONCE)
            head, middle, tail = drawn[: 4 * _AT_ONCE], drawn[4 * _AT_ONCE : 10 * _AT_ONCE], drawn[10 * _AT_ONCE :]
            bits = int.from_bytes(middle, "big") & _RANDOM | _FIXED
            digits = bits.to_bytes(6 * _AT_ONCE, "big").hex("-", 2)
            middles = [digits[place : place + 14] for place in _MIDDLES]
            _ids.extend(map("-".join, zip(head.hex(" ", 4).split(), middles, tail.hex(" ", 6).split(), strict=True)))
