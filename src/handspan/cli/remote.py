"""A running gateway over HTTP. Loaded when a gateway runs."""

import asyncio
import contextlib
import select
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from handspan.cli.http_request import connect
from handspan.cli.requests import (
    GatewayAnswer,
    GatewayRequest,
    Method,
    OnLine,
    RemoteRefused,
    Requests,
    UploadBody,
    check_answer,
    read_answer,
    with_query,
)
from handspan.cli.trust import HOW_TO_TRUST
from handspan.client.address import Address
from handspan.client.client import Client
from handspan.client.errors import GatewayUnreachable, explain_failure
from handspan.client.ws import Backoff
from handspan.core.errors import ConfigError
from handspan.core.threads import CallThreads

if TYPE_CHECKING:
    from handspan.cli.chat.terminal_chat import TerminalChat
    from handspan.cli.requests import ChatLink
    from handspan.client.chat import ChatKind

T = TypeVar("T")

OPERATOR_NEEDS_NONE: Final = (
    "On the computer that the gateway runs on, its operator needs none: leave out --token, --url and the "
    "variables HANDSPAN_TOKEN and HANDSPAN_URL."
)
_LONGEST_WAIT: Final = 5.0
"""Seconds between two attempts of a chat to connect again: a person waits for it."""
_SECONDS: Final = 60.0
"""Longer than the gateway lets a request wait."""


class Remote:
    """Sends requests to a running gateway over one connection, and opens it again when it was lost."""

    def __init__(
        self,
        url: str,
        token: str,
        tls: ssl.SSLContext | None = None,
        *,
        workspace: str = "",
        state: str = "",
        search_path: str = "",
        find_again: "Callable[[], Remote | None] | None" = None,
    ) -> None:
        """Raise `ValueError` when the address is not valid. `tls` replaces what this computer trusts."""
        self.find_again = find_again
        """Finds the gateway of the state folder, which may move; None for a gateway that was named by its address."""
        self.url = str(Address(url))
        self.token = token
        self.tls = tls
        self.workspace = workspace
        """The folder that the gateway's tools work in; empty when it is not known here."""
        self.state = state
        """The state folder that the operator's token is from; empty when the person gave the token."""
        self.search_path = search_path
        """The gateway's PATH, if the gateway runs on this computer; else empty."""
        self._connection: HTTPConnection | None = None
        self._has_ended = False
        """Whether the command is over: a request that is still at work on another thread leaves no connection open."""
        self._lock = threading.Lock()
        """Held by a request until it is answered: a chat asks for completions on another thread."""

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"Remote(url={self.url!r})"

    def locate(self) -> tuple[str, ssl.SSLContext | None, str]:
        """Return where the gateway is now, the TLS to use there, and the token."""
        self._follow()
        return self.url, self.tls, self.token

    def _follow(self) -> bool:
        """Take the address and the token that the gateway of the state folder has now. Return whether it has moved."""
        found = None
        with contextlib.suppress(ConfigError):  # the gateway is about to start or to end: the next attempt finds it
            found = self.find_again() if self.find_again is not None else None
        if found is None:
            return False
        has_moved = found.url != self.url
        self.url, self.token, self.tls = found.url, found.token, found.tls
        return has_moved

    @contextlib.asynccontextmanager
    async def open_requests(self) -> AsyncIterator[Requests]:
        """Open requests from an event loop. Their threads do not keep the process alive: Ctrl-C ends a command."""
        threads, self._has_ended = CallThreads(), False

        async def send(request: GatewayRequest) -> GatewayAnswer:
            loop, on_line = asyncio.get_running_loop(), request.on_line
            if on_line is not None:
                request = replace(request, on_line=lambda line: loop.call_soon_threadsafe(on_line, line))
            answered: GatewayAnswer = await threads.run(self.send_request, request)
            return answered

        try:
            yield Requests(self.url, send, self._open_chat)
        finally:
            threads.close()
            self._has_ended = True
            self.close()

    def _open_chat(
        self, session: str, agent: str, talk: "TerminalChat", kind: "ChatKind"
    ) -> AbstractAsyncContextManager["ChatLink"]:
        backoff = Backoff(longest=_LONGEST_WAIT)
        client = Client(self.url, self.token, backoff=backoff, tls=self.tls, locate=self.locate)
        return client.chat(session, agent, kind=kind, on_state=talk.on_state, on_channel_message=talk.on_message)

    def get(self, path: str, form: type[T], **query: str) -> T:
        """Return the answer, read as `form`."""
        return read_answer(self.url, self.send("GET", with_query(path, query)), form)

    def change(self, method: Method, path: str, form: type[T], body: object = None) -> T:
        """Change something and return the answer, read as `form`."""
        return read_answer(self.url, self.send(method, path, body), form)

    def send(self, method: Method, path: str, body: object = None) -> GatewayAnswer:
        """Return the answer to one request, as `send_request` does."""
        return self.send_request(GatewayRequest(method, path, body))

    def send_request(self, request: GatewayRequest) -> GatewayAnswer:
        """Return the answer to this request.

        Raises `RemoteRefused` when the gateway refuses it, `GatewayUnreachable` when no answer comes.
        """
        headers = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **request.headers}
        body = request.body
        data = body if body is None or isinstance(body, bytes | UploadBody) else msgspec.json.encode(body)
        if isinstance(data, UploadBody):
            headers["Content-Length"] = str(len(data.data))
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        sent = replace(request, body=data, headers=headers)
        if request.on_line is not None:
            return self._stream(sent, request.on_line)
        may_repeat = request.method == "GET" or "Idempotency-Key" in headers
        with self._lock:
            for again in (True, False):
                was_open = self._connection is not None
                try:
                    return self._exchange(sent)
                except (OSError, HTTPException) as error:
                    self.close()
                    if self._has_ended:
                        raise self._unreachable(error) from None
                    # The gateway may have closed a kept connection long ago, or have moved. A request that a gateway
                    # may have got is not sent again.
                    has_moved = self._follow()
                    if not (again and (may_repeat if was_open else has_moved)):
                        raise self._unreachable(error) from None
        raise AssertionError("the second try ends it")  # pragma: no cover

    def _stream(self, request: GatewayRequest, on_line: OnLine) -> GatewayAnswer:
        """Send a request on a connection of its own: other requests are made while the lines come."""
        connection = connect(self.url, _SECONDS, self.tls)
        try:
            response = self._begin(connection, request)
            if response.status == 200:
                for line in response:
                    on_line(line)
            return self._check(response.status, response.read())
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _exchange(self, request: GatewayRequest) -> GatewayAnswer:
        """Send the request over the connection of the command, or a new one, and return the whole answer."""
        socket = None if self._connection is None else self._connection.sock
        if socket is not None and select.select((socket,), (), (), 0)[0]:  # the gateway has closed it
            self.close()
        connection = self._connection = self._connection or connect(self.url, _SECONDS, self.tls)
        try:
            response = self._begin(connection, request)
            return self._check(response.status, response.read())
        finally:
            if self._has_ended:
                connection.close()

    def _begin(self, connection: HTTPConnection, request: GatewayRequest) -> HTTPResponse:
        """Send a request, and return the response, whose body is not read yet."""
        body = request.body.pieces() if isinstance(request.body, UploadBody) else request.body
        assert body is None or isinstance(body, bytes | Iterator)
        connection.request(request.method, urlsplit(self.url).path + request.path, body, request.headers)
        return connection.getresponse()

    def _check(self, status: int, body: bytes) -> GatewayAnswer:
        """Return the answer, or raise `RemoteRefused`: about tokens in words for a person, not for programs."""
        try:
            return check_answer(self.url, status, body)
        except RemoteRefused as refused:
            if status != 401 or not self.token:
                raise
            raise RemoteRefused(status, self.explain_refused_token(), refused.code) from None

    def explain_refused_token(self) -> str:
        """Return what to do when the gateway does not take the token of this command."""
        if self.state:
            return (
                f"The gateway at {self.url} does not take the operator's token of {self.state!r} any more: it was "
                "revoked, or is another gateway's. If it was revoked, start the gateway again: it makes a new one."
            )
        return (
            f"The gateway at {self.url} does not know this token: it is wrong, or was revoked. Give another one with "
            f"--token or the variable HANDSPAN_TOKEN. {OPERATOR_NEEDS_NONE}"
        )

    def _unreachable(self, error: Exception) -> GatewayUnreachable:
        """Return the error for a gateway that does not answer, with what to do."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return GatewayUnreachable(
                f"This computer does not trust the certificate of {self.url} ({error.verify_message}): "
                f"{HOW_TO_TRUST.format(url=self.url)}."
            )
        why = explain_failure(self.url, error)
        return GatewayUnreachable(
            f"The gateway at {self.url} does not answer: {why}. Is the gateway running (`handspan serve`)?"
        )
