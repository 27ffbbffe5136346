"""Nodes and their clients as rows (SPEC K). The rows of a node are deleted with its lease.

What each table, or column, is for:

nodes, leases: the nodes, and their last sign of life. A row that is gone never comes back: its node joins under a
    new id
clients: each connected client: node, epoch, capabilities, tools, since when. The connection that began last
    counts, also when its node enters it late; the rows go with the node. A row with the role server is the lease
    of an MCP server: one for each name
sessions.run: the lease of the node that runs the turn: the fence. Every append, rewind and end of a turn checks
    it. A running session without one was handed over
calls.run: the lease of the node that works on the call
entry_codes: pairing codes and sign-in links
named_leases: work that one node does for all: to listen to a channel, to answer one of its messages; and the
    names of the MCP servers in a node's settings, which no client of any node gets. They go with the node
asked_requests: requests with a key of their client: the request's fingerprint (`asked`), the node that answers it, then
    the answer
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from handspan.core.nodes import (
    AddedClient,
    ClientNode,
    ClientRecord,
    EntryCode,
    MessageSender,
    NodeChanges,
    NodeRecord,
    RequestClaim,
)
from handspan.core.values import sanitize
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.documents import load_secret
from handspan.store.postgres.node_clients import AddClient, RemoveClient, StoreTools
from handspan.store.postgres.node_leases import NodeLeases
from handspan.store.tables.database import TableConnection
from handspan.store.tables.rows import Row

_CLIENT: Final = "peer, owner, node, epoch, role, label, session, prefix, capabilities, name, token, tools, version"
_COLUMNS: Final = _CLIENT.split(", ")
_NODES: Final = (
    "SELECT nodes.id, name, address, nodes.version, role, EXTRACT(EPOCH FROM taken)::double precision,"
    " EXTRACT(EPOCH FROM clock_timestamp() - seen)::double precision, draining, load"
    " FROM nodes JOIN leases USING (id) ORDER BY name, nodes.id"
)
_CLAIM_SERVER: Final = (
    f"INSERT INTO clients ({_CLIENT}) SELECT ?, ?, id, nextval('client_epochs'), ?, ?, '', FALSE, ?, ?, '', ?, 0"
    " FROM nodes WHERE id = ? AND NOT draining ON CONFLICT DO NOTHING RETURNING epoch"
)
_ADD_CODE: Final = (
    "INSERT INTO entry_codes (hash, kind, owner, scopes, until, tries)"
    " VALUES (?, ?, ?, ?, clock_timestamp() + make_interval(secs => ?), ?)"
)
_DROP_CODES: Final = (
    "DELETE FROM entry_codes WHERE kind = ? AND place NOT IN"
    " (SELECT place FROM entry_codes WHERE kind = ? ORDER BY place DESC LIMIT ?)"
)
_TAKE_CODE: Final = (
    "DELETE FROM entry_codes WHERE hash = ? AND kind = ? AND until > clock_timestamp() RETURNING owner, scopes"
)
_scopes: Final = msgspec.json.Decoder(tuple[str, ...])
_CLAIM_REQUEST: Final = (
    "INSERT INTO asked_requests (kind, owner, key, asked, node, at) VALUES (?, ?, ?, ?, ?, clock_timestamp())"
    " ON CONFLICT (kind, owner, key) DO UPDATE SET node = excluded.node, at = excluded.at, asked = excluded.asked,"
    " answer = NULL WHERE asked_requests.answer IS NOT NULL"
    " AND asked_requests.at <= clock_timestamp() - make_interval(secs => ?) RETURNING asked"
)
_FIND_REQUEST: Final = "SELECT node, asked, answer FROM asked_requests WHERE kind = ? AND owner = ? AND key = ?"
_ANSWER_REQUEST: Final = (
    "UPDATE asked_requests SET node = NULL, answer = ?, at = clock_timestamp()"
    " WHERE kind = ? AND owner = ? AND key = ? AND node = ?"
)
_FORGET_REQUEST: Final = "DELETE FROM asked_requests WHERE kind = ? AND owner = ? AND key = ? AND node = ?"
_HOLDER: Final = "SELECT node FROM named_leases WHERE name = ?"
_HOLD: Final = "INSERT INTO named_leases (name, node) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_CHANGES: Final = (  # by the database's clock, which also sets the times of tokens: this node's clock may be wrong
    "SELECT owner, hash, NULL::double precision AS next FROM tokens"
    " WHERE revoked >= EXTRACT(EPOCH FROM statement_timestamp())::double precision - ?/*double precision*/"
    " UNION ALL SELECT NULL, NULL, (SELECT MIN(next) FROM schedules WHERE next IS NOT NULL)"
    " ORDER BY owner NULLS LAST"
)
_load: Final = msgspec.json.Decoder(dict[str, float])


class StoredNodes:
    """What nodes know of each other. Implements `NodeBook`."""

    def __init__(self, database: PostgresDatabase, leases: NodeLeases) -> None:
        self._database = database
        self.leases = leases

    @property
    def codes(self) -> "StoredCodes":
        return StoredCodes(self._database)

    @property
    def own(self) -> str:
        return self.leases.own

    def prepare(self, address: str, may_renew: Callable[[], bool], on_lost: Callable[[str], None]) -> None:
        self.leases.address, self.leases.on_lost = address, on_lost
        self.leases.renew_while(may_renew)

    async def describe(self, *, is_draining: bool, load: Mapping[str, float]) -> None:
        sql = "UPDATE nodes SET draining = ?, load = ? WHERE id = ?"
        await self._database.execute(sql, (is_draining, msgspec.json.encode(load), self.own))

    async def nodes(self) -> Sequence[NodeRecord]:
        rows = await self._database.fetch_all(_NODES)
        return [_node(row) for row in rows]

    async def senders(self) -> Mapping[str, MessageSender]:
        rows = await self._database.fetch_all("SELECT id, numbered, load FROM nodes")
        return {
            node: MessageSender(numbered, int(_load.decode(load).get("sent_messages", 0.0)))
            for node, numbered, load in rows
        }

    async def lost_nodes(self) -> Sequence[str]:
        return await self.leases.lost_nodes()

    async def declare_lost(self, node: str) -> bool:
        return await self._database.execute("DELETE FROM leases WHERE id = ?", (node,)) == 1

    async def add_client(self, client: ClientRecord) -> AddedClient:
        since = self.leases.now() - client.age  # taken before the write, which may have to wait
        return await self._database.write(AddClient(client, since))

    async def claim_server(self, server: ClientRecord) -> int:
        about = (server.role, sanitize(server.label), " ".join(server.capabilities), sanitize(server.name))
        values = (server.peer, server.owner, *about, server.tools, server.node)
        epoch = await self._database.write(lambda connection: connection.fetch_value(_CLAIM_SERVER, values))
        return epoch or 0

    async def store_tools(self, peer: str, epoch: int, tools: bytes) -> None:
        await self._database.write(StoreTools(peer, epoch, tools))

    async def remove_client(self, peer: str, epoch: int) -> None:
        await self._database.write(RemoveClient(peer, epoch))

    async def client_nodes(self, owners: Sequence[str]) -> Sequence[ClientNode]:
        sql = "SELECT peer, owner, node, epoch, version FROM clients WHERE owner = ANY(?::text[])"
        rows = await self._database.fetch_all(sql, ([sanitize(one) for one in owners],))
        return [ClientNode(*row) for row in rows]

    async def clients(self, peers: Sequence[str]) -> Sequence[ClientRecord]:
        sql = f"SELECT {_CLIENT} FROM clients WHERE peer = ANY(?::text[])"
        rows = await self._database.fetch_all(sql, (list(peers),))
        return [msgspec.convert(dict(zip(_COLUMNS, _split(row), strict=True)), ClientRecord) for row in rows]

    async def secret(self, name: str) -> bytes:
        return await self._database.write(partial(load_secret, f"key {name}"))

    async def holder_of(self, call_id: str) -> str:
        row = await self._database.fetch_one("SELECT run FROM calls WHERE id = ? AND state <> 'done'", (call_id,))
        return row[0] or "" if row is not None else ""

    async def claim_request(self, kind: str, owner: str, key: str, fingerprint: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request, unless another node answers it, or an answer is stored."""
        request = (kind, sanitize(owner), sanitize(key))

        async def claim(connection: TableConnection) -> RequestClaim:
            if await connection.fetch_one(_CLAIM_REQUEST, (*request, fingerprint, self.own, seconds)) is not None:
                return RequestClaim(is_own=True, fingerprint=fingerprint)
            found = await connection.fetch_one(_FIND_REQUEST, request)
            if found is None:  # the node of the request was lost just now: the caller tries again
                return RequestClaim(is_own=False, fingerprint=fingerprint)
            node, first_fingerprint, answer = found
            return RequestClaim(is_own=node == self.own, fingerprint=first_fingerprint, answer=answer)

        return await self._database.write(claim)

    async def answer_request(self, kind: str, owner: str, key: str, answer: bytes | None) -> None:
        row = (kind, sanitize(owner), sanitize(key), self.own)
        if answer is None:
            await self._database.execute(_FORGET_REQUEST, row)
        else:
            await self._database.execute(_ANSWER_REQUEST, (answer, *row))

    async def hold(self, name: str) -> str:
        async def work(connection: TableConnection) -> str:
            await connection.execute(_HOLD, (name, self.own))
            return await connection.fetch_value(_HOLDER, (name,)) or ""

        row = await self._database.fetch_one(_HOLDER, (name,))
        return row[0] if row is not None else await self._database.write(work)

    async def release(self, name: str) -> None:
        await self._database.execute("DELETE FROM named_leases WHERE name = ? AND node = ?", (name, self.own))

    async def holders(self) -> Mapping[str, str]:
        return dict(await self._database.fetch_all("SELECT name, node FROM named_leases"))

    async def changes(self, seconds: float) -> NodeChanges:
        *revoked, (_, _, due) = await self._database.fetch_all(_CHANGES, (seconds,))
        return NodeChanges([(owner, token) for owner, token, _ in revoked], due)


class StoredCodes:
    """Pairing codes and sign-in links as rows, by the database's clock. Implements `EntryCodes`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, code: EntryCode, seconds: float, tries: int, most: int) -> None:
        async def work(connection: TableConnection) -> None:
            await connection.execute("DELETE FROM entry_codes WHERE until <= clock_timestamp()")
            values = (code.hash, code.kind, sanitize(code.owner), msgspec.json.encode(code.scopes), seconds, tries)
            await connection.execute(_ADD_CODE, values)
            await connection.execute(_DROP_CODES, (code.kind, code.kind, most))

        await self._database.write(work)

    async def take(self, code_hash: str, kind: str) -> EntryCode | None:
        row = await self._database.write(lambda connection: connection.fetch_one(_TAKE_CODE, (code_hash, kind)))
        return None if row is None else EntryCode(code_hash, kind, row[0], _scopes.decode(row[1]))

    async def count_wrong(self, kind: str) -> None:
        async def work(connection: TableConnection) -> None:
            await connection.execute("UPDATE entry_codes SET tries = tries - 1 WHERE kind = ?", (kind,))
            await connection.execute("DELETE FROM entry_codes WHERE kind = ? AND tries <= 0", (kind,))

        await self._database.write(work)


def _node(row: Row) -> NodeRecord:
    node, name, address, version, role, started, lag, draining, load = row
    times = {"started": started, "lag": lag}
    return NodeRecord(node, name, address, version, role=role, **times, is_draining=draining, load=_load.decode(load))


def _split(row: Row) -> Row:
    """Return the row of a client with its capabilities as a list."""
    return (*row[:8], row[8].split(), *row[9:])
