"""Memory that goes back to the system after something very large."""

import asyncio
import contextlib
import sys
from typing import Final

from handspan.core.late_imports import ctypes

_SECONDS: Final = 2.0
"""How long after something large: it is stored by then, and sent on."""


class MemoryRelease:
    """Gives freed memory back. The GNU C library keeps it otherwise, as long as something small lies above it."""

    def __init__(self) -> None:
        self._is_planned = False

    def soon(self) -> None:
        """Give it back in a moment, once for all that asks meanwhile."""
        if not self._is_planned and sys.platform == "linux":
            self._is_planned = True
            asyncio.get_running_loop().call_later(_SECONDS, self._release)

    def _release(self) -> None:
        self._is_planned = False
        with contextlib.suppress(AttributeError):  # another C library has no `malloc_trim`
            ctypes.CDLL(None).malloc_trim(0)
