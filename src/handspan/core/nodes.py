"""One gateway or several as one: the nouns of nodes, `Nodes`, and the Protocols of what connects them (SPEC K).

A node is one gateway process. Its id is its incarnation: new at every start, and whenever other nodes counted it as
lost. The database has the truth about nodes and their clients; messages between nodes only say that it is time to look.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from handspan.core.bus import Bus
from handspan.core.errors import HandspanError

LARGEST_MESSAGE: Final = 256 * 1024
"""The most bytes of a message between nodes. Larger contents are stored, and the message names them."""
SERVER: Final = "server"
"""The role of a client's row that stands for an MCP server, which one node runs for all.

The row is the lease of that node, and its label is the server's name.
"""
SHARED: Final = ""
"""The owner of what belongs to all owners."""


class NodeRecord(Struct, frozen=True):
    """A node, as the others see it."""

    id: str
    name: str
    address: str
    """Where the node answers requests."""
    version: str
    role: str
    started: float
    """Seconds since 1970."""
    lag: float
    """Seconds since its last sign of life, by the database's clock."""
    is_draining: bool
    load: Mapping[str, float]
    """Counts, as `/metrics` names them."""


class MessageSender(Struct, frozen=True):
    """A node, as the receivers of its messages know it."""

    is_numbered: bool
    """Whether it sends and understands messages with a number. A node of an older version does not."""
    sent: int
    """How many messages it had sent when it last described itself."""


class ClientRecord(Struct, frozen=True):
    """A client that is connected to a node, with the tools that it offers."""

    peer: str
    """The id of the client across its connections."""
    owner: str
    node: str
    epoch: int
    """Grows with every connection of any client: of two connections of one client, the higher epoch counts."""
    role: str
    label: str
    session: str
    prefix: bool
    """Whether its tools are named after its label."""
    capabilities: tuple[str, ...]
    name: str = ""
    token: str = ""
    """The hash of its access token."""
    tools: bytes = b"[]"
    """The tools as it offered them, a JSON array."""
    version: int = 0
    """Grows with every change of the tools."""
    age: float = 0.0
    """Seconds since it has connected, for `NodeBook.add_client`."""


class ClientNode(Struct, frozen=True):
    """The node of a client, with `epoch` and `version`, which show whether the rest of its record has changed."""

    peer: str
    owner: str
    node: str
    epoch: int
    version: int


class AddedClient(Struct, frozen=True):
    """The outcome of `NodeBook.add_client`."""

    epoch: int
    """0: the client was not added, because another client of the owner has this label; or because of `newer`."""
    replaced: str = ""
    """The node that had an earlier connection of this client."""
    newer: int = 0
    """The epoch of a connection of this client that began later, and counts; 0: there is none."""


class EntryCode(Struct, frozen=True):
    """A pairing code or a sign-in link that can still be used. Only its hash is stored."""

    hash: str
    kind: str
    owner: str
    scopes: tuple[str, ...]


class RequestClaim(Struct, frozen=True):
    """The outcome of `NodeBook.claim_request`."""

    is_own: bool
    """Whether this node has to answer the request."""
    fingerprint: bytes
    """The fingerprint of the request that was the first with this key."""
    answer: bytes | None = None
    """The answer to that request; None while there is none."""


class NodeChanges(Struct, frozen=True):
    """What every node has to know of."""

    revoked: Sequence[tuple[str, str]]
    """Owner and hash of the tokens that were revoked lately."""
    next_due: float | None
    """When the next schedule of any owner is due."""


class EntryCodes(Protocol):
    """Codes with which new clients get a token, on whichever node they ask (SPEC K5)."""

    async def add(self, code: EntryCode, seconds: float, tries: int, most: int) -> None:
        """Store a code for so many seconds.

        `tries`: after so many wrong guesses it is removed. `most`: how many codes of its kind may be open; the oldest
        are removed first.
        """

    async def take(self, code_hash: str, kind: str) -> EntryCode | None:
        """Remove this code and return it; None when the code is unknown, used or too old."""

    async def count_wrong(self, kind: str) -> None:
        """Count a wrong guess: codes whose tries are used up are removed."""


class SharedRequests(Protocol):
    """The requests of one kind to which their client gave a key, on all nodes."""

    async def claim(self, owner: str, key: str, fingerprint: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request, unless another node does, or one has in the last so many seconds."""

    async def answer(self, owner: str, key: str, encode: Callable[[], Awaitable[bytes | None]]) -> None:
        """Give the other nodes what `encode` returns, the answer of a claimed request.

        None: the request has no answer, and may begin anew. Raises `StoreError`.
        """


class NodeWork(Protocol):
    """What all nodes count together, answer once and do once."""

    def share_tries(self, kind: str, count: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that tells the other nodes of a try. `count` gets the tries on other nodes."""

    def requests(self, kind: str) -> SharedRequests:
        """Return the requests of this kind, which all nodes answer together."""

    async def do_once(self, name: str, work: Callable[[], Awaitable[None]], on_wait: Callable[[], None]) -> bool:
        """Do this work once this node is the one that does it. Return False when another node does it by now.

        `on_wait` is called while another node does it.
        """

    async def hold(self, name: str) -> bool:
        """Take the work of this name, if no node has it. Return whether this node has it; it keeps it until it ends."""

    async def leave(self, name: str) -> None:
        """Leave the work of this name to another node."""

    def free(self, names: Sequence[str]) -> Sequence[str]:
        """Return those of these works that this node may take: no node held them at the last look, either."""


class Nodes(Protocol):
    """All nodes of a gateway, as one of them sees them. A gateway that is alone is the only node.

    No part asks whether there are others: it asks for what it needs, and a gateway alone answers at once.
    """

    @property
    def bus(self) -> Bus:
        """Tells the parts of all nodes what happens."""

    @property
    def name(self) -> str:
        """The name of this node; empty for a gateway alone."""

    @property
    def own(self) -> str:
        """The id of this node; empty for a gateway alone."""

    @property
    def operator_token(self) -> str:
        """The operator's token that all nodes share; empty: each node makes its own."""

    # What this node takes on.

    @property
    def runs_turns(self) -> bool:
        """Whether turns run on this node."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in which clients may connect to this node."""

    @property
    def is_draining(self) -> bool:
        """Whether this node sends its clients to other nodes, because it stops."""

    @property
    def is_cut_off(self) -> bool:
        """Whether this node has no connection to the other nodes, while others have one."""

    @property
    def leaving_seconds(self) -> float:
        """Seconds that this node may take to send its clients to other nodes, before its own work ends."""

    def note_probe(self) -> None:
        """Note that a proxy looks whether this node is ready."""

    def prepare(self, url: str) -> None:
        """Set the address at which this node answers, before the store is opened."""

    async def connect(self) -> None:
        """Connect to the other nodes, once the store is open. Raises `ConfigError` without a connection."""

    async def open(self) -> None:
        """Take part in the work of all nodes."""

    async def drain(self, seconds: float) -> None:
        """Hand this node's work over to other nodes, and send them its clients."""

    async def close(self) -> None:
        """End all work with other nodes."""

    async def secret(self, name: str) -> bytes:
        """Return a secret that all nodes share. The first call makes it."""

    # Owners and sessions.

    async def follow(self, owner: str) -> None:
        """Make the owner's clients and events on other nodes known to this node."""

    def hand_over_turn(self, session: str, owner: str) -> bool:
        """Hand a turn over to another node. Return whether another node may take it over."""

    async def wait_for_turn(self, session: str) -> bool:
        """Wait a moment for the end of a turn that another node runs. Return False if no other node can run one."""

    async def abort_turn(self, session: str, owner: str) -> bool:
        """Stop the session's turn on another node. Return False when no other node runs one."""

    @property
    def may_have_cut_off(self) -> bool:
        """Whether the end of another node may have cut off a turn."""

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks for an answer that another node took; infinite where no other node takes any."""

    async def is_held_elsewhere(self, call_id: str) -> bool:
        """Whether another node that is alive works on this call."""

    async def pause(self, seconds: float, until: asyncio.Event | None = None) -> bool:
        """Wait for what another node may do: so long, or until the event. Return False at once if there is none."""

    def acknowledge(self, client: str, call_id: str) -> None:
        """Tell a client of another node that the result of this call is stored. `client`: its id, if known."""

    @property
    def codes(self) -> EntryCodes:
        """Pairing codes and sign-in links."""

    @property
    def work(self) -> NodeWork:
        """What all nodes count together, answer once and do once."""

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return all nodes that count as alive, by name. A gateway alone lists none."""

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Send a device away that is connected to another node. Return False when no other node has this device."""


class NodeBook(Protocol):
    """Nodes, their clients, and what they share, in the database. Raises `StoreError` as every store does."""

    @property
    def own(self) -> str:
        """The incarnation of this node."""

    def prepare(self, address: str, may_renew: Callable[[], bool], on_lost: Callable[[str], None]) -> None:
        """Say, before the store is opened, where this node answers, and when it may renew its lease.

        `on_lost` is called when the other nodes counted this node as lost. It gets the old incarnation; `own` is the
        new one by then.
        """

    async def describe(self, *, is_draining: bool, load: Mapping[str, float]) -> None:
        """Store what others see of this node."""

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return all nodes that count as alive, by name."""

    async def senders(self) -> Mapping[str, MessageSender]:
        """Return every node that has a row, by its incarnation, whether its lease is over or not."""

    async def lost_nodes(self) -> Sequence[str]:
        """Return the nodes whose lease is over; none while this node can't judge, because its own lease had a gap."""

    async def declare_lost(self, node: str) -> bool:
        """Count this node as lost for ever, with its clients. Return False if another node did that."""

    async def add_client(self, client: ClientRecord) -> AddedClient:
        """Note that this client is connected to this node, unless it has connected to another node later."""

    async def claim_server(self, server: ClientRecord) -> int:
        """Let this node run an MCP server, unless another node runs it. Return the epoch; 0 if another node runs it."""

    async def store_tools(self, peer: str, epoch: int, tools: bytes) -> None:
        """Store the tools of a client, unless a newer connection counts."""

    async def remove_client(self, peer: str, epoch: int) -> None:
        """Note that this connection of a client is gone. A newer connection stays."""

    async def client_nodes(self, owners: Sequence[str]) -> Sequence[ClientNode]:
        """Return the nodes to which the clients of these owners are connected."""

    async def clients(self, peers: Sequence[str]) -> Sequence[ClientRecord]:
        """Return these clients, as far as they are connected."""

    async def secret(self, name: str) -> bytes:
        """Return a secret that all nodes share. The first call makes it."""

    async def holder_of(self, call_id: str) -> str:
        """Return the node that works on this call; empty if none does."""

    @property
    def codes(self) -> EntryCodes:
        """Pairing codes and sign-in links."""

    async def claim_request(self, kind: str, owner: str, key: str, fingerprint: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request with this key and fingerprint, unless a node answers or has answered it.

        An answer is kept for so many seconds. A node that is lost gives up the requests that it has not answered.
        """

    async def answer_request(self, kind: str, owner: str, key: str, answer: bytes | None) -> None:
        """Store the answer to a request that this node has claimed. None: it has none, and can be claimed again."""

    async def hold(self, name: str) -> str:
        """Take the lease of this name, if no node has it. Return the node that has it: `own`, if this one does.

        The lease ends with the node. A node that joins again under a new id has lost it: call this regularly.
        """

    async def release(self, name: str) -> None:
        """Give the lease of this name up, if this node has it."""

    async def holders(self) -> Mapping[str, str]:
        """Return the node that has each named lease, by the lease's name."""

    async def changes(self, seconds: float) -> NodeChanges:
        """Return what a node has to know of, although an event was lost: all by one statement.

        `seconds`: how far back it looks for revoked tokens.
        """


class LinkDown(HandspanError):
    """There is no connection to the other nodes at the moment."""


class NoSuchNode(HandspanError):
    """No node listens under this id."""


class NodeLink(Protocol):
    """Carries signed messages between nodes: at most once, and in the order of one sender."""

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""

    @property
    def up_for(self) -> float:
        """Seconds since the connection came up; 0 while it is down."""

    def send(self, node: str, kind: str, body: bytes, missed: Callable[[], None] | None = None) -> None:
        """Send a message to a node. Never waits; while there is no connection, the message is lost.

        `missed` is called when the message certainly came to no node: no node listens, or there is no connection. It
        is not called for every message that is lost.
        """

    async def request(self, node: str, kind: str, body: bytes, seconds: float) -> bytes:
        """Return the node's response. Raises `NoSuchNode`, `LinkDown`, or `TimeoutError`."""
