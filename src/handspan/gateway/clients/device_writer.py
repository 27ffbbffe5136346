"""Writes changed devices to the store in the background: in order, many rows at once."""

import asyncio
import logging
from itertools import islice
from typing import Final

from handspan.core.errors import ToolError
from handspan.core.records import DeviceRow
from handspan.core.store import DeviceBook
from handspan.core.tasks import finish

_log = logging.getLogger(__name__)

_MAX_ROWS_AT_ONCE: Final = 500


class DeviceWriter:
    """Queues rows and writes them to the book."""

    def __init__(self, book: DeviceBook) -> None:
        self._book = book
        self._unwritten: dict[tuple[str, str], DeviceRow | None] = {}
        """The newest row of each device, by owner and id; None: to be deleted."""
        self._task: asyncio.Task[None] | None = None
        self._fault: ToolError | None = None

    def save(self, row: DeviceRow) -> None:
        """Write this row soon."""
        self._unwritten[row.owner, row.id] = row
        self._begin()

    def delete(self, owner: str, device_id: str) -> None:
        """Delete this device's row soon."""
        self._unwritten[owner, device_id] = None
        self._begin()

    async def flush(self) -> None:
        """Wait until all rows are written. Raises `ToolError` when the store fails."""
        await self._wait()
        if self._unwritten and self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Write the rest. Rows that can't be written are lost, and the log says how many."""
        await self._wait()
        if self._unwritten:  # the store failed: try a last time
            self._begin()
            await self._wait()
        if self._unwritten:
            _log.error("The changes of %d devices are lost: %s", len(self._unwritten), self._fault)

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _wait(self) -> None:
        if self._task is not None:
            await finish(self._task)

    async def _write(self) -> None:
        """Write until the queue is empty. After a failure, the next change or `close` tries again."""
        try:
            while self._unwritten:
                await self._write_some()
        except ToolError as fault:
            _log.error("The changes of %d devices are not stored yet: %s", len(self._unwritten), fault)
            self._fault = fault
        finally:
            self._task = None

    async def _write_some(self) -> None:
        """Write the changes that wait longest, as many as one statement takes. After a failure they wait again."""
        batch = dict(islice(self._unwritten.items(), _MAX_ROWS_AT_ONCE))
        for key in batch:
            del self._unwritten[key]
        try:
            if saved := [row for row in batch.values() if row is not None]:
                await self._book.save(saved)
            if deleted := [key for key, row in batch.items() if row is None]:
                await self._book.delete(deleted)
        except BaseException:
            self._unwritten = batch | self._unwritten  # rows that were queued meanwhile are newer
            raise
