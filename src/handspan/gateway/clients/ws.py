"""`/ws/chat`: who comes in, and what becomes of each frame (ws.md). A raw ASGI callable: it ends with the upgrade."""

import importlib
import time
from collections.abc import Callable
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

from msgspec import Struct

from handspan.agent.refusals import SessionRefused
from handspan.agent.sessions import Bound, Sessions
from handspan.gateway.clients.line import EXTENSION, Socket
from handspan.gateway.clients.peers import Peer, Peers
from handspan.gateway.entry.auth import Admitted, Auth, may
from handspan.gateway.http.refusals import Refusal, send_refusal
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.wire.ws import FrameError, decode_client, encode
from handspan.wire.ws_frames import (
    SUBPROTOCOLS,
    VERSION,
    Abort,
    Answer,
    ClientFrame,
    Connect,
    Connected,
    Error,
    Fault,
    GetRegisteredTools,
    Limits,
    PermissionAnswer,
    Ping,
    Pong,
    Progress,
    Regenerate,
    RegisteredTools,
    RegisterTools,
    Result,
    Say,
    ServerFrame,
    SessionStart,
    ToolsUnregistered,
    UnregisterTools,
)

# Loaded when the first chat client comes: nobody who only brings a device pays for it.
_CHAT: Final = ("handspan.gateway.clients.chat", "ChatConnection")
_GREETING: Final = "Connection established"
_PONG: Final = encode(Pong())


class Late(Protocol):
    """Hears of results that come when the call is over (ws.md 6.7 k)."""

    def __call__(self, peer: Peer, frame: Result | Fault) -> None: ...


class WsDoors(Struct, frozen=True):
    """What a connection needs of the house."""

    auth: Auth
    peers: Peers
    sessions: Sessions
    questions: AwaitedQuestions
    limits: Limits
    late: Late


class WebSocketDoor:
    """The ASGI callable."""

    def __init__(self, doors: WsDoors) -> None:
        self._doors = doors
        self.connections: set[Connection] = set()
        """All that are open, those that have not said who they are too."""

    def revoke(self, token: str) -> None:
        """Close what came in with this token."""
        for connection in tuple(self.connections):
            if connection.token == token:
                connection.close(1008, "the token was revoked")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a client in, or say why not."""
        await receive()
        doors = self._doors
        try:
            admitted = await doors.auth.admit(scope)
            if not doors.peers.is_open:
                raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
        except Refusal as refused:
            await send_refusal(refused, scope, send)
            return
        offered = scope.get("subprotocols") or ()
        chosen = next((one for one in SUBPROTOCOLS if one in offered), None)
        await send({"type": "websocket.accept", "subprotocol": chosen})
        socket: Socket = scope["extensions"][EXTENSION]
        socket.backlog_limit = doors.limits.backlog_bytes
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        connection = Connection(doors, socket, admitted, self.connections)
        try:
            bound = await doors.sessions.bind(
                query.get("session_id"), admitted.who, name=query.get("name", ""), agent=query.get("persona", "")
            )
        except SessionRefused as refused_session:
            connection.refuse(refused_session)
            return
        connection.open(bound)


class Connection:
    """One connection: reads frames, and hands each to whom it concerns."""

    __slots__ = ("_admitted", "_all", "_bound", "_credit", "_doors", "_peer", "_read_at", "_socket", "send_text")

    def __init__(self, doors: WsDoors, socket: Socket, admitted: Admitted, among: "set[Connection]") -> None:
        self._doors = doors
        self._all = among
        self._socket = socket
        self.send_text: Callable[[bytes], None] = socket.send_text
        """Send what is encoded already."""
        self._admitted = admitted
        self._peer: Peer | None = None
        self._bound: Bound | None = None
        self._credit = 2.0 * doors.limits.messages_per_second
        self._read_at = time.monotonic()

    @property
    def token(self) -> str:
        """The hash of the token that let it in."""
        return self._admitted.token

    def open(self, bound: Bound) -> None:
        """Speak first (ws.md 1.4), then listen."""
        self._bound = bound
        self._all.add(self)
        name, agent = bound.name, bound.agent
        self.send(SessionStart(VERSION, bound.session_id, bound.message_count > 0, bound.message_count, name, agent))
        self._socket.take(self)

    def refuse(self, refused: SessionRefused) -> None:
        """Say why this session can't be had, and end (ws.md 1.8)."""
        self._socket.take(self)
        self.send(Error(str(refused), refused.code))
        self.close(1011 if refused.code == "AGENT_INIT_FAILED" else 1000, str(refused)[:100])

    def send(self, frame: ServerFrame) -> None:
        """Send this."""
        self.send_text(encode(frame))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye."""
        self._socket.close(code, reason)

    # What the socket says.

    def on_message(self, data: bytes) -> None:
        """A frame, or what should be one."""
        if self._bound is None:
            return
        try:
            frame = decode_client(data, self._doors.limits.depth)
        except FrameError as error:
            self._slow_down()
            self.send(Error(str(error), error.code if self._peer is not None else ""))
            return
        if (type(frame) is Result or type(frame) is Fault) and self._peer is not None:
            self._answered(self._peer, frame)
            return
        self._slow_down()
        if self._peer is None:
            self._begin(frame, self._bound)
        elif type(frame) is Say and self._peer.front is not None:
            self._peer.front.say(frame)
        else:
            self._take(frame, self._peer)

    def on_close(self, code: int) -> None:
        """The connection is gone."""
        self._all.discard(self)
        if self._peer is not None:
            self._doors.peers.lose(self._peer, self, code)

    # The first frame.

    def _begin(self, frame: ClientFrame, bound: Bound) -> None:
        match frame:
            case Connect():
                self._connect(frame, bound)
            case Say() | RegisterTools():  # an old client (ws.md 1.5)
                peer = self._connect(Connect(), bound, greets=False)
                if peer is not None:
                    self._take(frame, peer)
            case _:
                self.send(Error("The first frame has to be connect, message or register_tools."))

    def _connect(self, frame: Connect, bound: Bound, *, greets: bool = True) -> Peer | None:
        who, doors = self._admitted.who, self._doors
        if frame.role == "chat" and not may(who, "chat"):
            self.send(Error("This token is for a device: connect with role 'device'.", "AUTH_ERROR"))
            self.close(1008, "this token may only connect as a device")
            return None
        met = doors.peers.meet(frame, who, self._admitted.token, bound.session_id)
        peer = self._peer = met.peer
        if peer.front is None and peer.role == "chat":
            module, name = _CHAT
            chat: Any = getattr(importlib.import_module(module), name)
            peer.front = chat(peer, doors.sessions, doors.questions, bound, frame.last_event or 0)
        if greets:
            self._greet(frame, peer, met.resumed)
        peer.up(self)
        if peer.front is not None and met.resumed:
            peer.front.up(frame.last_event)
        return peer

    def _greet(self, frame: Connect, peer: Peer, resumed: bool) -> None:
        """Answer `connect`. Who named no capability of ours hears nothing new (ws.md 1.7)."""
        if not peer.can and peer.role == "chat":
            self.send(Connected(VERSION, _GREETING))
            return
        peers, resumes = self._doors.peers, "resume" in peer.can
        self.send(
            Connected(
                VERSION,
                _GREETING,
                sorted(peer.can),
                self._doors.limits,
                peer.label,
                peers.resume_token(peer) if resumes else "",
                int(peers.grace * 1000) if resumes else 0,
                resumed if resumes else None,
            )
        )

    # Every other frame.

    def _take(self, frame: ClientFrame, peer: Peer) -> None:
        match frame:
            case RegisterTools():
                registered = peer.tools.register(frame.tools)
                self._doors.peers.registered(peer)
                self.send(registered)
                if peer.calls.open:
                    peer.tools.resume_calls()
            case UnregisterTools(names=names) if "unregister" in peer.can:
                removed = peer.tools.unregister(names)
                self._doors.peers.registered(peer)
                self.send(ToolsUnregistered(removed, len(peer.tools)))
            case GetRegisteredTools():
                self.send(RegisteredTools(peer.tools.offers()))
            case Progress():
                peer.calls.receive_progress(frame)
            case PermissionAnswer() if peer.questions is not None:
                peer.questions.receive_answer(frame)
            case Say() if peer.front is not None:
                peer.front.say(frame)
            case Abort() | Regenerate() | Answer() if peer.front is not None:
                peer.front.take(frame)
            case Ping():
                self.send_text(_PONG)
            case _:
                kind = frame.__struct_config__.tag
                self.send(Error(f"Frames of type {kind!r} are not taken here and now.", "UNKNOWN_MESSAGE_TYPE"))

    def _answered(self, peer: Peer, frame: Result | Fault) -> None:
        """A result. It is acknowledged when it is kept: the engine says when (ws.md 5.3)."""
        if peer.calls.receive_answer(frame):
            return
        self._slow_down()  # nobody had asked for it, or not any more
        if frame.call:
            peer.calls.acknowledge(frame.call)
            self._doors.late(peer, frame)

    def _slow_down(self) -> None:
        """Read a client that says too much more slowly (ws.md 2.4)."""
        now, rate = time.monotonic(), self._doors.limits.messages_per_second
        self._credit = min(2.0 * rate, self._credit + (now - self._read_at) * rate) - 1.0
        self._read_at = now
        if self._credit < 0:
            self._socket.pause(-self._credit / rate)
