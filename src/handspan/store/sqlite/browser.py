"""Tools that clients over HTTP offered, as rows (graph.md 3.2, 5.5)."""

import sqlite3
import time
from typing import Final

from handspan.core.store import MOST_TOOL_SETS
from handspan.store.sqlite.database import Database

_SAVE: Final = "INSERT OR REPLACE INTO browser_tools (client, set_id, tools, at) VALUES (?, ?, ?, ?)"
_COUNT: Final = "SELECT COUNT(*) FROM browser_tools WHERE client = ?"
# A run that waits goes on with what it began with, after a restart too: its calls name the set behind their thread.
_TIDY: Final = (
    "WITH open AS (SELECT json_extract(CAST(tool AS TEXT), '$.origin.name') AS client,"
    " json_extract(CAST(tool AS TEXT), '$.origin.connection') AS place FROM calls WHERE state <> 'done')"
    " DELETE FROM browser_tools WHERE client = ?1 AND set_id <> '' AND set_id NOT IN"
    " (SELECT set_id FROM browser_tools WHERE client = ?1 AND set_id <> '' ORDER BY at DESC LIMIT ?2)"
    " AND set_id NOT IN (SELECT substr(place, instr(place, ':') + 1) FROM open WHERE client = ?1 AND place IS NOT NULL)"
)


class StoredBrowserTools:
    """What each client set up, and the sets of tools that its requests brought."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, client: str, set_id: str = "") -> bytes | None:
        """This set of the client, or what it has set up; None when there is none."""
        sql, key = "SELECT tools FROM browser_tools WHERE client = ? AND set_id = ?", (client, set_id)
        row = self._database.read_now(lambda connection: connection.execute(sql, key).fetchone())
        return None if row is None else bytes(row[0])

    async def save(self, client: str, set_id: str, tools: bytes) -> None:
        """Keep this set, or put it in place of what was set up."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_SAVE, (client, set_id, tools, time.time()))
            if connection.execute(_COUNT, (client,)).fetchone()[0] > MOST_TOOL_SETS:
                connection.execute(_TIDY, (client, MOST_TOOL_SETS))

        await self._database.join(work)
