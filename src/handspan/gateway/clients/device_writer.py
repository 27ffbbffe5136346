"""Writing what is new of devices, behind the back of whoever said it: in order, many at once, and never forgotten."""

import asyncio
import logging
from itertools import islice
from typing import Final

from handspan.core.errors import ToolError
from handspan.core.records import DeviceRow
from handspan.core.store import DeviceBook

_log = logging.getLogger(__name__)

_MOST_ROWS_AT_ONCE: Final = 500


class DeviceWriter:
    """Rows on their way into the book. Without a book they go nowhere."""

    def __init__(self, book: DeviceBook | None) -> None:
        self._book = book
        self._unwritten: dict[tuple[str, str], DeviceRow | None] = {}
        """By owner and id, each as it is to be; None: deleted."""
        self._task: asyncio.Task[None] | None = None
        self._fault: ToolError | None = None

    def save(self, row: DeviceRow) -> None:
        """Let this be kept soon."""
        self._put((row.owner, row.id), row)

    def delete(self, owner: str, device_id: str) -> None:
        """Let this be forgotten soon."""
        self._put((owner, device_id), None)

    async def flush(self) -> None:
        """Wait until all is written; `ToolError` when that can't be."""
        await self._wait()
        if self._unwritten and self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Write what is left; what can't be is said in the log."""
        await self._wait()
        if self._unwritten:  # the disk refused; once more, now that nothing else is to come
            self._begin()
            await self._wait()
        if self._unwritten:
            _log.error("What is new of %d devices is lost: %s", len(self._unwritten), self._fault)

    def _put(self, key: tuple[str, str], row: DeviceRow | None) -> None:
        if self._book is not None:
            self._unwritten[key] = row
            self._begin()

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _write(self) -> None:
        """Write until nothing is left. What can't be written is tried again with the next change, or at the end."""
        try:
            while self._unwritten:
                await self._write_some()
        except ToolError as fault:
            _log.error("What is new of %d devices is not kept yet: %s", len(self._unwritten), fault)
            self._fault = fault
        finally:
            self._task = None

    async def _write_some(self) -> None:
        assert self._book is not None  # without one nothing is put
        some = dict(islice(self._unwritten.items(), _MOST_ROWS_AT_ONCE))
        for key in some:
            del self._unwritten[key]
        try:
            if saved := [row for row in some.values() if row is not None]:
                await self._book.save(saved)
            if deleted := [key for key, row in some.items() if row is None]:
                await self._book.delete(deleted)
        except BaseException:
            self._unwritten = some | self._unwritten  # what came meanwhile is newer
            raise
