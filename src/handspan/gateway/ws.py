"""`/ws/chat`: admits clients, dispatches each frame, such as `register_tools` (ws.md). ASGI ends with the upgrade."""

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from handspan.agent.refusals import SessionRefused
from handspan.agent.sessions import Bound
from handspan.core.values import Json, strip_all
from handspan.gateway.clients.peer import Peer, log_arrival, log_departure, log_offer
from handspan.gateway.clients.transport import EXTENSION, Socket, WaitForConflicting
from handspan.gateway.entry.auth import Admitted, may
from handspan.gateway.parts import GatewayParts
from handspan.wire.ws import ClientFrame, FrameError, ServerFrame, decode_client, encode
from handspan.wire.ws_chat_frames import Abort, AnswerFrame, Regenerate, Say, SessionStart
from handspan.wire.ws_frames import (
    SUBPROTOCOLS,
    VERSION,
    Connect,
    Connected,
    DeviceNotes,
    ErrorFrame,
    FailureFrame,
    GetRegisteredTools,
    LoginStart,
    PermissionAnswer,
    Ping,
    PongFrame,
    ProgressFrame,
    RegisteredTools,
    RegisterTools,
    ResultFrame,
    ToolsUnregistered,
    TrustRequest,
    UnregisterTools,
)

# Loaded when the first chat client connects: a gateway that only serves devices does not need it.
_CHAT: Final = ("handspan.gateway.clients.chat", "ChatConnection")
_ESTABLISHED: Final = "Connection established"
_PONG: Final = encode(PongFrame())
_ANSWERS: Final = (ResultFrame, FailureFrame)
_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""The size of an awaited answer of a client that can't upload its files (ws.md 5.12)."""


class WebSocketDoor:
    """The ASGI application of `/ws/chat`."""

    def __init__(self, doors: GatewayParts) -> None:
        self._doors = doors
        self.connections: set[Connection] = set()
        """All open connections, also those without their first frame."""

    def revoke(self, token: str) -> None:
        """Close the connections that use this token."""
        for connection in tuple(self.connections):
            if connection.token == token:
                connection.close(1008, "the token was revoked")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Accept a client, or refuse it."""
        doors, peers = self._doors, self._doors.peers
        admitted = await doors.auth.admit_socket(scope, receive, send, lambda: peers.takes_new)
        if admitted is None:
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
                query.get("session_id"),
                admitted.who,
                name=query.get("name", ""),
                agent=query.get("persona", ""),
                kind="one_shot" if query.get("kind") == "one_shot" else "chat",
            )
            connection.open(bound)
        except SessionRefused as refused_session:
            connection.refuse(refused_session)


class Connection:
    """One connection: reads frames, and dispatches each to the peer, its tools, its calls or its chat."""

    __slots__ = (
        "_admitted",
        "_all",
        "_bound",
        "_credit",
        "_doors",
        "_peer",
        "_read_at",
        "_release_session",
        "_socket",
        "send_text",
    )

    def __init__(self, doors: GatewayParts, socket: Socket, admitted: Admitted, among: "set[Connection]") -> None:
        self._doors = doors
        self._all = among
        self._socket = socket
        self.send_text: Callable[[bytes], None] = socket.send_text
        """Sends an encoded frame."""
        self._admitted = admitted
        self._peer: Peer | None = None
        self._bound: Bound | None = None
        self._release_session: Callable[[], None] | None = None
        """Releases the session that the connection holds for its client; None once that is done."""
        self._credit = 2.0 * doors.limits.messages_per_second
        """Frames that the client may send at once."""
        self._read_at = time.monotonic()

    @property
    def token(self) -> str:
        """The hash of its access token."""
        return self._admitted.token

    def open(self, bound: Bound) -> None:
        """Send the first frame (ws.md 1.4), then read. Raises `SessionRefused` for another owner's session."""
        self._release_session = self._doors.sessions.announce(bound, self._admitted.who.owner)
        self._bound = bound
        self._all.add(self)
        count = bound.message_count
        self.send(SessionStart(VERSION, bound.session_id, count > 0, count, name=bound.name, persona=bound.agent))
        self._socket.take(self)

    def refuse(self, refused: SessionRefused) -> None:
        """Send why the session is refused, and close (ws.md 1.8)."""
        self._socket.take(self)
        self.send(ErrorFrame(str(refused), refused.code))
        self.close(1011 if refused.code == "AGENT_INIT_FAILED" else 1000, str(refused)[:100])

    def send(self, frame: ServerFrame) -> None:
        """Send a frame."""
        self.send_text(encode(frame))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection."""
        self._socket.close(code, reason)

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` when the client has answered a ping, or was dropped because it did not in time."""
        self._socket.check_alive(seconds, then)

    # Calls of the socket.

    def on_message(self, data: bytes) -> None:
        """Decode a frame and dispatch it."""
        if self._bound is None:
            return
        try:
            frame = decode_client(data, self._doors.limits.depth)
        except FrameError as error:
            if self._is_refused(len(data)):
                return
            self._limit_rate()
            self.send(ErrorFrame(str(error), error.code if self._peer is not None else ""))
            return
        peer = self._peer
        if peer is not None and isinstance(frame, _ANSWERS):
            # The client gets the acknowledgement when the result is stored (ws.md 5.3).
            if not peer.calls.receive_answer(frame):
                self._take_unexpected(peer, frame, len(data))
            return
        if self._is_refused(len(data)):
            return
        self._limit_rate()
        if peer is None:
            self._begin(frame, self._bound)
        elif type(frame) is Say and peer.chat is not None:
            peer.chat.say(frame)
        else:
            self._take(frame, peer)

    def on_close(self, code: int) -> None:
        """Note that the connection is gone."""
        self._all.discard(self)
        self._let_go_of_session()
        if self._peer is not None:
            is_newest = self._peer.socket is self
            self._doors.peers.lose(self._peer, self, code)
            if is_newest:
                log_departure(self._peer, code)

    def _let_go_of_session(self) -> None:
        """Release the session: the chat of the peer listens to it now, and a device has none."""
        release, self._release_session = self._release_session, None
        if release is not None:
            release()

    # The first frame.

    def _begin(self, frame: ClientFrame, bound: Bound) -> None:
        """Take the first frame: it connects the client."""
        match frame:
            case Connect():
                self._connect(frame, bound)
            case Say() | RegisterTools():  # an old client (ws.md 1.5)
                peer = self._connect(Connect(), bound, confirms=False)
                if peer is not None:
                    self._take(frame, peer)
            case _:
                self.send(ErrorFrame("The first frame has to be connect, message or register_tools."))

    def _connect(self, frame: Connect, bound: Bound, *, confirms: bool = True) -> Peer | None:
        """Return the peer of this connection; None for a client that may not connect."""
        who, doors = self._admitted.who, self._doors
        if not may(who, "device") and not may(who, "chat"):
            self.send(ErrorFrame("This token lists and calls tools only: it can't connect.", "AUTH_ERROR"))
            self.close(1008, "this token may not connect")
            return None
        if frame.role == "chat" and not may(who, "chat"):
            self.send(ErrorFrame("This token is for a device: connect with role 'device'.", "AUTH_ERROR"))
            self.close(1008, "this token may only connect as a device")
            return None
        if frame.role not in doors.nodes.roles:
            self.send(ErrorFrame(f"This node takes no clients of the role {frame.role!r} (setting cluster.role)."))
            self.close(1013, "connect to another node")
            return None
        met = doors.peers.meet(frame, who, self._admitted.token, bound.session_id)
        peer = self._peer = met.peer
        if peer.chat is None and peer.role == "chat":
            module, name = _CHAT
            chat: Any = getattr(importlib.import_module(module), name)
            seq = frame.last_event or 0
            peer.chat = chat(peer, doors.sessions, doors.questions, doors.artifacts, bound=bound, seq=seq)
        if "parts" not in peer.can:
            self._socket.let_in(self._message_bytes)
        self._let_go_of_session()
        notice = doors.peers.notice(peer)
        log_arrival(peer, notice, is_back=met.resumed)
        if confirms:
            shows_end = bound.end is not None and "events" in peer.can and not met.resumed
            self._confirm(
                peer,
                resumed=met.resumed,
                ended=strip_all(msgspec.to_builtins(bound.end)) if shows_end else None,
                notice=notice,
            )
        peer.up(self)
        if peer.chat is not None and met.resumed:
            peer.chat.up(frame.last_event)
        elif peer.chat is not None:
            peer.chat.catch_up()
        return peer

    def _confirm(self, peer: Peer, *, resumed: bool, ended: Json, notice: str) -> None:
        """Answer `connect`. A client without capabilities gets the short form (ws.md 1.7)."""
        if not peer.can and peer.role == "chat":
            self.send(Connected(VERSION, _ESTABLISHED))
            return
        peers, resumes = self._doors.peers, "resume" in peer.can
        self.send(
            Connected(
                VERSION,
                _ESTABLISHED,
                sorted(peer.can),
                self._doors.limits,
                label=peer.label,
                resume_token=peers.resume_token(peer) if resumes else "",
                grace_ms=int(peers.grace * 1000) if resumes else 0,
                resumed=resumed if resumes else None,
                ended=ended,
                notice=notice,
            )
        )

    # Every other frame.

    def _take(self, frame: ClientFrame, peer: Peer) -> None:
        """Do what the frame asks for. Refuse frames that this client may not send, or not now."""
        match frame:
            case RegisterTools():
                others = self._doors.peers.conflicting_clients(peer, frame.tools)
                if others:
                    WaitForConflicting(self, self._socket, others, partial(self._register, frame, peer))
                else:
                    self._register(frame, peer)
            case UnregisterTools(names=names) if "unregister" in peer.can:
                removed = peer.tools.unregister(names)
                self._doors.peers.publish_tools(peer)
                self.send(ToolsUnregistered(removed, len(peer.tools)))
            case GetRegisteredTools():
                self.send(RegisteredTools(peer.tools.offers()))
            case ProgressFrame():
                if not peer.calls.receive_progress(frame):
                    peer.relay.take_progress(frame)
            case PermissionAnswer() if peer.questions is not None:
                if not peer.questions.receive_answer(frame):
                    peer.relay.take_permission(frame)
            case DeviceNotes() if "about" in peer.can and peer.role == "device":
                self._doors.peers.describe(peer, frame)
            case TrustRequest() if "trust" in peer.can and peer.role == "device":
                self._doors.trust.ask(peer, frame)
            case Say() if peer.chat is not None:
                peer.chat.say(frame)
            case Abort() | Regenerate() | AnswerFrame() | LoginStart() if peer.chat is not None:
                peer.chat.take(frame)
            case Ping():
                self.send_text(_PONG)
            case _:
                kind = frame.__struct_config__.tag
                self.send(ErrorFrame(f"Frames of type {kind!r} are not accepted here and now.", "UNKNOWN_MESSAGE_TYPE"))

    def _register(self, frame: RegisterTools, peer: Peer) -> None:
        registered = peer.tools.register(frame.tools)
        log_offer(peer, registered)
        self._doors.peers.publish_tools(peer)
        self.send(registered)
        if peer.calls.open:
            peer.tools.resume_calls()

    def _take_unexpected(self, peer: Peer, frame: ResultFrame | FailureFrame, size: int) -> None:
        """Take a result for which no call of this node waits: of another node's call, or too late."""
        if peer.relay.take_answer(frame) or self._is_refused(size):
            return
        self._limit_rate()
        if frame.call:
            self._doors.late.take(peer, frame)

    def _message_bytes(self) -> int:
        """Return how large a message may be now: an answer that is awaited may be larger (ws.md 5.12)."""
        general = self._doors.limits.message_bytes
        return max(general, _ANSWER_BYTES) if self._peer is not None and self._peer.has_calls else general

    def _is_refused(self, size: int) -> bool:
        """Whether a message of this size, which is no awaited answer, is too large. Then the connection is closed."""
        limit = self._doors.limits.message_bytes
        if size <= limit or self._peer is None or "parts" in self._peer.can:  # their messages are checked unread
            return False
        self.close(1009, f"a message may have {limit} bytes")
        return True

    def _limit_rate(self) -> None:
        """Count a frame, and read more slowly from a client that sends too many (ws.md 2.4)."""
        now, rate = time.monotonic(), self._doors.limits.messages_per_second
        self._credit = min(2.0 * rate, self._credit + (now - self._read_at) * rate) - 1.0
        self._read_at = now
        if self._credit < 0:
            self._socket.pause(-self._credit / rate)
