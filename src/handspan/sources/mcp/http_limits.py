"""What holds for every HTTP request of a link to an MCP server: how long it may take, and how large its answer may be.

A request of a call may take as long as the call. No call ends the other requests, so they have limits of their own.
"""

from collections.abc import AsyncIterator
from typing import Final

import httpx2
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from handspan.sources.mcp.process import LONGEST_MESSAGE

_ACCEPT_SECONDS: Final = 10.0
"""How long a server may take to accept a message that no call waits for. All later messages of the link wait for it."""
_LEAVE_SECONDS: Final = 2.0
"""How long the request that ends the link may take. The gateway's own end waits for it."""
PLAIN_BYTES: Final = {"Accept-Encoding": "identity"}
"""The header that asks for answers without compression: a few packed bytes could grow without a limit."""


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, refused when it is too large or compressed."""

    def __init__(self, response: httpx2.Response, limit: int, refusal: Exception) -> None:
        """`refusal` is raised when the body has more bytes than `limit`."""
        self._is_packed = response.headers.get("content-encoding", "identity") != "identity"
        self._body = response.stream
        self._limit = limit
        self._refusal = refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        assert isinstance(self._body, httpx2.AsyncByteStream)  # an async client has no other kind
        async for piece in self._body:
            left -= len(piece)
            if left < 0 or self._is_packed:
                raise self._refusal
            yield piece

    async def aclose(self) -> None:
        """End the body."""
        assert isinstance(self._body, httpx2.AsyncByteStream)
        await self._body.aclose()


class _Message(Struct):
    method: str = ""
    id: Raw | UnsetType = UNSET


def limit_requests(http: httpx2.AsyncClient) -> None:
    """Limit the requests and answers of a client that has one link."""
    http.event_hooks["request"].append(_limit_time)
    http.event_hooks["response"].append(_limit_size)


async def _limit_time(request: httpx2.Request) -> None:
    """Limit the time of the link's last request, and of messages without an answer. A login limits its own requests."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_LEAVE_SECONDS).as_dict()
    elif request.method == "POST" and _has_no_answer(request.content):
        request.extensions["timeout"] = httpx2.Timeout(_ACCEPT_SECONDS).as_dict()


def _has_no_answer(body: bytes) -> bool:
    """Whether this is a notification, or our answer to a question of the server."""
    try:
        message = msgspec.json.decode(body, type=_Message)
    except msgspec.DecodeError:  # a request of a login
        return False
    return message.id is UNSET or not message.method


async def _limit_size(response: httpx2.Response) -> None:
    """Limit a body that is one message. The SDK limits each event of a stream."""
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        refusal = httpx2.StreamError(f"the message has more than {LONGEST_MESSAGE} bytes, or is compressed")
        response.stream = BoundedBody(response, LONGEST_MESSAGE, refusal)
