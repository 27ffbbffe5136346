"""The writes of the rows of clients: a node's clients come and go often, so `batches.py` writes many rows at once."""

from typing import Final

from msgspec import Struct

from handspan.core.nodes import AddedClient, ClientRecord
from handspan.core.values import sanitize
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import Row

ADDED: Final = "peer, owner, node, role, label, session, prefix, capabilities, name, token, tools"
"""The columns that `AddClient` sets from its record."""
REPLACE: Final = (
    "ON CONFLICT (peer) DO UPDATE SET node = excluded.node, epoch = excluded.epoch, label = excluded.label,"
    " session = excluded.session, prefix = excluded.prefix, capabilities = excluded.capabilities,"
    " name = excluded.name, token = excluded.token, tools = excluded.tools, version = clients.version + 1,"
    " since = excluded.since WHERE clients.since <= excluded.since OR clients.node = excluded.node"
)
"""Lets the connection that began last count, also when its row is written late."""
_HAS_LABEL: Final = "SELECT 1 FROM clients WHERE owner = ? AND label = ? AND role = 'device' AND peer <> ?"
_FIND: Final = "SELECT node, epoch FROM clients WHERE peer = ?"
_ADD: Final = (
    f"INSERT INTO clients ({ADDED}, epoch, version, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    f" nextval('client_epochs'), 0, to_timestamp(?/*double precision*/)) {REPLACE} RETURNING epoch"
)


class AddClient(Struct, frozen=True):
    """Enters a client at its node. `since`: when its connection began, by the database's clock."""

    client: ClientRecord
    since: float

    @property
    def values(self) -> Row:
        """The values of the columns `ADDED`, and `since`."""
        one = self.client
        about = (one.role, one.label, one.session, one.prefix, " ".join(one.capabilities))
        return (one.peer, sanitize(one.owner), one.node, *about, sanitize(one.name), one.token, one.tools, self.since)

    async def __call__(self, connection: TableConnection) -> AddedClient:
        """Enter it, unless another device has its label, or it has connected to another node later."""
        one = self.client
        label = (sanitize(one.owner), one.label, one.peer)
        if one.role == "device" and await connection.fetch_one(_HAS_LABEL, label):
            return AddedClient(0)
        before = await connection.fetch_one(f"{_FIND} FOR UPDATE", (one.peer,))
        epoch = await connection.fetch_value(_ADD, self.values)
        if epoch is None:  # this write comes late, as after an outage: the row of a later connection counts
            newer = await connection.fetch_one(_FIND, (one.peer,))
            return AddedClient(0, newer=newer[1] if newer is not None else 0)
        return AddedClient(epoch, before[0] if before is not None and before[0] != one.node else "")


class StoreTools(Struct, frozen=True):
    """Stores the tools of a client, unless a newer connection counts."""

    peer: str
    epoch: int
    tools: bytes

    async def __call__(self, connection: TableConnection) -> None:
        """Store them."""
        sql = "UPDATE clients SET tools = ?, version = version + 1 WHERE peer = ? AND epoch = ?"
        await connection.execute(sql, (self.tools, self.peer, self.epoch))


class RemoveClient(Struct, frozen=True):
    """Removes the row of a connection that is gone. A newer connection stays."""

    peer: str
    epoch: int

    async def __call__(self, connection: TableConnection) -> None:
        """Remove it."""
        await connection.execute("DELETE FROM clients WHERE peer = ? AND epoch = ?", (self.peer, self.epoch))
