"""Connections to checked addresses only: the network backend of all our HTTP clients (SPEC S2)."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Any, Final, TypeAlias, TypeVar

from handspan.core.errors import ToolError
from handspan.core.late_imports import httpcore2
from handspan.net.policy import UrlRules
from handspan.net.urls import address_of, parse_host

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Looks a name up. Returns the addresses as text, the best first; raises `OSError` when there is none."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""A connection: what comes in, and what goes out."""

MAX_ADDRESSES: Final = 8

_Connection = TypeVar("_Connection")


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Return the addresses that this machine's resolver finds.

    The resolver runs on a daemon thread: on the loop's own threads, one that hangs would delay the exit of the process.
    """
    answer: Future[Sequence[str]] = Future()

    def ask() -> None:
        """Look up the addresses on the thread, and give them to `answer`."""
        if not answer.set_running_or_notify_cancel():
            return
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            answer.set_result([str(sockaddr[0]) for *_, sockaddr in rows])
        except UnicodeError as error:  # a name that can't be encoded does not exist
            answer.set_exception(socket.gaierror(socket.EAI_NONAME, str(error)))
        except OSError as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="handspan-dns", daemon=True).start()
    return await asyncio.wrap_future(answer)


class Dialer:
    """An `httpcore2.AsyncNetworkBackend`: resolves a host once, checks every address, and connects to a checked one.

    The connection pool still knows the host by its name: the Host header, SNI and the certificate check use that.
    """

    def __init__(self, rules: UrlRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: "Iterable[Any] | None" = None,
    ) -> "httpcore2.AsyncNetworkStream":
        """Return a connection to the first checked address that answers."""

        async def connect(address: str, share: float | None) -> "httpcore2.AsyncNetworkStream":
            return await httpcore2.AnyIOBackend().connect_tcp(
                address, port, share, local_address, socket_options=socket_options
            )

        failures = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
        return await self._connect(host, port, timeout, connect, failures=failures)

    async def open_streams(self, host: str, port: int, timeout: float) -> Streams:
        """Return a plain connection to the first checked address that answers. Raises `ToolError`."""

        async def connect(address: str, share: float | None) -> Streams:
            async with asyncio.timeout(share):
                return await asyncio.open_connection(address, port)

        try:
            return await self._connect(host, port, timeout, connect, failures=(OSError,))
        except TimeoutError as error:
            raise ToolError("network_error", f"Timeout: {host!r} port {port} did not answer in time.") from error
        except OSError as error:
            problem = os.strerror(error.errno) if error.errno else str(error)
            raise ToolError("network_error", f"No connection to {host!r} port {port}: {problem}.") from error

    async def _connect(
        self,
        host: str,
        port: int,
        timeout: float | None,
        connect: Callable[[str, float | None], Awaitable[_Connection]],
        failures: tuple[type[Exception], ...],
    ) -> _Connection:
        """Return what `connect` makes of the first checked address that answers."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        addresses = (await self._checked_addresses(host, port, timeout))[:MAX_ADDRESSES]
        failure: Exception | None = None
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # Each address gets its share of the time: one that does not answer must not use all of it.
            share = None if ends_at is None else max(0.001, (ends_at - time.monotonic()) / left)
            try:
                return await connect(address, share)
            except failures as error:
                failure = failure or error
        raise failure or _dns_error(host, "no address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: "Iterable[Any] | None" = None
    ) -> "httpcore2.AsyncNetworkStream":
        """Raise `ToolError`: a socket of this machine is not a host."""
        raise ToolError("policy_denied", f"Not requested: {path!r} is a socket of this machine, not a host.")

    async def sleep(self, seconds: float) -> None:
        """Wait between two attempts."""
        await asyncio.sleep(seconds)

    async def _checked_addresses(self, host: str, port: int, timeout: float | None) -> Sequence[str]:
        """Return the addresses of this host. Raises `ToolError` if the rules refuse one of them."""
        host = _canonicalize(host)
        self._rules.check_host(host, port)
        literal = address_of(host)
        addresses = [host] if literal else await self._look_up(host, port, timeout)
        for address in addresses:
            # Check all of them, not only the one that is used: a mixed answer is a sign of DNS rebinding.
            self._rules.check_address(host, port, ip_address(address))
        return addresses

    async def _look_up(self, host: str, port: int, timeout: float | None) -> Sequence[str]:
        try:
            async with asyncio.timeout(timeout):
                return list(dict.fromkeys(await self._resolve(host, port)))
        except TimeoutError as error:
            raise _dns_error(host, "timeout: the name server does not answer") from error
        except (OSError, UnicodeError) as error:
            raise _dns_error(host, getattr(error, "strerror", None) or str(error)) from error


def _canonicalize(host: str) -> str:
    """Return the host in our canonical form: if a library made the request, another parser has read its URL."""
    try:
        return parse_host(f"[{host}]" if ":" in host else host)
    except ValueError as error:
        raise ToolError("invalid_arguments", f"Not a usable URL: {error}.") from error


def _dns_error(host: str, reason: str) -> ToolError:
    return ToolError("network_error", f"DNS: cannot resolve host {host!r} ({reason}). Check the spelling of the host.")
