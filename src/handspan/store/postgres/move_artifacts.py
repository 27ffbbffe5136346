"""Moves artifacts from the state folder into rows or a bucket: records and bodies. Both sides are compared by hashes.

An object is put under the artifact's id: a move that is run again replaces it. Rows are part of the one transaction.
"""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.store.artifacts import ArtifactRecord, is_artifact_id
from handspan.store.bodies import PIECE, Body, FileBody, pieces_of
from handspan.store.objects.bucket import Bucket
from handspan.store.postgres.connections import clean_row
from handspan.store.tables.rows import Row

_COLUMNS: Final = ("id", "owner", "session", "at", "size", "media_type", "name")
_ROWS: Final = f"SELECT {', '.join(_COLUMNS)}, place FROM artifacts WHERE state = 'stored' ORDER BY id"
_DIGESTS: Final = "SELECT sha256(body) FROM artifact_chunks WHERE artifact = $1 ORDER BY number"
_INSERT: Final = (
    f"INSERT INTO artifacts ({', '.join(_COLUMNS)}, place, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'stored')"
)
_INSERT_CHUNK: Final = "INSERT INTO artifact_chunks (artifact, number, body) VALUES ($1, $2, $3)"


class MovedArtifacts(Struct, frozen=True):
    """The artifacts of a state folder, and where they go."""

    folder: Path
    bucket: Bucket | None = None
    above: int = 1024 * 1024
    """Larger bodies go to the bucket."""

    async def copy(self, raw: Any) -> None:
        """Copy all artifacts. Raises `StoreError` and `OSError`."""
        for record, body in self._whole_artifacts():
            place = "bucket" if self.bucket is not None and body.size > self.above else "rows"
            await raw.execute(_INSERT, *_values(record), place)
            if place == "bucket" and self.bucket is not None:
                await self.bucket.put(record.ref.id, body)
                continue
            number = 0
            async for piece in pieces_of(body):
                await raw.execute(_INSERT_CHUNK, record.ref.id, number, piece)
                number += 1

    async def source_rows(self) -> AsyncIterator[Row]:
        """Yield the columns of each artifact in the folder, with the hashes of its pieces."""
        for record, body in self._whole_artifacts():
            digests = [hashlib.sha256(piece).digest() async for piece in pieces_of(body)]
            yield (*_values(record), b"".join(digests))

    async def target_rows(self, raw: Any) -> AsyncIterator[Row]:
        """Yield the columns and hashes of each artifact in the database. Objects are read back from the bucket."""
        for *values, place in await raw.fetch(_ROWS):
            if place == "bucket":
                digests = [digest async for digest in self._object_digests(values[0], values[4])]
            else:
                digests = [row[0] for row in await raw.fetch(_DIGESTS, values[0])]
            yield (*values, b"".join(digests))

    async def _object_digests(self, artifact_id: str, size: int) -> AsyncIterator[bytes]:
        """Yield the hash of each piece of an object."""
        for begin in range(0, size if self.bucket is not None else 0, PIECE):
            piece = await self.bucket.get(artifact_id, begin, min(begin + PIECE, size)) if self.bucket else None
            yield hashlib.sha256(piece or b"").digest()

    def _whole_artifacts(self) -> list[tuple[ArtifactRecord, Body]]:
        """Return the artifacts that are whole. Skip damaged records, and records whose body is missing or too short."""
        found: list[tuple[ArtifactRecord, Body]] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=ArtifactRecord)
                size = path.with_suffix("").stat().st_size
            except (FileNotFoundError, ValueError):
                continue
            if is_artifact_id(record.ref.id) and record.ref.id == path.stem and size == record.ref.size:
                found.append((record, FileBody(path.with_suffix(""), size)))
        return found


def _values(record: ArtifactRecord) -> Row:
    ref = record.ref
    return clean_row((ref.id, record.owner, record.session, record.at, ref.size, ref.media_type, ref.name))
