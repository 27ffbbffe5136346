"""Watches the files of the settings. One look at them costs a system call for each file."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.errors import ConfigError

_LOOK_SECONDS: Final = 1.0
_Stamp: TypeAlias = tuple[int, int, int] | None
"""Time of change (also of its mode), size and inode of a file; None: there is no file."""
_log = logging.getLogger(__name__)


class SettingsWatch:
    """Awaits `changed` each time one of the files has changed, from `open` to `close`."""

    def __init__(self, files: Callable[[], Sequence[Path]], changed: Callable[[], Awaitable[None]]) -> None:
        self._files = files
        self._changed = changed
        self._known = self._look()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch(), name="settings")

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        """Look again and again whether a file has changed, and tell that once."""
        last = self._known
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._look()
            if now != self._known and now == last:  # no change since the last look: no program writes a file just now
                self._known = now
                await self._tell()
            last = now

    async def _tell(self) -> None:
        try:
            await self._changed()
        except ConfigError as error:
            _log.warning("The settings have changed and can't be used, so the old ones stay in force. %s", error)

    def _look(self) -> dict[Path, _Stamp]:
        """Return the stamp of each file."""
        return {file: _stamp(file) for file in self._files()}


def _stamp(file: Path) -> _Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
