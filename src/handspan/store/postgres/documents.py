"""Switches, and the secret of idempotency keys, as rows. SQLite's store has them as small files."""

import secrets
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

import msgspec

from handspan.core.errors import ConfigError, StoreError
from handspan.store.idempotency import KEY_BYTES, derive_call_id
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import put_row

_T = TypeVar("_T")

_READ = "SELECT body FROM documents WHERE name = ?"
_WRITE = put_row("documents", "name", "body")
_WRITE_FIRST = "INSERT INTO documents (name, body) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"


class JsonDocument(Generic[_T]):
    """A JSON value in a row of its own. Implements `JsonValue` of `store/switches.py`."""

    def __init__(self, database: PostgresDatabase, name: str, decoder: msgspec.json.Decoder[_T], empty: bytes) -> None:
        self._database = database
        self._name = name
        self._decoder = decoder
        self._empty = empty

    async def read(self) -> _T:
        row = await self._database.fetch_one(_READ, (self._name,))
        return self._decode(self._empty if row is None else row[0])

    async def change(self, change: Callable[[_T], _T | None]) -> bool:
        """Replace the document by what `change` makes of it; None leaves it as it is."""

        async def work(connection: TableConnection) -> bool:
            value = change(self._decode(await connection.fetch_value(_READ, (self._name,)) or self._empty))
            if value is None:
                return False
            await connection.execute(_WRITE, (self._name, msgspec.json.encode(value)))
            return True

        return await self._database.write(work)

    def _decode(self, body: bytes) -> _T:
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as error:
            text = f"The document {self._name!r} of the database can't be read ({error}): repair or delete its row"
            raise ConfigError(f"{text} in the table `documents`.") from None


class StoredIdempotency:
    """Derives ids with a secret that is a row of the database. The first request creates that row."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._secret = b""

    async def call_id(self, owner: str, key: str) -> str:
        """Return the call id for this owner and key, in UUID form. Raises `StoreError` if the secret can't be used."""
        secret = self._secret or await self._database.write(partial(load_secret, "idempotency"))
        if len(secret) != KEY_BYTES:
            text = "The document 'idempotency' of the database is damaged: delete its row in the table `documents`."
            raise StoreError(f"{text} Calls that were made with a key may run again then.")
        self._secret = secret
        return derive_call_id(secret, owner, key)


async def load_secret(name: str, connection: TableConnection) -> bytes:
    """Return the secret in the row of this name. The first call makes it."""
    await connection.execute(_WRITE_FIRST, (name, secrets.token_bytes(KEY_BYTES)))
    secret: bytes = await connection.fetch_value(_READ, (name,))
    return secret
