"""The definitions of tools from outside, as rows (SPEC T5)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.records import Pin
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database
from handspan.store.tables.rows import Row, put_row

_COLUMNS: Final = "owner, origin, name, fingerprint, definition"
_SAVE: Final = put_row("pins", "owner, origin, name", "fingerprint, definition")


class StoredPins:
    """Stores pins. Implements `Pins`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str, origin: str | None = None) -> Sequence[Pin]:
        fits = "owner = ? AND (?/*text*/ IS NULL OR origin = ?)"
        sql = f"SELECT {_COLUMNS} FROM pins WHERE {fits} ORDER BY origin, name"
        wanted = None if origin is None else sanitize(origin)
        rows = await self._database.fetch_all(sql, (sanitize(owner), wanted, wanted))
        return [_pin(row) for row in rows]

    async def get(self, name: str, *, owner: str, origin: str) -> Pin | None:
        sql = f"SELECT {_COLUMNS} FROM pins WHERE owner = ? AND origin = ? AND name = ?"
        key = (sanitize(owner), sanitize(origin), sanitize(name))
        row = await self._database.fetch_one(sql, key)
        return None if row is None else _pin(row)

    async def set(self, *pins: Pin) -> None:
        rows = [_values(pin) for pin in pins]
        await self._database.write(lambda connection: connection.execute_many(_SAVE, rows))


def _values(pin: Pin) -> Row:
    texts = (pin.owner, pin.origin, pin.name, pin.fingerprint)
    return (*(sanitize(text) for text in texts), encode(pin.definition))


def _pin(row: Row) -> Pin:
    owner, origin, name, fingerprint, definition = row
    return Pin(owner, origin, name, fingerprint, definition=msgspec.json.decode(definition))
