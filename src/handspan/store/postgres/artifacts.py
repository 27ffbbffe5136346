"""Artifacts in PostgreSQL: small ones as rows of chunks, large ones as objects of a bucket (SPEC X3, S6).

The row of an artifact is written before its body, counts only when the body is whole, and is removed only after the
body. So after any interruption, each body has a row that leads to it: it is cleaned up when the next artifact is
stored.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.config.store_settings import ArtifactSettings
from handspan.core.artifacts import ArtifactRef, StoredArtifact
from handspan.core.errors import StoreError
from handspan.core.tasks import finish
from handspan.core.values import sanitize
from handspan.store.artifacts import ArtifactRecord, is_artifact_id, missing_artifact, new_record, write_error
from handspan.store.bodies import PIECE, Body, BytesBody, FileBody, PartialFile, remove_abandoned, too_large
from handspan.store.objects.bucket import Bucket
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import Row

_log = logging.getLogger(__name__)

_CHUNKS_AT_ONCE: Final = 16
"""Chunks that one statement reads."""
_ARRIVES_WITHIN: Final = 3600.0
"""Seconds in which a body has to arrive. After them, its process counts as gone, and the artifact is removed."""
_COLUMNS: Final = "id, owner, session, at, size, media_type, name, place, state"
_INSERT: Final = f"INSERT INTO artifacts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_CHUNK: Final = "INSERT INTO artifact_chunks (artifact, number, body) VALUES (?, ?, ?)"
_STORED: Final = "UPDATE artifacts SET state = 'stored' WHERE id = ? AND state = 'arriving'"
_FIND: Final = (
    "SELECT id, size, media_type, name, place FROM artifacts"
    " WHERE id = ? AND owner = ? AND at >= ? AND state = 'stored'"
)
_LIST: Final = (
    "SELECT id, size, media_type, name, session, at FROM artifacts"
    " WHERE owner = ? AND at >= ? AND state = 'stored' ORDER BY at DESC, id DESC"
)
_READ: Final = "SELECT body FROM artifact_chunks WHERE artifact = ? AND number >= ? AND number < ? ORDER BY number"
_OF_SESSION: Final = "owner = ? AND session = ?"
_TOO_MANY: Final = """
id IN (SELECT id FROM (
    SELECT id, row_number() OVER newest AS place, sum(size) OVER newest AS bytes FROM artifacts
    WHERE state = 'stored' WINDOW newest AS (ORDER BY at DESC, id DESC)
) AS stored WHERE place > ?/*bigint*/ OR (bytes > ?/*numeric*/ AND place > 1))
OR at < ? OR state = 'removed' OR (state = 'arriving' AND at < ?)
"""
_REMOVE_ROWS: Final = "DELETE FROM artifacts WHERE place = 'rows' AND ({})"
_MARK_OBJECTS: Final = "UPDATE artifacts SET state = 'removed' WHERE place = 'bucket' AND ({}) RETURNING id"
_REMOVE_MARKED: Final = "DELETE FROM artifacts WHERE id = ? AND state = 'removed'"


class _Found(Struct, frozen=True):
    ref: ArtifactRef
    place: str
    """Where its body is: `rows` or `bucket`."""


class RowArtifacts:
    """Stores artifacts in tables, and large ones in a bucket if there is one. Implements `ArtifactStore`."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        limits: ArtifactSettings | None = None,
        bucket: Bucket | None = None,
        above: int = 1024 * 1024,
    ) -> None:
        """`folder`: where a file is collected until all pieces have come. `above`: larger bodies go to the bucket."""
        self._database = database
        self._folder = folder
        self._limits = limits or ArtifactSettings()
        self._bucket = bucket
        self._above = above

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "text/plain", name: str = ""
    ) -> ArtifactRef:
        if len(data) > self._limits.size:
            raise too_large(f"{len(data)}", self._limits.size)
        record = new_record(len(data), owner, session, _clean(media_type), name=_clean(name))
        await self.store(record, BytesBody(data))
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
        """Store an artifact that comes in pieces: first in a file, so that no transaction waits for the client."""
        part = PartialFile(self._folder, self._limits.size)
        try:
            await asyncio.to_thread(remove_abandoned, self._folder)
            await part.write(pieces)
            record = new_record(part.size, owner, session, _clean(media_type), name=_clean(name))
            await self.store(record, FileBody(part.path, part.size))
        except OSError as error:
            raise write_error(error) from error
        finally:
            await part.discard()
        return record.ref

    async def store(self, record: ArtifactRecord, body: Body) -> None:
        """Store an artifact with this record. Raises `StoreError` and `OSError`; then nothing of the artifact stays."""
        place = "bucket" if self._bucket is not None and body.size > self._above else "rows"
        if place == "rows" and body.size <= PIECE:
            await self._store_small(record, await body.read(0, PIECE))
        else:
            await self._store_large(record, body, place)
        await self._remove_marked()

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        return (await self._find(artifact_id, owner)).ref

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        found = await self._find(artifact_id, owner)
        begin = min(max(offset, 0), found.ref.size)
        end = found.ref.size if limit is None else min(begin + max(limit, 0), found.ref.size)
        data = await (self._read_object if found.place == "bucket" else self._read_rows)(artifact_id, begin, end)
        if len(data) != end - begin:  # it was removed just now, to make room for another artifact
            raise missing_artifact(artifact_id)
        return data

    async def all(self, *, owner: str) -> list[StoredArtifact]:
        rows = await self._database.fetch_all(_LIST, (sanitize(owner), self._oldest()))
        return [StoredArtifact(ArtifactRef(*row[:4]), *row[4:]) for row in rows]

    async def forget_session(self, session: str, *, owner: str) -> int:
        if not session:
            return 0
        removed, marked = await self._remove(_OF_SESSION, (sanitize(owner), sanitize(session)))
        for artifact_id in marked:
            await self._remove_object(artifact_id)
        return removed + len(marked)

    async def remove(self, artifact_id: str, *, owner: str) -> None:
        _, marked = await self._remove("id = ? AND owner = ?", (artifact_id, sanitize(owner)))
        for found in marked:
            await self._remove_object(found)

    async def check(self) -> str:
        return await self._bucket.check() if self._bucket is not None else ""

    async def close(self) -> None:
        if self._bucket is not None:
            await self._bucket.close()

    def _oldest(self) -> float:
        return time.time() - self._limits.days * 24 * 3600.0

    # Storing.

    async def _store_small(self, record: ArtifactRecord, data: bytes) -> None:
        """Store a body of one chunk in one transaction."""

        async def work(connection: TableConnection) -> None:
            await connection.execute(_INSERT, (*_values(record), "rows", "stored"))
            if data:
                await connection.execute(_INSERT_CHUNK, (record.ref.id, 0, data))
            await self._make_room(connection)

        await self._database.write(work)

    async def _store_large(self, record: ArtifactRecord, body: Body, place: str) -> None:
        """Store the row, then the body, then mark the row as stored. Other writes go on between the chunks.

        `place`: where the body goes, "rows" or "bucket".
        """
        await self._database.execute(_INSERT, (*_values(record), place, "arriving"))
        try:
            if place == "bucket":
                await self._open_bucket().put(record.ref.id, body)
            else:
                await self._write_chunks(record.ref.id, body)
            await self._database.write(lambda connection: self._finish(connection, record.ref.id))
        except BaseException:
            await finish(self._discard(record.ref.id, place))
            raise

    async def _write_chunks(self, artifact_id: str, body: Body) -> None:
        for number, offset in enumerate(range(0, body.size, PIECE)):
            await self._database.execute(_INSERT_CHUNK, (artifact_id, number, await body.read(offset, PIECE)))

    async def _finish(self, connection: TableConnection, artifact_id: str) -> None:
        """Mark the row as stored, and make room. Raises `StoreError` when the row was removed meanwhile."""
        if await connection.execute(_STORED, (artifact_id,)) == 0:
            raise StoreError("The artifact can't be kept: it took too long to arrive. Send it again.")
        await self._make_room(connection)

    async def _discard(self, artifact_id: str, place: str) -> None:
        """Remove a body that is not whole. If that fails, it is removed when a later artifact is stored."""
        with contextlib.suppress(StoreError):
            await self._remove("id = ?", (artifact_id,))
        with contextlib.suppress(StoreError):
            if place == "bucket":  # also when the row is gone: the session may have been deleted meanwhile
                await self._remove_object(artifact_id)

    # Removing.

    async def _make_room(self, connection: TableConnection) -> None:
        """Remove artifacts that are too old or too many, or that never became whole.

        Those in rows are removed now. Objects are only marked: they are removed after the commit.
        """
        values = (self._limits.count, self._limits.total, self._oldest(), time.time() - _ARRIVES_WITHIN)
        await connection.execute(_REMOVE_ROWS.format(_TOO_MANY), values)
        if self._bucket is not None:
            await connection.execute(_MARK_OBJECTS.format(_TOO_MANY).removesuffix(" RETURNING id"), values)

    async def _remove(self, condition: str, values: Row) -> tuple[int, list[str]]:
        """Remove artifacts in rows, and mark those in the bucket.

        Return the number of the removed ones, and the ids of the marked ones: their objects have to be removed next.
        """

        async def work(connection: TableConnection) -> tuple[int, list[str]]:
            removed = await connection.execute(_REMOVE_ROWS.format(condition), values)
            marked: Sequence[Row] = await connection.fetch_all(_MARK_OBJECTS.format(condition), values)
            return removed, [row[0] for row in marked]

        return await self._database.write(work)

    async def _remove_marked(self) -> None:
        """Remove the objects whose row is marked. After a failure, the next artifact that is stored tries again."""
        if self._bucket is None:
            return
        for row in await self._database.fetch_all("SELECT id FROM artifacts WHERE state = 'removed' LIMIT 100"):
            try:
                await self._remove_object(row[0])
            except StoreError as error:
                _log.warning("An artifact could not be removed: %s", error)
                return

    async def _remove_object(self, artifact_id: str) -> None:
        await self._open_bucket().remove(artifact_id)
        await self._database.execute(_REMOVE_MARKED, (artifact_id,))

    # Reading.

    async def _find(self, artifact_id: str, owner: str) -> _Found:
        if not is_artifact_id(artifact_id):
            raise missing_artifact(artifact_id)
        row = await self._database.fetch_one(_FIND, (artifact_id, sanitize(owner), self._oldest()))
        if row is None:  # unknown, too old or another owner's: a caller can't learn that it exists
            raise missing_artifact(artifact_id)
        return _Found(ArtifactRef(*row[:4]), row[4])

    async def _read_rows(self, artifact_id: str, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, out of the chunks that have them."""
        first, last = begin // PIECE, (end + PIECE - 1) // PIECE
        data = bytearray()
        for number in range(first, last, _CHUNKS_AT_ONCE):
            wanted = (artifact_id, number, min(number + _CHUNKS_AT_ONCE, last))
            for row in await self._database.fetch_all(_READ, wanted):
                data += row[0]
        return bytes(memoryview(data)[begin - first * PIECE : end - first * PIECE])

    async def _read_object(self, artifact_id: str, begin: int, end: int) -> bytes:
        return await self._open_bucket().get(artifact_id, begin, end) or b""

    def _open_bucket(self) -> Bucket:
        if self._bucket is None:
            text = "This artifact is in an object storage, and none is set: set `store.objects` as it was before."
            raise StoreError(text)
        return self._bucket


def _values(record: ArtifactRecord) -> Row:
    ref = record.ref
    return (ref.id, sanitize(record.owner), sanitize(record.session), record.at, ref.size, ref.media_type, ref.name)


def _clean(text: str) -> str:
    """Return the text as the database stores it."""
    return sanitize(text).replace("\0", "\ufffd")
