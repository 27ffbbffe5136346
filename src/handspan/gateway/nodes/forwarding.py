"""HTTP requests that another node has to answer, because something in its memory belongs to them (SPEC K1).

The request travels in one message; a large body is stored, and the message names it. The response comes in numbered
parts, which are kept until they are acknowledged. A stream of events lasts as long as its client stays. Once a second
the node of the client says how many parts it has, and gets the lost ones again.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.core.errors import ToolError
from handspan.core.nodes import LinkDown, NodeLink, NoSuchNode
from handspan.core.tasks import Tasks
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.http.refusals import JSON_HEADER, Refusal, send_refusal, send_whole
from handspan.gateway.nodes.forwarded import (
    LEFT,
    PART,
    PROBE,
    REQUEST,
    SEEN,
    ForwardedPart,
    ForwardedRequest,
    PartSeen,
    RequestLeft,
    RequestProbe,
    RequestsUnknown,
    ResponseBroken,
    ServedRequest,
    scope_of,
)
from handspan.sources.nodes.messages import LargeFrames, Read, encode, is_large, read_by

_MAX_SERVED: Final = 1000
_MAX_ANSWERED: Final = 1000
_ASK_SECONDS: Final = 2.0
_TRIES: Final = 5
_AGAIN_SECONDS: Final = 0.3
_PROBE_SECONDS: Final = 1.0
_MOST_MISSES: Final = 2
_SILENT_SECONDS: Final = 60.0
_SECRETS: Final = frozenset((b"authorization", b"cookie"))
_ACCEPTED, _BUSY = b"1", b"0"
_log = logging.getLogger(__name__)
_unknown: Final = msgspec.msgpack.Decoder(RequestsUnknown)


class RequestForwarding:
    """Passes requests on to other nodes, and answers the requests of other nodes."""

    def __init__(self, link: NodeLink, own: str, frames: LargeFrames) -> None:
        """`own`: the name under which this process gets messages."""
        self._link = link
        self.own = own
        self._frames = frames
        self._answer: ASGIApp | None = None
        """Answers the requests of other nodes; None while no door is open for them."""
        self._waiting: dict[str, _Awaited] = {}
        """The requests that other nodes answer."""
        self._served: OrderedDict[str, ServedRequest] = OrderedDict()
        """The requests of other nodes: those in work, and answered ones whose parts may be sent again."""
        self._tasks = Tasks()
        self._count = 0

    def serve(self, answer: ASGIApp) -> None:
        """Answer the requests of other nodes by this application."""
        self._answer = answer

    def open(self) -> None:
        """Begin to probe for lost parts."""
        self._tasks.start(self._probe_often())

    async def close(self) -> None:
        """End all requests."""
        await self._tasks.close()
        for waiting in self._waiting.values():
            waiting.fail()

    # To another node.

    async def forward(self, node: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Let the node `node` answer the request.

        Raises `NoSuchNode` when that node is gone; the client has then received nothing.
        """
        self._count += 1
        waiting = _Awaited(f"{self.own}-{self._count}", node)
        self._waiting[waiting.id] = waiting
        watching_client = asyncio.create_task(self._watch_client(waiting, receive))
        try:
            await self._send_request(waiting, scope, body)
            await self._pass_on(waiting, send)
        except Refusal as refusal:
            await send_refusal(refusal, scope, send)
        except ResponseBroken as broken:
            if waiting.has_begun:
                raise  # the connection breaks: the client sees that the response is not whole
            await send_whole(send, 502, [JSON_HEADER], msgspec.json.encode({"error": str(broken), "code": "node_lost"}))
        finally:
            watching_client.cancel()
            del self._waiting[waiting.id]
            self._link.send(node, LEFT, encode(RequestLeft(waiting.id)))

    async def _send_request(self, waiting: "_Awaited", scope: Scope, body: bytes) -> None:
        """Send the request until the node has accepted it. Raises `NoSuchNode` or `Refusal`."""
        message = encode(await self._make_request(waiting.id, scope, body))
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                answer = await self._link.request(waiting.node, REQUEST, message, _ASK_SECONDS)
            except NoSuchNode:
                waiting.misses += 1
                if waiting.misses >= _MOST_MISSES:
                    raise
            except (LinkDown, TimeoutError):
                if last:
                    raise Refusal(503, "unavailable", "The node of this session does not answer: try again.") from None
            else:
                if answer == _BUSY:
                    raise Refusal(503, "busy", "The node of this session has too many requests: try again.", 1)
                return
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _make_request(self, request_id: str, scope: Scope, body: bytes) -> ForwardedRequest:
        """Return the request as a message for another node, with its body or where the body is stored."""
        admitted: Admitted = scope["state"]["admitted"]
        request = ForwardedRequest(
            self.own,
            request_id,
            scope["method"],
            scope["path"].removeprefix(scope.get("root_path", "")),
            query=scope.get("query_string", b""),
            headers=[(name, value) for name, value in scope["headers"] if name not in _SECRETS],
            owner=admitted.who.owner,
            scopes=admitted.who.scopes,
            token=admitted.token,
            via=admitted.via,
        )
        if not is_large(body):
            return msgspec.structs.replace(request, body=body)
        try:
            return msgspec.structs.replace(request, stored=await self._frames.keep(body, admitted.who.owner))
        except ToolError as error:
            raise Refusal(503, "unavailable", f"The request can't be sent between nodes: {error.message}") from None

    async def _pass_on(self, waiting: "_Awaited", send: Send) -> None:
        """Send the parts of the response to the client as they come. Raises `ResponseBroken`."""
        while True:
            part = await waiting.parts.get()
            if part is None or part.is_broken:
                text = "The node of this session was lost while it worked on this request: its outcome is unknown."
                raise ResponseBroken(f"{text} Look before you send it again.")
            if part.status:
                waiting.has_begun = True
                await send({"type": "http.response.start", "status": part.status, "headers": part.headers})
            else:
                await send({"type": "http.response.body", "body": part.body, "more_body": not part.is_last})
            if part.is_last:
                return
            self._link.send(waiting.node, SEEN, encode(PartSeen(waiting.id, part.number)))

    async def _watch_client(self, waiting: "_Awaited", receive: Receive) -> None:
        """Wait until the client leaves, and tell the node that answers the request."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._link.send(waiting.node, LEFT, encode(RequestLeft(waiting.id)))

    async def _probe_often(self) -> None:
        """Ask the nodes of requests that take long which parts of the response they have sent."""
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            self._forget_silent()
            by_node: dict[str, list[_Awaited]] = {}
            for waiting in self._waiting.values():
                if waiting.was_probed:
                    by_node.setdefault(waiting.node, []).append(waiting)
                waiting.was_probed = True  # most requests end before the second round
            await asyncio.gather(*(self._probe_node(node, waiting) for node, waiting in by_node.items()))

    def _forget_silent(self) -> None:
        """Drop requests whose nodes have not asked for them for long: the node is gone, or has the whole response."""
        before = time.monotonic() - _SILENT_SECONDS
        for served in [one for one in self._served.values() if one.heard_at < before]:
            served.leave()
            if served.is_done:
                del self._served[served.request.id]

    async def _probe_node(self, node: str, waiting: "list[_Awaited]") -> None:
        """Tell the node which parts have come, so that it sends the lost ones again. Fail requests that it has lost."""
        probe = RequestProbe(tuple(PartSeen(one.id, one.last) for one in waiting))
        try:
            answer = await self._link.request(node, PROBE, encode(probe), _ASK_SECONDS)
            unknown = _unknown.decode(answer).ids
        except NoSuchNode:
            for one in waiting:
                one.misses += 1
                if one.misses >= _MOST_MISSES:
                    one.fail()
        except (LinkDown, TimeoutError, msgspec.DecodeError):
            return
        else:
            for one in waiting:
                one.misses = 0
                if one.id in unknown:
                    one.fail()

    # From another node.

    def readers(self) -> dict[str, Read]:
        """Return what reads the messages of other nodes, by their kinds."""
        return {
            REQUEST: read_by(ForwardedRequest, self._begin),
            PART: read_by(ForwardedPart, self._take_part),
            SEEN: read_by(PartSeen, self._forget_parts),
            LEFT: read_by(RequestLeft, self._leave),
            PROBE: read_by(RequestProbe, self._repeat),
        }

    def _take_part(self, part: ForwardedPart) -> None:
        if (waiting := self._waiting.get(part.id)) is not None:
            waiting.take(part)

    def _forget_parts(self, seen: PartSeen) -> None:
        if (served := self._served.get(seen.id)) is not None:
            served.forget(seen.number)

    def _leave(self, left: RequestLeft) -> None:
        if (served := self._served.get(left.id)) is not None:
            served.leave()

    def _begin(self, request: ForwardedRequest) -> bytes:
        """Begin to answer a request, unless it has come before. Return whether it is accepted."""
        if request.id in self._served:
            return _ACCEPTED
        if sum(not served.is_done for served in self._served.values()) >= _MAX_SERVED:
            return _BUSY
        served = self._served[request.id] = ServedRequest(request, self._link)
        self._tasks.start(self._serve(served))
        while len(self._served) > _MAX_SERVED + _MAX_ANSWERED and next(iter(self._served.values())).is_done:
            self._served.popitem(last=False)
        return _ACCEPTED

    async def _serve(self, served: ServedRequest) -> None:
        """Answer a request of another node."""
        request = served.request
        try:
            body = await self._frames.take(request.stored, request.owner) if request.stored else request.body
            if self._answer is None or body is None:
                await send_whole(served.send, 404 if body is not None else 503, [JSON_HEADER], b"{}")
            else:
                await self._answer(scope_of(request), served.receiver(body), served.send)
        except Exception:
            _log.exception("A request of another node could not be answered")
        finally:
            served.end()

    def _repeat(self, probe: RequestProbe) -> bytes:
        """Send lost parts again. Return the requests that this node does not know."""
        for one in probe.requests:
            if (served := self._served.get(one.id)) is not None:
                served.repeat(one.number)
        return encode(RequestsUnknown(tuple(one.id for one in probe.requests if one.id not in self._served)))


class _Awaited(Struct, eq=False):
    """A request that another node answers."""

    id: str
    node: str
    parts: asyncio.Queue[ForwardedPart | None] = msgspec.field(default_factory=asyncio.Queue)
    last: int = 0
    """The number of the last part that has come."""
    has_begun: bool = False
    """Whether the response's head has come."""
    was_probed: bool = False
    """Whether an earlier round of probes has seen this request."""
    misses: int = 0
    """How often in a row no node listened under the id of its node."""

    def take(self, part: ForwardedPart) -> None:
        """Take the next part. Drop a part that comes twice, or that comes after a lost part."""
        if part.number == self.last + 1:
            self.last += 1
            self.parts.put_nowait(part)

    def fail(self) -> None:
        """End the wait for parts: the response will never be whole."""
        self.parts.put_nowait(None)
