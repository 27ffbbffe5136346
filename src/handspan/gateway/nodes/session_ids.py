"""MCP sessions of the older era, and calls of the newer era that wait for their client, on several nodes (SPEC K1, C5).

Both live in the memory of one node. Their ids name that node and are signed, so that another node can pass a request on
to that node. Every other request of the newer era is answered by the node that gets it.
"""

import hmac
from collections.abc import MutableMapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.core.nodes import NoSuchNode
from handspan.gateway.http.refusals import JSON_HEADER, send_whole
from handspan.gateway.nodes.forwarded import replay
from handspan.gateway.nodes.forwarding import RequestForwarding

_SESSION: Final = b"mcp-session-id"
_STATE: Final = b'"requestState"'
_NOT_FOUND: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found: its node is gone. Begin anew."}}'
)


class _StateParams(Struct, frozen=True):
    """The one param that routes a request of the newer era."""

    state: str = field(name="requestState", default="")


class _StateRequest(Struct, frozen=True):
    params: _StateParams = _StateParams()


_request: Final = msgspec.json.Decoder(_StateRequest)


class SessionRoutes:
    """Brings every request to the node that has its session, or its waiting call. Implements `RoutedSessions`."""

    def __init__(self, key: bytes, forwarding: RequestForwarding, here: ASGIApp, longest: int) -> None:
        """`here` answers the requests for this node. It refuses bodies of more than `longest` bytes."""
        self._key = key
        self._forwarding = forwarding
        self._here = here
        self._longest = longest

    def stamp(self, own_id: str) -> str:
        """Return the signed id that clients get for a session or call in the memory of this node."""
        node = self._forwarding.own
        return f"{own_id}.{node}.{self._signature(own_id, node)}"

    def _read(self, signed: str) -> tuple[str, str] | None:
        """Return the id and its node; None when no node of this cluster has signed it."""
        own_id, _, rest = signed.partition(".")
        node, _, signature = rest.partition(".")
        is_ours = hmac.compare_digest(signature.encode(errors="replace"), self._signature(own_id, node).encode())
        return (own_id, node) if is_ours else None

    def _signature(self, own_id: str, node: str) -> str:
        return hmac.new(self._key, f"{own_id}\n{node}".encode(errors="replace"), sha256).hexdigest()[:40]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, on the node to which it belongs."""
        signed = [value.decode("latin-1") for name, value in scope["headers"] if name == _SESSION]
        if signed:
            await self._answer_session(signed[0].strip(" \t"), scope, receive, send)
        elif scope["method"] == "POST":
            await self._answer_plain(scope, receive, send)
        else:
            await self._here(scope, receive, send)

    async def _answer_session(self, signed: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a session here, or let the node answer that the session's signed id names."""
        found = self._read(signed)
        if found is None:
            await _refuse(send)
            return
        session, node = found
        if node != self._forwarding.own:
            body = await _read_body(receive, self._longest)
            await self._forward(node, scope, body, receive=receive, send=send)
            return
        headers = [(name, session.encode() if name == _SESSION else value) for name, value in scope["headers"]]
        await self._here({**scope, "headers": headers}, receive, _with_session(send, lambda _: signed))

    async def _answer_plain(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a session: it opens a session, or belongs to the newer era."""
        body = await _read_body(receive, self._longest)
        found = self._read(_find_state(body)) if _STATE in body else None
        if found is not None and found[1] != self._forwarding.own:
            await self._forward(found[1], scope, body, receive=receive, send=send)
        else:
            await self._here(scope, replay(body, receive), _with_session(send, self.stamp))

    async def _forward(self, node: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        try:
            await self._forwarding.forward(node, scope, body, receive=receive, send=send)
        except NoSuchNode:
            await _refuse(send)


async def _refuse(send: Send) -> None:
    await send_whole(send, 404, [JSON_HEADER], _NOT_FOUND)


async def _read_body(receive: Receive, longest: int) -> bytes:
    """Return the body. Reading stops when the limit is passed: the length alone is enough to refuse that body."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body") or len(body) > longest:
            return bytes(body)


def _with_session(send: Send, sign: Any) -> Send:
    """Return a `send` that gives clients the signed id of their session."""

    async def send_signed(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (name, sign(value.decode("latin-1")).encode() if name == _SESSION else value)
                for name, value in message.get("headers", ())
            ]
            message = {**message, "headers": headers}
        await send(message)

    return send_signed


def _find_state(body: bytes) -> str:
    """Return the `requestState` of a request; empty without one."""
    try:
        return _request.decode(body).params.state
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""  # the MCP library answers what is wrong with the body
