"""A request that another node passes on to this one, and its response in parts (`forwarding.py` has both sides)."""

import asyncio
import time
from collections import deque
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import Message, Receive, Scope

from handspan.core.errors import HandspanError
from handspan.core.nodes import NodeLink
from handspan.core.principals import Principal
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.entry.tokens import Via
from handspan.sources.nodes.messages import encode

REQUEST: Final = "http"
PART: Final = "http_part"
SEEN: Final = "http_seen"
LEFT: Final = "http_left"
PROBE: Final = "http_probe"
_PART_BYTES: Final = 128 * 1024
_WINDOW: Final = 32
"""Parts that may wait for their acknowledgement. The response goes on when the client has read some of them."""


class ForwardedRequest(Struct, frozen=True, array_like=True):
    """A request, with the owner, scopes and token that the node of the client has checked."""

    sender: str
    id: str
    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    owner: str
    scopes: tuple[str, ...]
    token: str
    via: Via
    body: bytes = b""
    stored: str = ""
    """The artifact that holds a body which is too large for a message."""


class ForwardedPart(Struct, frozen=True, array_like=True):
    """A part of the response: the first has the status, all others a piece of the body."""

    id: str
    number: int
    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    is_last: bool = False
    is_broken: bool = False
    """The node could not end the response."""


class PartSeen(Struct, frozen=True, array_like=True):
    """Says that the parts of a response up to this number have come."""

    id: str
    number: int


class RequestLeft(Struct, frozen=True, array_like=True):
    """Says that the client of a request has left."""

    id: str


class RequestProbe(Struct, frozen=True, array_like=True):
    """Says which parts of some responses have come. The node sends the later parts again."""

    requests: tuple[PartSeen, ...]


class RequestsUnknown(Struct, frozen=True, array_like=True):
    """The requests of a probe that the node does not have."""

    ids: tuple[str, ...]


class ResponseBroken(HandspanError):
    """The node that answered a request was lost before the end of the response."""


class ServedRequest:
    """A request of another node, and its response."""

    def __init__(self, request: ForwardedRequest, link: NodeLink) -> None:
        self.request = request
        self.is_done = False
        self._link = link
        self._count = 0
        """How many parts the response has so far."""
        self._kept: deque[ForwardedPart] = deque()
        """Parts that were sent and not acknowledged."""
        self._has_space = asyncio.Event()
        """Is set when a further part may be kept."""
        self._left = asyncio.Event()
        """Is set when the client has left."""
        self.heard_at = time.monotonic()
        """When the node of the client last said which parts it has."""

    def receiver(self, body: bytes) -> Receive:
        """Return the ASGI `receive` of the request: first its body, then `http.disconnect` when the client has left."""
        return replay(body, self._receive_end)

    async def _receive_end(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send an ASGI message of the response to the node of the client, in parts."""
        if message["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            self._add(ForwardedPart(self.request.id, 0, message["status"], headers))
            return
        body: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        pieces = [body[at : at + _PART_BYTES] for at in range(0, len(body), _PART_BYTES)] or [b""]
        for place, piece in enumerate(pieces):
            while len(self._kept) >= _WINDOW and not self._left.is_set():
                self._has_space.clear()
                await self._has_space.wait()
            is_end = is_last and place == len(pieces) - 1
            self._add(ForwardedPart(self.request.id, 0, body=piece, is_last=is_end))

    def _add(self, part: ForwardedPart) -> None:
        self._count += 1
        self.is_done = part.is_last or part.is_broken
        part = msgspec.structs.replace(part, number=self._count)
        if not self._left.is_set():
            self._kept.append(part)
        self._link.send(self.request.sender, PART, encode(part))

    def end(self) -> None:
        """Note that the work on the request is over. A response without its last part is marked as broken."""
        if not self.is_done:
            self._add(ForwardedPart(self.request.id, 0, is_broken=True))

    def forget(self, number: int) -> None:
        """Forget the parts up to this number: the other node has them."""
        self.heard_at = time.monotonic()
        while self._kept and self._kept[0].number <= number:
            self._kept.popleft()
        self._has_space.set()

    def repeat(self, number: int) -> None:
        """Send the parts after this number again."""
        self.forget(number)
        for part in self._kept:
            self._link.send(self.request.sender, PART, encode(part))

    def leave(self) -> None:
        """Note that the client has left: nothing waits for the response."""
        self._left.set()
        self._kept.clear()
        self._has_space.set()


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with this body."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


def scope_of(request: ForwardedRequest) -> Scope:
    """Return the ASGI scope of a request whose token another node has checked."""
    admitted = Admitted(Principal(request.owner, request.scopes), request.token, request.via)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "root_path": "",
        "query_string": request.query,
        "headers": list(request.headers),
        "client": None,
        "server": None,
        "state": {"admitted": admitted},
    }
