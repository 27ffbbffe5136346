"""The names of the MCP servers in the settings of all nodes: no client of any node gets such a prefix (SPEC R2, K2).

Each name is a named lease of a node that has the server in its settings, whether the server is up or not. So the names
of a node go with the node.
"""

import time
from collections.abc import Callable
from typing import Final

from handspan.core.nodes import NodeBook
from handspan.sources.mcp.servers import McpServers

_LEASE: Final = "mcp_server/"
_LOOK_SECONDS: Final = 1.0


class ServerNames:
    """Tells the other nodes the names of this node's servers, and keeps the names of theirs on this node."""

    def __init__(self, book: NodeBook, servers: Callable[[], McpServers]) -> None:
        self._book = book
        self._servers = servers
        self._looked_at = 0.0

    async def look(self) -> None:
        """Enter and read the names, at most once a second. Raises `StoreError`."""
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        holders = {
            lease.removeprefix(_LEASE): node
            for lease, node in (await self._book.holders()).items()
            if lease.startswith(_LEASE)
        }
        own = self._servers().names
        for name in own - holders.keys():
            await self._book.hold(f"{_LEASE}{name}")
        for name in holders.keys() - own:
            if holders[name] == self._book.own:
                await self._book.release(f"{_LEASE}{name}")
        self._servers().keep_names(frozenset(name for name, node in holders.items() if node != self._book.own))
        self._looked_at = time.monotonic()
