"""Devices (SPEC W10, T5) and the tools of pages (graph.md 3.2, 5.5), as rows."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.calls import decode_facts
from handspan.core.records import DeviceRow
from handspan.core.store import MAX_TOOL_SETS
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection, join_unit
from handspan.store.tables.rows import ALL_ROWS, Row, replace_columns

_DEVICE: Final = "owner, id, label, name, last_seen, tools, gone, changed, token"
_SAVE_DEVICE: Final = f"INSERT INTO devices ({_DEVICE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)" + replace_columns(
    "owner, id", _DEVICE
)
_SAVE_TOOLS: Final = "INSERT INTO browser_tools (client, set_id, tools, at) VALUES (?, ?, ?, ?)" + replace_columns(
    "client, set_id", "tools, at"
)
_COUNT_TOOLS: Final = "SELECT COUNT(*) FROM browser_tools WHERE client = ?"
_OLD_TOOLS: Final = (
    "SELECT set_id FROM browser_tools WHERE client = ? AND set_id <> '' ORDER BY at DESC LIMIT ? OFFSET ?"
)


class StoredDevices:
    """Stores the devices of all owners."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str | None = None) -> Sequence[DeviceRow]:
        """Return every device of every owner, or of one."""
        where, values = ("", ()) if owner is None else (" WHERE owner = ?", (sanitize(owner),))
        rows = await self._database.fetch_all(f"SELECT {_DEVICE} FROM devices{where} ORDER BY owner, id", values)
        return [_decode_device(row) for row in rows]

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        """Store these devices, all or none. A device replaces the one with the same owner and id."""
        await self._database.execute_many(_SAVE_DEVICE, [_encode_device(row) for row in rows])

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        """Remove these devices, each given as owner and id; all or none."""
        sql, keys = "DELETE FROM devices WHERE owner = ? AND id = ?", [(sanitize(owner), id_) for owner, id_ in devices]
        await self._database.execute_many(sql, keys)


def _encode_device(row: DeviceRow) -> Row:
    texts = (sanitize(row.owner), row.id, row.label, sanitize(row.name))
    return (*texts, row.last_seen, encode(row.tools), encode(row.gone), encode(row.changed), row.token)


def _decode_device(row: Row) -> DeviceRow:
    owner, device_id, label, name, last_seen, tools, gone, changed, token = row
    known = (msgspec.json.decode(tools), msgspec.json.decode(gone), tuple(msgspec.json.decode(changed)))
    return DeviceRow(owner, device_id, label, name, last_seen, *known, token)


class StoredBrowserTools:
    """Stores the tools that each client has set up, and the sets of tools that came with its requests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, client: str, set_id: str = "") -> bytes | None:
        """Return this set of the client; without an id, the tools that it has set up. None if there are none."""
        sql, key = "SELECT tools FROM browser_tools WHERE client = ? AND set_id = ?", (client, set_id)
        row = await self._database.fetch_one(sql, key)
        return None if row is None else bytes(row[0])

    async def save(self, client: str, set_id: str, tools: bytes) -> None:
        """Store this set; without an id, replace the tools that the client has set up.

        At most `MAX_TOOL_SETS` sets stay, beside those in use.
        """

        async def work(connection: TableConnection) -> None:
            await connection.execute(_SAVE_TOOLS, (client, set_id, tools, time.time()))
            if await connection.fetch_value(_COUNT_TOOLS, (client,)) > MAX_TOOL_SETS:
                await _remove_old_tools(client, connection)

        await join_unit(self._database, work)


async def _remove_old_tools(client: str, connection: TableConnection) -> None:
    """Remove the oldest sets beyond `MAX_TOOL_SETS`.

    A waiting run continues with the tools that it began with, even after a restart: so the sets of open calls stay. The
    id of a call's set is the part after ':' in its origin's connection.
    """
    old = await connection.fetch_all(_OLD_TOOLS, (client, ALL_ROWS, MAX_TOOL_SETS))
    calls = await connection.fetch_all("SELECT tool FROM calls WHERE state <> 'done'")
    origins = (decode_facts(tool).origin for (tool,) in calls)
    own = [origin for origin in origins if origin is not None and origin.name == client]
    in_use = {origin.connection.partition(":")[2] for origin in own if origin.connection}
    keys = [(client, set_id) for (set_id,) in old if set_id not in in_use]
    await connection.execute_many("DELETE FROM browser_tools WHERE client = ? AND set_id = ?", keys)
