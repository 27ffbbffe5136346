"""A gateway that is alone: the only one of all `Nodes`, which answers at once. And what doors ask of all nodes."""

import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from starlette.types import ASGIApp

from handspan.bus.memory import STRICT_VARIABLE, MemoryBus
from handspan.core.nodes import EntryCode, NodeRecord, RequestClaim
from handspan.gateway.clients.peer import NO_RELAY, Peer, Relayed
from handspan.gateway.clients.peers import ClientNodes
from handspan.gateway.clients.resume_tokens import load_key
from handspan.gateway.entry.tokens import is_same
from handspan.sources.mcp.sharing import OWN_SERVER, ServerShare
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import Connect


class _Open(Struct):
    """A code that can still be used."""

    code: EntryCode
    until: float
    tries: int


class OwnCodes:
    """Implements `EntryCodes` in memory: codes last as long as the process (SPEC S5)."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._open: dict[str, list[_Open]] = {}
        """The open codes of each kind, the oldest first."""

    async def add(self, code: EntryCode, seconds: float, tries: int, most: int) -> None:
        """Keep a code for so many seconds, in place of the oldest one if too many are open."""
        codes = self._open.setdefault(code.kind, [])
        codes.append(_Open(code, self._clock() + seconds, tries))
        del codes[:-most]

    async def take(self, code_hash: str, kind: str) -> EntryCode | None:
        """Remove this code and return it. All codes are compared, so that the time tells nothing."""
        codes, now = self._open.get(kind, []), self._clock()
        found = [each for each in codes if is_same(each.code.hash, code_hash)]
        codes[:] = [each for each in codes if each not in found and each.until > now]
        return found[0].code if found and found[0].until > now else None

    async def count_wrong(self, kind: str) -> None:
        """Count a wrong guess against every open code of this kind."""
        codes = self._open.get(kind, [])
        for each in codes:
            each.tries -= 1
        codes[:] = [each for each in codes if each.tries > 0]


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

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Bring each MCP request to the node that has its session. `here` answers those of this node.

        `longest`: bytes of a body; `here` refuses a longer one.
        """


class OneNode:
    """Implements `GatewayNodes` for a gateway without others. Nothing of NATS or PostgreSQL is loaded for it."""

    name = own = operator_token = ""
    runs_turns = True
    roles: tuple[str, ...] = ("chat", "device")
    is_draining = False
    is_cut_off = False
    leaving_seconds = 0.0
    poll_seconds = math.inf
    may_have_cut_off = False

    def __init__(self, state: Path, clock: Callable[[], float] = time.time) -> None:
        """`state`: the folder with the secrets."""
        self._state = state
        self.bus = MemoryBus(strict=bool(os.environ.get(STRICT_VARIABLE)))
        self.codes = OwnCodes(clock)
        self.work = OwnWork()
        self.client_rows = NoRows()

    # What concerns other nodes alone: there is nothing to tell them, to get from them, or to wait for.

    def _tell_nothing(self, *_: object, **__: object) -> None:
        """Do nothing: there is no other node."""

    def _deny(self, *_: object, **__: object) -> bool:
        """Return False: there is no other node."""
        return False

    async def _do_nothing(self, *_: object, **__: object) -> None:
        """Do nothing: there is no other node."""

    async def _find_nothing(self, *_: object, **__: object) -> bool:
        """Return False: there is no other node."""
        return False

    note_probe = prepare = _tell_nothing
    hand_over_turn = dismiss = _deny
    connect = open = drain = close = follow = _do_nothing
    wait_for_turn = abort_turn = is_held_elsewhere = pause = _find_nothing

    # What this node has and does by itself.

    def acknowledge(self, client: str, call_id: str) -> None:
        """Do nothing: no other node has a client."""

    async def secret(self, name: str) -> bytes:
        """Return the secret of this name, which is in the state folder."""
        return load_key(self._state / f"{name}.key")

    async def nodes(self) -> Sequence[NodeRecord]:
        """Return no node: a gateway alone lists none."""
        return ()

    def take(self, peer_id: str) -> Waiting:
        """Return nothing: no client was connected to another node."""
        return Waiting()

    def share_server(self, name: str) -> ServerShare:
        """Return the whole of the server: this node runs it."""
        return OWN_SERVER

    def route_sessions(self, here: ASGIApp, longest: int) -> RoutedSessions:
        """Let this node answer all MCP requests."""
        return RoutedSessions(here, str)


class NoRows:
    """Implements `ClientRegister` where no other node asks for clients."""

    def arrive(self, peer: Peer, frame: Connect) -> Relayed:
        """Return a relay for which no other node has calls."""
        return NO_RELAY

    def offer(self, peer: Peer, why: str = "") -> None:
        """Do nothing: there is no other node to tell."""

    leave = end = offer


class OwnWork:
    """Implements `NodeWork` for a gateway that does all work alone."""

    def share_tries(self, kind: str, count: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that does nothing."""
        return lambda address: None

    def requests(self, kind: str) -> "OwnRequests":
        """Return requests that this node answers alone."""
        return OwnRequests()

    async def do_once(self, name: str, work: Callable[[], Awaitable[None]], on_wait: Callable[[], None]) -> bool:
        """Do the work."""
        await work()
        return True

    async def hold(self, name: str) -> bool:
        """Return True: all work is this node's."""
        return True

    async def leave(self, name: str) -> None:
        """Do nothing: no other node can take the work."""

    def free(self, names: Sequence[str]) -> Sequence[str]:
        """Return all of it."""
        return names


class OwnRequests:
    """Implements `SharedRequests` for requests that no other node answers."""

    async def claim(self, owner: str, key: str, fingerprint: bytes, seconds: float) -> RequestClaim:
        """Let this node answer the request."""
        return RequestClaim(is_own=True, fingerprint=fingerprint)

    async def answer(self, owner: str, key: str, encode: Callable[[], Awaitable[bytes | None]]) -> None:
        """Do nothing: no other node needs the answer."""
