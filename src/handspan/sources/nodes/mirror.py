"""One client of another node: it has calls, questions and tools as a client of this node has (SPEC K2)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from handspan.core.bounded import BoundedDict
from handspan.core.errors import ToolError
from handspan.core.nodes import SERVER, ClientRecord, NodeBook, NodeLink
from handspan.core.values import Json
from handspan.registry.registry import Registry
from handspan.sources.nodes.messages import TO_CLIENT, LargeFrames, ToClient, encode, is_large, read_head
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.calls import RemoteCall, RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools, Waiting, place_of_tools
from handspan.wire.ws_frames import FailureFrame, PermissionAnswer, ProgressFrame, ResultFrame

GONE: Final = "The client disconnected from its node"
_MAX_ANSWERED: Final = 1000
_log = logging.getLogger(__name__)
_offers: Final = msgspec.json.Decoder(list[Any])


class MirrorHost(Protocol):
    """The parts that all mirrors use, and what mirrors call when something happens."""

    @property
    def link(self) -> NodeLink: ...
    @property
    def frames(self) -> LargeFrames: ...
    @property
    def book(self) -> NodeBook: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def schemas(self) -> SchemaCache: ...
    @property
    def rules(self) -> OfferRules: ...
    @property
    def grace(self) -> float:
        """Seconds that calls wait for a client without a connection."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work in a task of its own."""

    def is_needed(self, owner: str) -> bool:
        """Whether this owner has a client or a session on this node."""

    def on_unfollowed(self, owner: str) -> None:
        """Is called with an owner who is not at work on this node any more."""

    def take_waiting(self, record: ClientRecord) -> Waiting | None:
        """Return what is left here of a client that was connected to this node before.

        Return None when the client's connection to this node is newer than this record.
        """

    def appear(self, mirror: "Mirror") -> None:
        """Is called when a client has connected to another node, or when its tools have changed."""

    def disappear(self, mirror: "Mirror") -> None:
        """Is called when the connection of a client of another node is gone."""

    def late(self, mirror: "Mirror", frame: ResultFrame | FailureFrame) -> None:
        """Takes an answer that no call waits for."""


class Mirror:
    """One client of another node: its tools and calls on this node."""

    def __init__(self, record: ClientRecord, host: MirrorHost, waiting: Waiting) -> None:
        """`waiting`: what the client left when it was connected to this node before."""
        self.record = record
        self.calls = waiting.calls or RemoteCalls(frozenset(record.capabilities))
        self.questions = waiting.questions
        self.tools = waiting.tools
        self.is_up = False
        self.is_moving = waiting.tools is not None
        """Whether the client was sent to another node, where it is expected: its tools stay meanwhile."""
        self._host = host
        self._grace: asyncio.TimerHandle | None = None
        self._answered: BoundedDict[str, None] = BoundedDict(_MAX_ANSWERED)
        """Calls whose answer has come: an answer may come twice."""
        self._requests = Counter[str]()
        """For each call of a server, how many of its requests may have come to the node that runs the server."""

    @property
    def id(self) -> str:
        """The id of the client."""
        return self.record.peer

    @property
    def can(self) -> frozenset[str]:
        """The capabilities that both sides have."""
        return self.calls.capabilities

    @property
    def label(self) -> str:
        """The label, if the client is a device."""
        return self.record.label

    @property
    def session(self) -> str:
        """The session that the client is bound to."""
        return self.record.session

    @property
    def is_server(self) -> bool:
        """Whether this stands for an MCP server, which serves all owners."""
        return self.record.role == SERVER

    @property
    def is_awaited(self) -> bool:
        """Whether a call or a question of this node waits for the client."""
        asking = self.questions is not None and self.questions.is_open
        return asking or any(not call.outcome.done() for call in self.calls.open.values())

    # The connection.

    def up(self, record: ClientRecord) -> None:
        """Use the connection of this record, and its tools."""
        is_same = self.is_up and self.record.epoch == record.epoch
        self.record = record
        if not is_same:
            self._open(record)
        if self.tools is not None:
            self._register(self.tools, _offers.decode(record.tools))
        self._host.appear(self)

    def offer_again(self) -> None:
        """Put tools into the registry that were refused there: other names belong to this node's own sources now."""
        if self.is_up and self.tools is not None and self.tools.rejected:
            self._register(self.tools, _offers.decode(self.record.tools))

    def _register(self, tools: RemoteTools, offered: list[Json]) -> None:
        """Put the offered tools into the registry, and remove those that are not offered any more."""
        names = {one.get("name") for one in offered if isinstance(one, dict)}
        tools.unregister([name for name in tools.fingerprints() if name not in names])
        for rejected in tools.register(offered).rejected:
            text = "%s of another node: its tool %r is not used here: %s"
            _log.warning(text, tools.origin, rejected.name, rejected.reason)
        if self.calls.open:
            tools.resume_calls()

    def _open(self, record: ClientRecord) -> None:
        """Use the client as this row describes it: it has connected to another node."""
        self._stop_grace()
        self.close_link()
        self.is_up = True
        can = self.calls.capabilities = frozenset(record.capabilities)
        if self.questions is None and "permissions" in can:
            self.questions = RemoteQuestions()
        if not self.is_server:  # the connection of a server registers its tools
            self.tools = self._make_tools(record)
        self.calls.open_link(self._send)
        if self.questions is not None:
            self.questions.open_link(self._send)

    def _make_tools(self, record: ClientRecord) -> RemoteTools:
        host, peer, owner, prefix = self._host, record.peer, record.owner, record.prefix
        place = place_of_tools(record.role, record.label, record.session, peer=peer, owner=owner, prefix=prefix)
        tools = (host.registry, host.schemas, host.rules, self.calls)
        return RemoteTools(*tools, *place, questions=self.questions, is_elsewhere=True)

    def leave(self) -> None:
        """Note that the node of an MCP server gives it away.

        Calls that were sent to that node end there, or that node says that it has not run them.
        """
        if self.is_up:
            self.is_up = False
            self._host.disappear(self)

    def pause(self) -> None:
        """Note that the client was sent to another node: the tools stay, the calls wait."""
        if self.is_up:
            self._drop_link()
            self.is_moving = True

    def close_link(self) -> None:
        """Note that there is no connection: the tools go at once, the calls wait."""
        if self.is_up or self.is_moving:
            self._drop_link()
            if self.tools is not None:
                self.tools.close()
            self._host.disappear(self)

    def _drop_link(self) -> None:
        self.is_up = self.is_moving = False
        self.calls.drop_link()
        if self.questions is not None:
            self.questions.drop_link()

    def start_grace(self, then: Callable[[str], None]) -> None:
        """Let `then` be called with a reason if the client does not come back within the grace time."""
        if self._grace is None:
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(self._host.grace, then, f"{GONE} and did not come back")

    def end(self, why: str) -> None:
        """End the calls and questions: the client will not come back."""
        self._stop_grace()
        self.close_link()
        self.calls.end(why)
        if self.questions is not None:
            self.questions.end()

    def release(self) -> Waiting:
        """Close the link, and return what goes on with the client: it is connected to this node now."""
        self._stop_grace()
        waiting = Waiting(self.calls, self.questions, self.tools)
        self.tools = None
        self.close_link()
        return waiting

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    # Frames.

    def _send(self, frame: bytes) -> None:
        if is_large(frame):
            self._host.start(self._send_stored(frame))
        else:
            self._send_message(frame, "", frame)

    def _send_message(self, whole: bytes, stored: str, frame: bytes) -> None:
        """Send a frame to the client's node. `whole`: the frame; `frame`: the same, or empty if it is `stored`."""
        record, host = self.record, self._host
        head = read_head(whole)
        call = self.calls.open.get(head.id) if self.is_server else None
        caller = "" if call is None else call.owner
        client = (host.book.own, record.owner, record.peer, record.epoch)
        message = encode(ToClient(*client, frame, stored, caller))
        if call is not None and head.type == "tool_call_request":
            self._requests[call.id] += 1
            host.link.send(record.node, TO_CLIENT, message, partial(self._note_missed, call.id))
        else:
            host.link.send(record.node, TO_CLIENT, message)

    async def _send_stored(self, frame: bytes) -> None:
        """Send a frame that is too large for a message: the other node reads it from the store."""
        record, host = self.record, self._host
        try:
            stored = await host.frames.keep(frame, record.owner)
        except ToolError as error:
            text = f"The arguments are too large to be sent between nodes, and were not stored: {error.message}"
            self.take(FailureFrame(id=read_head(frame).id, error=text))
            return
        self._send_message(frame, stored, b"")

    def _note_missed(self, call_id: str) -> None:
        if call_id in self._requests:
            self._requests[call_id] -= 1

    def may_have_come(self, call_id: str) -> bool:
        """Whether a request of this call may have come to the node that runs the server."""
        return self._requests[call_id] > 0

    def forget(self, call: RemoteCall) -> None:
        """Remove a call that has ended."""
        self.calls.forget(call)
        self._requests.pop(call.id, None)

    def take(self, frame: object) -> None:
        """Pass a frame of the client to its call or question."""
        match frame:
            case ResultFrame() | FailureFrame():
                self._take_answer(frame)
            case ProgressFrame():
                self.calls.receive_progress(frame)
            case PermissionAnswer() if self.questions is not None:
                self.questions.receive_answer(frame)

    def _take_answer(self, frame: ResultFrame | FailureFrame) -> None:
        """Pass an answer to its call. Acknowledge an answer that comes twice. Pass one without a call to the host."""
        if self.calls.receive_answer(frame):
            if not self.calls.wants_login(frame):
                self._answered[frame.call] = None
        elif frame.call in self._answered:
            self.calls.acknowledge(frame.call)  # our first acknowledgement may be lost
        else:
            self._host.late(self, frame)
