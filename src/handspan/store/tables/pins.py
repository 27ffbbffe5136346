"""The definitions of tools from outside, as rows (SPEC T5)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.records import Pin
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database
from handspan.store.tables.rows import Row, replace_columns

_COLUMNS: Final = "owner, origin, name, fingerprint, definition"
_SAVE: Final = f"INSERT INTO pins ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)" + replace_columns(
    "owner, origin, name", "fingerprint, definition"
)


class StoredPins:
    """Stores pins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str, origin: str | None = None) -> Sequence[Pin]:
        """Return the owner's pins, or those of one origin; sorted by origin and name."""
        fits = "owner = ? AND (?/*text*/ IS NULL OR origin = ?)"
        sql = f"SELECT {_COLUMNS} FROM pins WHERE {fits} ORDER BY origin, name"
        wanted = None if origin is None else sanitize(origin)
        rows = await self._database.fetch_all(sql, (sanitize(owner), wanted, wanted))
        return [_pin(row) for row in rows]

    async def get(self, name: str, *, owner: str, origin: str) -> Pin | None:
        """Return the pin of this tool, or None."""
        sql = f"SELECT {_COLUMNS} FROM pins WHERE owner = ? AND origin = ? AND name = ?"
        key = (sanitize(owner), sanitize(origin), sanitize(name))
        row = await self._database.fetch_one(sql, key)
        return None if row is None else _pin(row)

    async def set(self, *pins: Pin) -> None:
        """Store these pins, all or none. A pin replaces the one with the same owner, origin and name."""
        await self._database.execute_many(_SAVE, [_values(pin) for pin in pins])


def _values(pin: Pin) -> Row:
    texts = (pin.owner, pin.origin, pin.name, pin.fingerprint)
    return (*(sanitize(text) for text in texts), encode(pin.definition))


def _pin(row: Row) -> Pin:
    owner, origin, name, fingerprint, definition = row
    return Pin(owner, origin, name, fingerprint, msgspec.json.decode(definition))
