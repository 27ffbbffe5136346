"""The hook `audit_log`: the begin and the end of every call, as lines of JSON in a file of its own (SPEC E7, S6)."""

import os
import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json, encode
from handspan.engine.hooks import BeforeVerdict, HookedCall


class AuditLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The `config` of `audit_log`."""

    arguments: bool = False
    """Write the arguments too. They may be private."""
    file: str = "audit.jsonl"
    """The file; a relative path is below the state folder."""
    max_bytes: Annotated[int, Meta(ge=1024)] = 10_000_000
    """A line that would make the file larger begins a new one; the full one becomes `FILE.1`."""
    backups: Annotated[int, Meta(ge=1, le=100)] = 5
    """How many full files are kept: `FILE.1` is the newest."""


class AuditLog:
    """Writes every call with its tool, owner, agent and session, and then its outcome.

    A line that can't be written fails the hook, so the call is refused: no call runs unseen. A call without a line for
    its end was refused later, or waits; the journal has its outcome.
    """

    def __init__(self, config: AuditLogConfig, state: Path) -> None:
        """`state` is the state folder."""
        self._config = config
        self._file = RotatedFile(state / config.file, config.max_bytes, config.backups)

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Write that the call begins."""
        more: dict[str, Json] = {"arguments": dict(call.arguments)} if self._config.arguments else {}
        self._write("call", call, more)
        return None

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Write how the call ended."""
        self._write("result", call, {"status": result.code if isinstance(result, Failure) else "success"})

    def _write(self, event: str, call: HookedCall, more: dict[str, Json]) -> None:
        about = {"id": call.id, "tool": call.name, "owner": call.owner, "agent": call.agent, "session": call.session}
        self._file.add(encode({"at": time.time(), "event": event, **about, **more}) + b"\n")


class RotatedFile:
    """A file that its owner alone can read (mode 600); when it is full, a new one begins.

    Several processes may write it: a line is one `write` at the end of the file, and each write looks whether another
    process has begun a new file. Two that begin one at the same moment may shorten the history by one file.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups

    def add(self, line: bytes) -> None:
        """Write this line. Raises `OSError`."""
        descriptor = self._open()
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(line) > self._max_bytes:
                self._rotate()
                os.close(descriptor)
                descriptor = self._open()
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{str(self._path)!r} could not be written to the end: is the disk full?")
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, flags, 0o600)
        if os.fstat(descriptor).st_mode & 0o077:  # an older file with a wider mode
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _rotate(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._backups + 1))]
        for older, newer in reversed(list(zip(names[1:], names, strict=False))):
            if newer.exists():
                newer.replace(older)
