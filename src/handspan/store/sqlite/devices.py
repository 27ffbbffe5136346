"""Devices as rows (SPEC W10, T5)."""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.records import DeviceRow
from handspan.core.values import encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row

_COLUMNS: Final = "owner, id, label, name, last_seen, tools, gone, changed"
_SAVE: Final = f"INSERT OR REPLACE INTO devices ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class StoredDevices:
    """The devices of all owners, in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> Sequence[DeviceRow]:
        """Every device of every owner."""
        sql = f"SELECT {_COLUMNS} FROM devices ORDER BY owner, id"
        rows = await self._database.read(lambda connection: connection.execute(sql).fetchall())
        return [_device(row) for row in rows]

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        """Keep these, in place of those of the same owner and id; all or none."""

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_SAVE, map(_values, rows))

        await self._database.write(work)

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        """Forget these, each given as owner and id; all or none."""
        sql, keys = "DELETE FROM devices WHERE owner = ? AND id = ?", [(plain(owner), id_) for owner, id_ in devices]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(sql, keys)

        await self._database.write(work)


def _values(row: DeviceRow) -> Row:
    texts = (plain(row.owner), row.id, row.label, plain(row.name))
    return (*texts, row.last_seen, encode(row.tools), encode(row.gone), encode(row.changed))


def _device(row: Row) -> DeviceRow:
    owner, device_id, label, name, last_seen, tools, gone, changed = row
    known = (msgspec.json.decode(tools), msgspec.json.decode(gone), tuple(msgspec.json.decode(changed)))
    return DeviceRow(owner, device_id, label, name, last_seen, *known)
