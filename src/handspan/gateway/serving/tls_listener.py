"""Accepts TLS connections. Each counts as idle from the moment it is accepted, not only after its handshake (SPEC S7).

A server of asyncio tells nothing of a connection before its handshake has ended: sockets that never finish one could
use up all descriptors of the process.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from handspan.gateway.entry.host_policy import address_of, is_local
from handspan.gateway.serving.idle_connections import IdleConnections

_PAUSE: Final = 1.0
"""Seconds before the next try, when the process has no descriptor left."""
_NO_DESCRIPTOR: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class MakeProtocol(Protocol):
    """Makes the protocol of a connection, which calls `on_made` when the handshake is over."""

    def __call__(self, *, on_made: Callable[[], None]) -> asyncio.BaseProtocol: ...


class TlsListener:
    """Accepts connections on one socket, until `close`."""

    def __init__(
        self,
        bound: socket.socket,
        context: ssl.SSLContext,
        seconds: float,
        idle: IdleConnections,
        connections: set[Any],
        make: MakeProtocol,
    ) -> None:
        """`seconds`: the time for a handshake. `connections`: all connections of the server."""
        self._bound = bound
        self._context = context
        self._seconds = seconds
        self._idle = idle
        self._connections = connections
        self._make = make
        self._accepting: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to accept."""
        self._bound.setblocking(False)  # noqa: FBT003 - its only parameter
        self._accepting = asyncio.create_task(self._accept_all())

    def close(self) -> None:
        """Accept no more connections."""
        if self._accepting is not None:
            self._accepting.cancel()

    async def _accept_all(self) -> None:
        """Accept connections without end. Without a free descriptor, wait."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                link, peer = await loop.sock_accept(self._bound)
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR:
                    await asyncio.sleep(_PAUSE)
                continue
            self._begin_handshake(link, _find_address(peer))

    def _begin_handshake(self, link: socket.socket, address: str) -> None:
        """Count the new connection and begin its handshake; close it when there are too many."""
        handshake = _Handshake(self._idle, self._connections, address)
        if self._idle.make_room(len(self._connections)):
            self._idle.add(handshake, address)
            handshake.task = asyncio.create_task(self._shake_hands(handshake, link))
        else:
            handshake.end()
            link.close()

    async def _shake_hands(self, handshake: "_Handshake", link: socket.socket) -> None:
        """Make a TLS connection of an accepted one. It counts as idle until the handshake is over."""
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(on_made=handshake.end),
                link,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
            )
        except OSError:  # the handshake broke off, took too long, or was no TLS
            link.close()
        finally:
            handshake.end()


class _Handshake:
    """A connection before the end of its handshake."""

    def __init__(self, idle: IdleConnections, connections: set[Any], address: str) -> None:
        self._idle = idle
        self._connections = connections
        self._address = address
        self.task: asyncio.Task[None] | None = None
        connections.add(self)

    def end(self) -> None:
        """Stop counting the connection: its protocol counts from now on, or it is gone."""
        self._idle.remove(self, self._address)
        self._connections.discard(self)

    def drop(self) -> None:
        """Close the connection at once: another one needs its place."""
        self.end()
        if self.task is not None:
            self.task.cancel()

    end_late = shutdown = drop


def _find_address(peer: Any) -> str:
    """Return the address by which connections are counted; empty for this computer."""
    address = address_of({"client": tuple(peer[:2])})
    return "" if is_local(address) else address
