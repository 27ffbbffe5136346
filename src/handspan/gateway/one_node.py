"""A gateway that is alone: the only one of all `Nodes`, which answers at once. And what doors ask of all nodes."""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from starlette.types import ASGIApp

from handspan.bus.memory import STRICT_VARIABLE, MemoryBus
from handspan.core.nodes import NodeRecord, RequestClaim
from handspan.gateway.clients.peer import NO_RELAY, Peer, Relayed
from handspan.gateway.clients.peers import ClientNodes
from handspan.gateway.clients.resume_tokens import load_key
from handspan.gateway.entry.own_codes import OwnCodes
from handspan.sources.mcp.sharing import OWN_SERVER, ServerShare
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import Connect


class RoutedSessions(Struct, frozen=True):
    """How MCP requests find the node that has their session."""

    answer: ASGIApp
    """Answers a request, here or by the node that has its session."""
    stamp: Callable[[str], str]
    """Returns the id that clients get for an object in the memory of this node: it may name the node."""


class GatewayNodes(ClientNodes, Protocol):
    """All nodes, as the doors of a gateway need them."""

    def share_server(self, name: str) -> ServerShare:
        """Return this node's part in an MCP server that is a program: one node runs it for all."""
        ...

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Bring each MCP request to the node that has its session. `here` answers those of this node.

        `longest`: bytes of a body; `here` refuses a longer one.
        """
        ...


class OneNode:
    """Implements `GatewayNodes` for a gateway without others. Nothing of NATS or PostgreSQL is loaded for it."""

    name = operator_token = ""
    runs_turns = True
    roles: tuple[str, ...] = ("chat", "device")
    is_draining = False
    is_cut_off = False
    leaving_seconds = 0.0
    poll_seconds = math.inf

    def __init__(self, state: Path, clock: Callable[[], float] = time.time) -> None:
        """`state`: the folder with the secrets."""
        self._state = state
        self.bus = MemoryBus(strict=bool(os.environ.get(STRICT_VARIABLE)))
        self.codes = OwnCodes(clock)

    def note_probe(self) -> None:
        """Do nothing: no proxy has another node to choose."""

    def prepare(self, url: str) -> None:
        """Do nothing: no other node needs the address."""

    async def connect(self) -> None:
        """Do nothing: there is no node to connect to."""

    async def open(self) -> None:
        """Do nothing."""

    async def drain(self, seconds: float) -> None:
        """Do nothing: no other node can take the work."""

    async def close(self) -> None:
        """Do nothing."""

    async def secret(self, name: str) -> bytes:
        """Return the secret of this name, which is in the state folder."""
        return load_key(self._state / f"{name}.key")

    # Owners, sessions and calls.

    async def follow(self, owner: str) -> None:
        """Do nothing: all clients of the owner are here."""

    def follow_session(self, session: str) -> Callable[[], None]:
        """Do nothing: all turns run here."""
        return _do_nothing

    def hand_over_turn(self, session: str, owner: str) -> bool:
        """Return False: the next process goes on with the turn."""
        return False

    async def wait_for_turn(self, session: str) -> bool:
        """Return False: no other node runs turns."""
        return False

    async def abort_turn(self, session: str, owner: str) -> bool:
        """Return False: no other node runs turns."""
        return False

    def may_have_cut_off(self, session: str) -> bool:
        """Return False: there is no other node whose end could do that."""
        return False

    async def is_held_elsewhere(self, call_id: str) -> bool:
        """Return False: no other node works on calls."""
        return False

    async def pause(self, seconds: float) -> bool:
        """Return False: no other node does anything."""
        return False

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Return at once: no other node can cause the event."""

    def acknowledge(self, client: str, call_id: str) -> None:
        """Do nothing: no other node has a client."""

    # What is counted, shared and done once.

    def share_tries(self, kind: str, count: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that does nothing."""
        return _tell_nothing

    def shared_requests(self, kind: str) -> "OwnRequests":
        """Return requests that this node answers alone."""
        return OwnRequests()

    async def do_once(self, name: str, work: Callable[[], Awaitable[None]], on_wait: Callable[[], None]) -> bool:
        """Do the work."""
        await work()
        return True

    async def hold_work(self, name: str) -> bool:
        """Return True: all work is this node's."""
        return True

    async def leave_work(self, name: str) -> None:
        """Do nothing: no other node can take the work."""

    def free_work(self, names: Sequence[str]) -> Sequence[str]:
        """Return all of it."""
        return names

    # About all nodes.

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return no node: a gateway alone lists none."""
        return ()

    def is_here(self, node: str) -> bool:
        """Return False: a gateway alone has no id."""
        return False

    async def metric_lines(self) -> list[str]:
        """Return no lines: the metrics of this node are all there is."""
        return []

    # Clients, MCP servers and requests.

    def dismiss(self, owner: str, label: str, reason: str) -> bool:
        """Return False: no other node has a device."""
        return False

    def take(self, peer_id: str) -> Waiting:
        """Return nothing: no client was connected to another node."""
        return Waiting()

    def arrive(self, peer: Peer, frame: Connect) -> Relayed:
        """Return a relay for which no other node has calls."""
        return NO_RELAY

    def offer(self, peer: Peer) -> None:
        """Do nothing."""

    def leave(self, peer: Peer) -> None:
        """Do nothing."""

    def end(self, peer: Peer, why: str) -> None:
        """Do nothing."""

    def share_server(self, name: str) -> ServerShare:
        """Return the whole of the server: this node runs it."""
        return OWN_SERVER

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Let this node answer all MCP requests."""
        return RoutedSessions(here, str)


class OwnRequests:
    """Implements `SharedRequests` for requests that no other node answers."""

    async def claim(self, owner: str, key: str, asked: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request."""
        return RequestClaim(True, asked)

    async def answer(self, owner: str, key: str, encode: Callable[[], Awaitable[bytes | None]]) -> None:
        """Do nothing: no other node needs the answer."""


def _do_nothing() -> None:
    """Do nothing."""


def _tell_nothing(address: str) -> None:
    """Do nothing: there is no node to tell."""
