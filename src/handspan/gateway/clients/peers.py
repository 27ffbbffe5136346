"""Clients across their connections: who is there, who may come back, and what goes when they do not (ws.md 6, 7)."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Final, Protocol

from msgspec import Struct

from handspan.core.bus import Bus, DeviceChanged, ToolsChanged
from handspan.core.principals import Origin, Principal, Scope
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.leftovers import Leftovers
from handspan.gateway.clients.resume_tokens import ResumeTokens
from handspan.registry.registry import Registry
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.calls import RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools
from handspan.wire.ws import agreed, encode
from handspan.wire.ws_frames import Abort, Answer, Connect, Regenerate, Say, ServerFrame

GONE: Final = "The client disconnected"
_GOODBYES: Final = frozenset((1000, 1001))
"""Closes by which a client says that it goes (ws.md 6.8); all others are drops."""
_DROPPED: Final = 1006


class Line(Protocol):
    """A connection, as a peer needs it."""

    def send_text(self, data: bytes) -> None: ...

    def close(self, code: int = 1000, reason: str = "") -> None: ...


class Front(Protocol):
    """The conversation of a chat client."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs that the client began."""
        ...

    def say(self, frame: Say) -> None:
        """Let a message of the client be answered."""
        ...

    def take(self, frame: Abort | Regenerate | Answer) -> None:
        """Do what else the client asks for."""
        ...

    def up(self, last_event: int | None) -> None:
        """The link is there again."""
        ...

    def down(self) -> None:
        """The link is gone; the peer may come back."""
        ...

    def end(self) -> None:
        """The peer will not come back."""
        ...


class Peer:
    """One client, whatever connection it has now."""

    __slots__ = (
        "calls",
        "front",
        "grace",
        "id",
        "label",
        "line",
        "questions",
        "role",
        "session",
        "token",
        "tools",
        "who",
    )

    def __init__(self, peer_id: str, who: Principal, token: str, role: str, label: str, session: str) -> None:
        self.id = peer_id
        self.who = who
        self.token = token
        """The hash of the token that let it in."""
        self.role = role
        self.label = label
        self.session = session
        self.line: Line | None = None
        self.front: Front | None = None
        self.grace: asyncio.TimerHandle | None = None
        self.calls: RemoteCalls
        self.questions: RemoteQuestions | None = None
        self.tools: RemoteTools

    @property
    def can(self) -> frozenset[str]:
        """The capabilities that were agreed on."""
        return self.calls.capabilities

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it: a call, a question to its person, a turn that it began."""
        return (
            any(not call.outcome.done() for call in self.calls.open.values())
            or (self.questions is not None and self.questions.is_open)
            or (self.front is not None and self.front.is_busy)
        )

    def send(self, frame: ServerFrame) -> None:
        """Send this if the link is there."""
        if self.line is not None:
            self.line.send_text(encode(frame))

    def up(self, line: Line) -> None:
        """The link is there, for the first time or again: what waits is sent."""
        self.line = line
        self.calls.open_link(line.send_text)
        if self.questions is not None:
            self.questions.open_link(line.send_text)

    def down(self) -> None:
        """The link is gone: the tools go from everywhere at once, the calls wait (ws.md 4.5)."""
        self.line = None
        self.tools.close()
        self.calls.drop_link()
        if self.questions is not None:
            self.questions.drop_link()
        if self.front is not None:
            self.front.down()

    def end(self, why: str) -> None:
        """It will not come back."""
        self.tools.close()
        self.calls.end(why)
        if self.questions is not None:
            self.questions.end()
        if self.front is not None:
            self.front.end()


class Met(Struct, frozen=True):
    """A peer that has just connected, and whether it came back."""

    peer: Peer
    resumed: bool


class Peers:
    """Everybody who is connected, or was a moment ago and may come back."""

    def __init__(
        self,
        registry: Registry,
        rules: OfferRules,
        tokens: ResumeTokens,
        devices: Devices,
        leftovers: Leftovers,
        grace: float,
        bus: Bus,
    ) -> None:
        """`bus` is told that tools or devices have changed."""
        self._registry = registry
        self._rules = rules
        self._tokens = tokens
        self._devices = devices
        self._leftovers = leftovers
        self._bus = bus
        self._schemas = SchemaCache()
        self._peers: dict[str, Peer] = {}
        self.grace = grace
        self.is_open = True

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._peers.values()))

    def __len__(self) -> int:
        return len(self._peers)

    def find(self, peer_id: str) -> Peer | None:
        """The peer of this id."""
        return self._peers.get(peer_id)

    def resume_token(self, peer: Peer) -> str:
        """The token with which it may come back."""
        return self._tokens.issue(peer.id, peer.who.owner)

    def meet(self, frame: Connect, who: Principal, token: str, session: str) -> Met:
        """The peer behind a new connection: one that comes back, or a new one. Its link is `up` when it was greeted."""
        can = agreed(frame.capabilities)
        peer_id = self._tokens.read(frame.resume, who.owner) if frame.resume and "resume" in can else None
        known = None if peer_id is None else self._peers.get(peer_id)
        if known is not None and known.role == frame.role:
            self._come_back(known, token)
            known.calls.capabilities = can
            return Met(known, True)
        peer = self._new(peer_id or secrets.token_hex(16), frame, can, who, token, session)
        if peer_id is not None:
            self._leftovers.adopt(peer_id, peer.calls)
        return Met(peer, peer_id is not None)

    def lose(self, peer: Peer, line: Line, code: int = _DROPPED) -> None:
        """Its connection is gone, by this close code. Who can't come back, or said goodbye, ends here and now."""
        if peer.line is not line:  # a newer connection took over, or it was sent away: nothing was lost
            return
        has_left = code in _GOODBYES and not peer.is_awaited
        self._take_down(peer)
        if "resume" in peer.can and self.is_open and not has_left:
            peer.grace = asyncio.get_running_loop().call_later(
                self.grace, self.end, peer, f"{GONE} and did not come back"
            )
        else:
            self.end(peer, GONE)

    def end(self, peer: Peer, why: str) -> None:
        """It will not come back: its open calls are lost."""
        if peer.grace is not None:
            peer.grace.cancel()
            peer.grace = None
        if self._peers.get(peer.id) is peer:  # its successor has the same id
            del self._peers[peer.id]
            if peer.role == "device":
                self._devices.ended(peer.who.owner, peer.label)
            peer.end(why)

    def revoke(self, token: str) -> None:
        """Whoever came in with this token goes, at once, and does not come back."""
        for peer in self:
            if peer.token == token:
                self.dismiss(peer, "the token was revoked")

    def dismiss(self, peer: Peer, reason: str = "it was forgotten here") -> None:
        """Send it away."""
        line = peer.line
        if line is not None:
            self._take_down(peer)
        self.end(peer, f"The client was sent away ({reason})")
        if line is not None:
            line.close(1008, reason)

    def close(self) -> None:
        """Nobody comes back any more: the gateway ends."""
        self.is_open = False
        for peer in self:
            self.end(peer, "The gateway was stopped")

    def registered(self, peer: Peer) -> list[str]:
        """Say that its tools have changed; the names of those whose definition is not what it was (SPEC T5)."""
        self._bus.publish(ToolsChanged(peer.who.owner))
        if peer.role != "device":
            return []
        return self._devices.offers(peer.who.owner, peer.label, peer.tools.fingerprints())

    def _take_down(self, peer: Peer) -> None:
        """Its link does not count any more, whenever the socket closes."""
        peer.down()
        self._bus.publish(ToolsChanged(peer.who.owner))
        if peer.role == "device":
            self._devices.left(peer.who.owner, peer.label)
            self._bus.publish(DeviceChanged(peer.who.owner))

    def _come_back(self, peer: Peer, token: str) -> None:
        if peer.grace is not None:
            peer.grace.cancel()
            peer.grace = None
        if peer.line is not None:  # ws.md 6.2: the newer one counts
            older = peer.line
            peer.down()
            older.close(1012, "a newer connection took over")
        peer.token = token
        if peer.role == "device":
            self._devices.returned(peer.who.owner, peer.label)
            self._bus.publish(DeviceChanged(peer.who.owner))

    def _new(self, peer_id: str, frame: Connect, can: frozenset[str], who: Principal, token: str, session: str) -> Peer:
        is_device = frame.role == "device"
        label = self._devices.arrived(who.owner, frame.label or "", frame.device_name or "") if is_device else ""
        peer = self._peers[peer_id] = Peer(peer_id, who, token, frame.role, label, session)
        peer.calls = RemoteCalls(can)
        peer.questions = RemoteQuestions() if "permissions" in can else None
        peer.tools = RemoteTools(
            self._registry,
            self._schemas,
            self._rules,
            peer.calls,
            peer.questions,
            Origin("device", label, peer_id) if is_device else Origin("remote", session, peer_id),
            Scope("owner", who.owner) if is_device else Scope("session", session),
            label if is_device and frame.prefix else "",
        )
        if is_device:
            self._bus.publish(DeviceChanged(who.owner))
        return peer
