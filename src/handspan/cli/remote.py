"""A running gateway over HTTP. Loaded when a gateway runs."""

import asyncio
import contextlib
import select
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from handspan.cli.requests import (
    GatewayAnswer,
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
from handspan.client.threads import CallThreads
from handspan.client.ws import Backoff
from handspan.core.errors import ConfigError

if TYPE_CHECKING:
    from handspan.cli.chat.chat_link import ChatLink, ChatWatcher

T = TypeVar("T")
_Body: TypeAlias = bytes | UploadBody | None

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

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None = None, workspace: str = "") -> None:
        """Raise `ValueError` when the address is not valid. `tls` replaces what this computer trusts."""
        self.find_again: Callable[[], Remote | None] | None = None
        """Finds the gateway of the state folder, which may move; None for a gateway that was named by its address."""
        self.url = str(Address(url))
        self.token = token
        self.tls = tls
        self.workspace = workspace
        """The folder that the gateway's tools work in; empty when it is not known here."""
        self.state = ""
        """The state folder that the operator's token is from; empty when the person gave the token."""
        self.search_path = ""
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

        async def send(
            method: Method, path: str, body: object, headers: Mapping[str, str], on_line: OnLine | None
        ) -> GatewayAnswer:
            loop = asyncio.get_running_loop()
            on_loop = None if on_line is None else lambda line: loop.call_soon_threadsafe(on_line, line)
            answered: GatewayAnswer = await threads.run(self.send, method, path, body, headers, on_loop)
            return answered

        try:
            yield Requests(self.url, send, self._open_chat)
        finally:
            threads.close()
            self._has_ended = True
            self.close()

    def _open_chat(self, session: str, agent: str, watcher: "ChatWatcher") -> AbstractAsyncContextManager["ChatLink"]:
        backoff = Backoff(longest=_LONGEST_WAIT)
        client = Client(self.url, self.token, backoff=backoff, tls=self.tls, locate=self.locate)
        return client.chat(session, agent, on_state=watcher.on_state, on_channel_message=watcher.on_message)

    def get(self, path: str, form: type[T], **query: str) -> T:
        """Return the answer, read as `form`."""
        return read_answer(self.url, self.send("GET", with_query(path, query)), form)

    def change(self, method: Method, path: str, form: type[T], body: object = None) -> T:
        """Change something and return the answer, read as `form`."""
        return read_answer(self.url, self.send(method, path, body), form)

    def send(
        self,
        method: Method,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        on_line: OnLine | None = None,
    ) -> GatewayAnswer:
        """Return the answer to one request.

        Raises `RemoteRefused` when the gateway refuses it, `GatewayUnreachable` when no answer comes.
        """
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})} if self.token else dict(headers or {})
        data = body if body is None or isinstance(body, bytes | UploadBody) else msgspec.json.encode(body)
        if isinstance(data, UploadBody):
            given["Content-Length"] = str(len(data.data))
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        if on_line is not None:
            assert not isinstance(data, UploadBody)  # no answer to an upload comes line by line
            return self._stream(method, path, data, given, on_line=on_line)
        may_repeat = method == "GET" or "Idempotency-Key" in given
        with self._lock:
            for again in (True, False):
                was_open = self._connection is not None
                try:
                    return self._exchange(method, path, data, given)
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

    def _stream(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str], on_line: OnLine
    ) -> GatewayAnswer:
        """Send a request on a connection of its own: other requests are made while the lines come."""
        connection = self._open_connection()
        try:
            connection.request(method, urlsplit(self.url).path + path, data, headers)
            response = connection.getresponse()
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

    def _exchange(self, method: str, path: str, data: _Body, headers: Mapping[str, str]) -> GatewayAnswer:
        if self._connection is not None and _is_closed_by_gateway(self._connection):
            self.close()
        connection = self._connection = self._connection or self._open_connection()
        sent = data.pieces() if isinstance(data, UploadBody) else data
        try:
            connection.request(method, urlsplit(self.url).path + path, sent, headers)
            response = connection.getresponse()
            return self._check(response.status, response.read())
        finally:
            if self._has_ended:
                connection.close()

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

    def _open_connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None  # checked by `Address`
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
        tls = self.tls or ssl.create_default_context()
        return HTTPSConnection(parts.hostname, parts.port, timeout=_SECONDS, context=tls)

    def _unreachable(self, error: Exception) -> GatewayUnreachable:
        if isinstance(error, ssl.SSLCertVerificationError):
            return GatewayUnreachable(
                f"This computer does not trust the certificate of {self.url} ({error.verify_message}): "
                f"{HOW_TO_TRUST.format(url=self.url)}."
            )
        why = explain_failure(self.url, error)
        return GatewayUnreachable(
            f"The gateway at {self.url} does not answer: {why}. Is the gateway running (`handspan serve`)?"
        )


def _is_closed_by_gateway(connection: HTTPConnection) -> bool:
    """Whether the gateway has closed a kept connection: before a request, nothing else can be read from it."""
    return connection.sock is not None and bool(select.select((connection.sock,), (), (), 0)[0])
