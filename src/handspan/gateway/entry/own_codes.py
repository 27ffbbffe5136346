"""Pairing codes and sign-in links of a gateway that is alone: in memory, for as long as the process runs (SPEC S5)."""

import time
from collections.abc import Callable

from msgspec import Struct

from handspan.core.nodes import EntryCode
from handspan.gateway.entry.tokens import is_same


class _Open(Struct):
    """A code that can still be used."""

    code: EntryCode
    until: float
    tries: int


class OwnCodes:
    """Implements `EntryCodes`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._open: dict[str, list[_Open]] = {}
        """The open codes of each kind, the oldest first."""

    async def add(self, code: EntryCode, seconds: float, tries: int, most: int) -> None:
        """Keep a code for so many seconds, in place of the oldest one if too many are open."""
        codes = self._open.setdefault(code.kind, [])
        codes.append(_Open(code, self._clock() + seconds, tries))
        del codes[:-most]

    async def take(self, code_hash: str, kind: str) -> EntryCode | None:
        """Remove this code and return it. All codes are compared, so that the time tells nothing."""
        codes, now = self._open.get(kind, []), self._clock()
        found = [each for each in codes if is_same(each.code.hash, code_hash)]
        codes[:] = [each for each in codes if each not in found and each.until > now]
        return found[0].code if found and found[0].until > now else None

    async def count_wrong(self, kind: str) -> None:
        """Count a wrong guess against every open code of this kind."""
        codes = self._open.get(kind, [])
        for each in codes:
            each.tries -= 1
        codes[:] = [each for each in codes if each.tries > 0]
