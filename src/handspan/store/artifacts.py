"""Artifacts as files: a body and a small record each; limited in number, size and age.

Retention: old artifacts are deleted when there are too many, or when they are too old (SPEC X3, S6).
"""

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from handspan.config.private_files import make_private, sync_folder, write_private
from handspan.config.store_settings import ArtifactSettings
from handspan.core.artifacts import ArtifactRef, StoredArtifact
from handspan.core.errors import StoreError, ToolError
from handspan.store.bodies import PartialFile, remove_abandoned, too_large

_ID_BYTES: Final = 16
_ID_LENGTHS: Final = (2 * _ID_BYTES, 24)
"""The digits of an id; older versions drew shorter ones."""


class ArtifactRecord(Struct, frozen=True):
    """What is stored beside the body of an artifact."""

    ref: ArtifactRef
    owner: str
    session: str
    at: float


class FolderArtifacts:
    """Stores artifacts in one folder. Implements `ArtifactStore`, on threads: a disk may be slow."""

    def __init__(self, folder: Path, limits: ArtifactSettings | None = None) -> None:
        self._folder = folder
        self._limits = limits or ArtifactSettings()
        self._writing = threading.Lock()
        """Held from `_make_room` until the record is written.

        Without it, another thread could remove a body that has no record yet.
        """

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "text/plain", name: str = ""
    ) -> ArtifactRef:
        """Store these bytes as an artifact."""
        if len(data) > self._limits.size:
            raise too_large(f"{len(data)}", self._limits.size)
        record = new_record(len(data), owner, session, media_type, name=name)
        try:
            await asyncio.to_thread(self._write, record, partial(write_private, data=data))
        except OSError as error:
            raise write_error(error) from error
        return record.ref

    async def receive(
        self,
        pieces: AsyncIterator[bytes],
        *,
        owner: str,
        session: str = "",
        media_type: str = "text/plain",
        name: str = "",
    ) -> ArtifactRef:
        """Store an artifact that comes in pieces, without holding it in memory."""
        part = PartialFile(self._folder, self._limits.size)
        try:
            await part.write(pieces)
            record = new_record(part.size, owner, session, media_type, name=name)
            await asyncio.to_thread(self._write, record, part.path.rename, is_synced=True)
        except OSError as error:
            raise write_error(error) from error
        finally:
            await part.discard()
        return record.ref

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        return (await asyncio.to_thread(self._record, artifact_id, owner)).ref

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        return await asyncio.to_thread(self._read, artifact_id, owner, offset, limit)

    async def all(self, *, owner: str) -> list[StoredArtifact]:
        return await asyncio.to_thread(self._all, owner)

    async def forget_session(self, session: str, *, owner: str) -> int:
        try:
            return await asyncio.to_thread(self._forget, session, owner) if session else 0
        except OSError as error:
            text = f"The artifacts of the session {session!r} can't be removed: {error.strerror or error}."
            raise StoreError(f"{text} Let this user write the folder {str(self._folder)!r}.") from error

    async def remove(self, artifact_id: str, *, owner: str) -> None:
        await asyncio.to_thread(self._remove_one, artifact_id, owner)

    async def check(self) -> str:
        return await asyncio.to_thread(self._check)

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    def _check(self) -> str:
        try:
            make_private(self._folder)
        except OSError as error:
            return f"{write_error(error).message} Let this user write the folder {str(self._folder)!r}."
        if not os.access(self._folder, os.W_OK | os.X_OK):
            return f"The artifacts can't be kept: let this user write the folder {str(self._folder)!r}."
        return ""

    def _oldest(self) -> float:
        return time.time() - self._limits.days * 24 * 3600.0

    def _all(self, owner: str) -> list[StoredArtifact]:
        oldest = self._oldest()
        found = [record for record in self._records() if record.owner == owner and record.at >= oldest]
        found.sort(key=lambda record: record.at, reverse=True)
        return [StoredArtifact(record.ref, record.session, record.at) for record in found]

    def _forget(self, session: str, owner: str) -> int:
        """Remove the artifacts of this session of this owner, and return their number."""
        with self._writing:
            found = [record for record in self._records() if (record.owner, record.session) == (owner, session)]
            for record in found:
                body = self._folder / record.ref.id
                for path in (body, body.with_suffix(".json")):  # the record last: without it the body is not found
                    path.unlink(missing_ok=True)
            return len(found)

    def _remove_one(self, artifact_id: str, owner: str) -> None:
        with self._writing, contextlib.suppress(ToolError):  # the owner has no such artifact
            _remove(self._folder / self._record(artifact_id, owner).ref.id)

    def _records(self) -> Iterator[ArtifactRecord]:
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(FileNotFoundError, ValueError):  # the record was removed meanwhile, or is damaged
                yield msgspec.json.decode(path.read_bytes(), type=ArtifactRecord)

    def _write(self, record: ArtifactRecord, put_body: Callable[[Path], object], *, is_synced: bool = False) -> None:
        """Store the body and then its record: a body without a record does not count."""
        body = self._folder / record.ref.id
        with self._writing:
            make_private(self._folder)
            self._make_room(record.ref.size)
            try:
                put_body(body)
                write_private(body.with_suffix(".json"), msgspec.json.encode(record), is_synced=is_synced)
                if is_synced:
                    sync_folder(self._folder)
            except OSError:
                _remove(body)
                raise

    def _read(self, artifact_id: str, owner: str, offset: int, limit: int | None) -> bytes:
        """Return a part of the artifact's body."""
        record = self._record(artifact_id, owner)
        begin = min(max(offset, 0), record.ref.size)
        try:
            with (self._folder / record.ref.id).open("rb") as body:
                body.seek(begin)
                return body.read(-1 if limit is None else max(limit, 0))
        except FileNotFoundError:  # it was removed just now, to make room for another artifact
            raise missing_artifact(artifact_id) from None
        except OSError as error:
            raise ToolError("execution_failed", f"The artifact can't be read: {error.strerror or error}.") from error

    def _record(self, artifact_id: str, owner: str) -> ArtifactRecord:
        """Return the artifact's record. Raises `ToolError` if it is missing, damaged, too old or another owner's."""
        if not is_artifact_id(artifact_id):
            raise missing_artifact(artifact_id)
        try:
            record = msgspec.json.decode((self._folder / f"{artifact_id}.json").read_bytes(), type=ArtifactRecord)
        except (OSError, ValueError):  # ValueError: the record is damaged
            raise missing_artifact(artifact_id) from None
        if record.owner != owner or record.at < self._oldest():
            raise missing_artifact(artifact_id)  # as for an unknown id: another owner can't learn that it exists
        return record

    def _make_room(self, wanted: int) -> None:
        """Remove expired artifacts, then the oldest ones until `wanted` more bytes fit."""
        names = set(os.listdir(self._folder))
        self._remove_lone_records(names)
        remove_abandoned(self._folder)
        bodies = sorted(self._bodies(names))
        total = wanted + sum(size for _, size, _ in bodies)
        too_old = self._oldest()
        for place, (at, size, body) in enumerate(bodies):
            if at >= too_old and len(bodies) - place < self._limits.count and total <= self._limits.total:
                break
            _remove(body)
            total -= size

    def _bodies(self, names: set[str]) -> Iterator[tuple[float, int, Path]]:
        """Yield time, size and path of every body. Skip bodies that another process removes meanwhile."""
        for name in names:
            if len(name) in _ID_LENGTHS:
                with contextlib.suppress(FileNotFoundError):
                    found = os.stat(self._folder / name)
                    yield found.st_mtime, found.st_size, self._folder / name

    def _remove_lone_records(self, names: set[str]) -> None:
        """Remove records without a body. A body is written before its record: so another process has removed it."""
        for alone in {name.removesuffix(".json") for name in names} - names:
            if not (self._folder / alone).exists():
                _remove(self._folder / alone)


def new_record(size: int, owner: str, session: str, media_type: str, name: str) -> ArtifactRecord:
    """Return the record of a new artifact, with an id that can't be guessed."""
    return ArtifactRecord(
        ArtifactRef(secrets.token_hex(_ID_BYTES), size, media_type, name), owner, session, time.time()
    )


def is_artifact_id(text: str) -> bool:
    """Whether this text has the form of an artifact's id."""
    return len(text) in _ID_LENGTHS and set(text) <= set("0123456789abcdef")


def missing_artifact(artifact_id: str) -> ToolError:
    """Return the error for an id under which the owner has no artifact."""
    shown = artifact_id if len(artifact_id) <= 60 else f"{artifact_id[:60]}…"
    return ToolError(
        "file_not_found", f"There is no artifact {shown!r}: it was never made, is not yours, or was too old to keep."
    )


def write_error(error: OSError) -> ToolError:
    """Return the error for an artifact that the disk does not take."""
    return ToolError("execution_failed", f"The artifact can't be kept: {error.strerror or error}.")


def _remove(body: Path) -> None:
    """Remove an artifact's record and body, as far as they can be removed."""
    for path in (body.with_suffix(".json"), body):
        with contextlib.suppress(OSError):
            path.unlink()
