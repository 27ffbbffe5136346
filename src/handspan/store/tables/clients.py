"""Devices (SPEC W10, T5), the tools of pages (graph.md 3.2, 5.5), and answers by their ids (SPEC F2), as rows."""

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.calls import decode_facts
from handspan.core.records import DeviceRow, ResponseRow
from handspan.core.store import MAX_TOOL_SETS
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection, join_unit
from handspan.store.tables.rows import ALL_ROWS, Row, put_row

_DEVICE: Final = "owner, id, label, name, last_seen, tools, gone, changed, token"
_SAVE_DEVICE: Final = put_row("devices", "owner, id", _DEVICE.removeprefix("owner, id, "))
_SAVE_TOOLS: Final = put_row("browser_tools", "client, set_id", "tools, at")
_RESPONSE: Final = "id, owner, client, session, length, body, input"
_SAVE_RESPONSE: Final = put_row("responses", "id", f"{_RESPONSE.removeprefix('id, ')}, at")
_THIS_RESPONSE: Final = "WHERE id = ? AND owner = ? AND client = ?"
_COUNT_TOOLS: Final = "SELECT COUNT(*) FROM browser_tools WHERE client = ?"
_OLD_TOOLS: Final = (
    "SELECT set_id FROM browser_tools WHERE client = ? AND set_id <> '' ORDER BY at DESC LIMIT ? OFFSET ?"
)


class StoredDevices:
    """Stores the devices of all owners. Implements `DeviceBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, *, owner: str | None = None) -> Sequence[DeviceRow]:
        where, values = ("", ()) if owner is None else (" WHERE owner = ?", (sanitize(owner),))
        rows = await self._database.fetch_all(f"SELECT {_DEVICE} FROM devices{where} ORDER BY owner, id", values)
        return [_decode_device(row) for row in rows]

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        encoded = [_encode_device(row) for row in rows]
        await self._database.write(lambda connection: connection.execute_many(_SAVE_DEVICE, encoded))

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        sql, keys = "DELETE FROM devices WHERE owner = ? AND id = ?", [(sanitize(owner), id_) for owner, id_ in devices]
        await self._database.write(lambda connection: connection.execute_many(sql, keys))


def _encode_device(row: DeviceRow) -> Row:
    texts = (sanitize(row.owner), row.id, row.label, sanitize(row.name))
    return (*texts, row.last_seen, encode(row.tools), encode(row.gone), encode(row.changed), row.token)


def _decode_device(row: Row) -> DeviceRow:
    owner, device_id, label, name, last_seen, tools, gone, changed, token = row
    known = (msgspec.json.decode(tools), msgspec.json.decode(gone), tuple(msgspec.json.decode(changed)))
    return DeviceRow(owner, device_id, label, name, last_seen, *known, token)


class StoredBrowserTools:
    """Stores the tools that each client has set up, and the sets that came with its requests. A `ToolSetBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, client: str, set_id: str = "") -> bytes | None:
        sql, key = "SELECT tools FROM browser_tools WHERE client = ? AND set_id = ?", (client, set_id)
        row = await self._database.fetch_one(sql, key)
        return None if row is None else bytes(row[0])

    async def save(self, client: str, set_id: str, tools: bytes) -> None:
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


class StoredResponses:
    """Stores answers by their ids. Implements `ResponseBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, response_id: str, *, owner: str, client: str) -> ResponseRow | None:
        key = (sanitize(response_id), sanitize(owner), client)
        row = await self._database.fetch_one(f"SELECT {_RESPONSE} FROM responses {_THIS_RESPONSE}", key)
        if row is None:
            return None
        response, of, token, session, length, body, given = row
        return ResponseRow(response, of, token, session, length=length, body=bytes(body), input=bytes(given))

    async def save(self, row: ResponseRow) -> None:
        values = (row.id, sanitize(row.owner), row.client, row.session, row.length, row.body, row.input, time.time())
        await self._database.write(lambda connection: connection.execute(_SAVE_RESPONSE, values))

    async def delete(self, response_id: str, *, owner: str, client: str) -> bool:
        key = (sanitize(response_id), sanitize(owner), client)
        sql = f"DELETE FROM responses {_THIS_RESPONSE}"
        return await self._database.write(lambda connection: connection.execute(sql, key)) > 0
