"""Work that reads many files: it runs on threads of its own, and stops between two files if its caller is cancelled."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final, TypeVar

from handspan.tools.search.walk import StopSign

_MAX_AT_ONCE: Final = 4

T = TypeVar("T")


class BackgroundWork:
    """Runs a few walks at once; further walks wait for their turn. Other tools have other threads, and do not wait."""

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_MAX_AT_ONCE, thread_name_prefix="handspan-search")

    async def run(self, work: Callable[[], T], stop: StopSign) -> T:
        """Return what the work returns. A cancelled caller stops the work."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            stop.cancel()
