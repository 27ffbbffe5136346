"""The requests of an MCP server that we have not answered yet: a flood of them ends its link (SPEC S7)."""

from collections import Counter
from typing import Final, Protocol, Self

import mcp_types as types
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage

from handspan.sources.mcp.opening import ServerLost

_MAX_OPEN: Final = 100
"""Requests of one server without an answer. Each is a task of ours, and a question to a person may wait for long."""
FLOOD: Final = f"it sent more than {_MAX_OPEN} requests without waiting for our answers"


class ServerRequests:
    """Counts the open requests of one link. An id that is used twice counts twice."""

    def __init__(self) -> None:
        self._open: Counter[types.RequestId] = Counter()

    def note_received(self, message: types.JSONRPCMessage) -> None:
        """Count an open request of the server; a request that it cancels is over. Raises `ServerLost` for too many."""
        match message:
            case types.JSONRPCRequest(id=request_id):
                self._open[request_id] += 1
                if self._open.total() > _MAX_OPEN:
                    raise ServerLost(FLOOD)
            case types.JSONRPCNotification(method="notifications/cancelled", params=params):
                cancelled = cancelled_request_id_from_params(params)
                if cancelled is not None:
                    self._end(cancelled)

    def note_sent(self, message: types.JSONRPCMessage) -> None:
        """Note an answer to the server: the request is over."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._end(message.id)

    def _end(self, request_id: types.RequestId) -> None:
        self._open[request_id] -= 1
        if self._open[request_id] <= 0:
            del self._open[request_id]


class _SendStream(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None: ...


class CountedStream:
    """The stream of our messages to a server, which counts our answers."""

    def __init__(self, stream: _SendStream, requests: ServerRequests) -> None:
        self._stream = stream
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Send this message."""
        await self._stream.send(item)
        self._requests.note_sent(item.message)

    async def aclose(self) -> None:
        """End the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
