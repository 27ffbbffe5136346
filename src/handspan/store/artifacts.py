"""Artifacts as files in a folder: a body and a small record each; bounded in number, size and age (SPEC X3, S6)."""

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from handspan.config.private_files import make_private, sync_folder, write_private
from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import StoreError, ToolError
from handspan.store.incoming import Incoming, too_large

_ID_BYTES: Final = 12
_COMING: Final = ".part"
_GIVEN_UP: Final = 3600.0
"""Seconds without more of it after which a file that was coming is one of a process that is gone."""


class Bounds(Struct, frozen=True):
    """How much is kept. The oldest go first."""

    count: int = 1000
    size: int = 64 * 1024 * 1024
    """Bytes of one artifact."""
    total: int = 1024 * 1024 * 1024
    age: float = 30 * 24 * 3600.0


class _Record(Struct, frozen=True):
    ref: ArtifactRef
    owner: str
    session: str
    at: float


class FolderArtifacts:
    """Keeps artifacts below one folder. Reading and writing happens on threads: disks are slow."""

    def __init__(self, folder: Path, bounds: Bounds | None = None) -> None:
        self._folder = folder
        self._bounds = bounds or Bounds()
        self._writing = threading.Lock()

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "text/plain", name: str = ""
    ) -> ArtifactRef:
        """Keep these bytes; `ToolError` when there is no room for them."""
        if len(data) > self._bounds.size:
            raise too_large(f"{len(data)}", self._bounds.size)
        ref = ArtifactRef(secrets.token_hex(_ID_BYTES), len(data), media_type, name)
        record = _Record(ref, owner, session, time.time())
        try:
            await asyncio.to_thread(self._write_alone, record, data)
        except OSError as error:
            raise _not_kept(error) from error
        return ref

    async def receive(
        self,
        pieces: AsyncIterator[bytes],
        *,
        owner: str,
        session: str = "",
        media_type: str = "text/plain",
        name: str = "",
    ) -> ArtifactRef:
        """Keep what comes in pieces, never all of it in memory; `ToolError` when there is no room for it.

        It is on the disk when this returns. What breaks off, whatever is raised meanwhile, leaves nothing behind.
        """
        artifact_id = secrets.token_hex(_ID_BYTES)
        coming = Incoming(self._folder / f"{artifact_id}{_COMING}", self._bounds.size)
        try:
            await coming.write(pieces)
            ref = ArtifactRef(artifact_id, coming.size, media_type, name)
            await asyncio.to_thread(self._adopt_alone, coming, _Record(ref, owner, session, time.time()))
        except OSError as error:
            raise _not_kept(error) from error
        finally:
            await coming.discard()
        return ref

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        """The handle; `ToolError` (`file_not_found`) when the owner has no such artifact."""
        return (await asyncio.to_thread(self._record, artifact_id, owner)).ref

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        """These bytes of it."""
        return await asyncio.to_thread(self._read, artifact_id, owner, offset, limit)

    async def forget_session(self, session: str, *, owner: str) -> int:
        """Remove what this session of this owner left (SPEC S6); how many there were. `StoreError` when one stays."""
        try:
            return await asyncio.to_thread(self._forget, session, owner) if session else 0
        except OSError as error:
            text = f"The artifacts of the session {session!r} can't be removed: {error.strerror or error}."
            raise StoreError(f"{text} Let this user write the folder {str(self._folder)!r}.") from error

    def _forget(self, session: str, owner: str) -> int:
        with self._writing:
            found = [record for record in self._records() if (record.owner, record.session) == (owner, session)]
            for record in found:
                body = self._folder / record.ref.id
                for path in (body, body.with_suffix(".json")):  # the record last: what has one can be found again
                    path.unlink(missing_ok=True)
            return len(found)

    def _records(self) -> Iterator[_Record]:
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError, ValueError):  # made room meanwhile; damaged, so nobody's
                yield msgspec.json.decode(path.read_bytes(), type=_Record)

    def _write_alone(self, record: _Record, data: bytes) -> None:
        with self._writing:  # who makes room must not take a body whose record is being written
            self._write(record, data)

    def _adopt_alone(self, coming: Incoming, record: _Record) -> None:
        with self._writing:
            self._adopt(coming, record)

    def _adopt(self, coming: Incoming, record: _Record) -> None:
        """Let a file that has come be a body."""
        self._make_room(coming.size)
        body = self._folder / record.ref.id
        try:
            coming.path.rename(body)
            write_private(body.with_suffix(".json"), msgspec.json.encode(record), is_synced=True)
            sync_folder(self._folder)
        except OSError:
            _remove(body)
            raise

    def _write(self, record: _Record, data: bytes) -> None:
        make_private(self._folder)
        self._make_room(len(data))
        body = self._folder / record.ref.id
        try:
            write_private(body, data)
            # The record comes last: what has no record was never kept.
            write_private(body.with_suffix(".json"), msgspec.json.encode(record))
        except OSError:
            _remove(body)
            raise

    def _read(self, artifact_id: str, owner: str, offset: int, limit: int | None) -> bytes:
        record = self._record(artifact_id, owner)
        begin = min(max(offset, 0), record.ref.size)
        try:
            with (self._folder / record.ref.id).open("rb") as body:
                body.seek(begin)
                return body.read(-1 if limit is None else max(limit, 0))
        except FileNotFoundError:  # made room for another in this very moment
            raise _gone(artifact_id) from None
        except OSError as error:
            raise ToolError("execution_failed", f"The artifact can't be read: {error.strerror or error}.") from error

    def _record(self, artifact_id: str, owner: str) -> _Record:
        if len(artifact_id) != 2 * _ID_BYTES or not set(artifact_id) <= set("0123456789abcdef"):
            raise _gone(artifact_id)
        try:
            record = msgspec.json.decode((self._folder / f"{artifact_id}.json").read_bytes(), type=_Record)
        except (OSError, ValueError):  # ValueError: the record is damaged
            raise _gone(artifact_id) from None
        if record.owner != owner or record.at < time.time() - self._bounds.age:
            raise _gone(artifact_id)  # the same words as for one that does not exist: no oracle
        return record

    def _make_room(self, coming: int) -> None:
        """Remove what is too old, then the oldest until the new one fits."""
        names = set(os.listdir(self._folder))
        self._remove_left_over_records(names)
        self._remove_given_up(names)
        kept = sorted(self._bodies(names))
        total = coming + sum(size for _, size, _ in kept)
        too_old = time.time() - self._bounds.age
        for place, (at, size, body) in enumerate(kept):
            if at >= too_old and len(kept) - place < self._bounds.count and total <= self._bounds.total:
                break
            _remove(body)
            total -= size

    def _bodies(self, names: set[str]) -> Iterator[tuple[float, int, Path]]:
        """Time, size and path of all bodies; those that another process removes meanwhile are passed over."""
        for name in names:
            if len(name) == 2 * _ID_BYTES:
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(self._folder / name)
                    yield found.st_mtime, found.st_size, self._folder / name

    def _remove_given_up(self, names: set[str]) -> None:
        """What was coming when its process ended."""
        for name in names:
            if name.endswith(_COMING):
                with contextlib.suppress(OSError):
                    if os.stat(self._folder / name).st_mtime < time.time() - _GIVEN_UP:
                        os.unlink(self._folder / name)

    def _remove_left_over_records(self, names: set[str]) -> None:
        """A body is there before its record, so a record alone is what another process left when it made room."""
        for alone in {name.removesuffix(".json") for name in names} - names:
            if not (self._folder / alone).exists():
                _remove(self._folder / alone)


def _gone(artifact_id: str) -> ToolError:
    shown = artifact_id if len(artifact_id) <= 60 else f"{artifact_id[:60]}…"
    return ToolError(
        "file_not_found", f"There is no artifact {shown!r}: it was never made, is not yours, or was too old to keep."
    )


def _not_kept(error: OSError) -> ToolError:
    return ToolError("execution_failed", f"The artifact can't be kept: {error.strerror or error}.")


def _remove(body: Path) -> None:
    for path in (body.with_suffix(".json"), body):
        with contextlib.suppress(OSError):
            path.unlink()
