"""The server: uvicorn's connections, our listeners. The first signal stops it in order, a second at once (SPEC G3)."""

import asyncio
import contextlib
import gc
import importlib
import logging
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from starlette.types import ASGIApp

from handspan.config.gateway_settings import ConnectionLimits, GatewaySettings
from handspan.core.errors import ConfigError
from handspan.core.fast import IS_FAST
from handspan.core.late_imports import ctypes
from handspan.gateway.serving.http_protocol import HttpProtocol
from handspan.gateway.serving.idle_connections import IdleConnections
from handspan.gateway.serving.listening import TlsFiles, drop_new_connections, listen, url_of
from handspan.gateway.serving.protocol_config import ProtocolConfig, SharedState
from handspan.gateway.serving.reading_turns import ReadingTurns
from handspan.gateway.serving.refusing import Answering
from handspan.gateway.serving.stopping import Stopping
from handspan.gateway.serving.tls_listener import TlsListener

DRAIN_SECONDS: Final = 10.0
_LEAVE_SECONDS: Final = 0.25
"""The time in which a stop leaves what can wait, before it says what it waits for."""
_IDLE_SECONDS: Final = 1.0
"""Seconds after which idle connections are closed, once no new ones are taken."""
_HANDSHAKE_SECONDS: Final = 0.25
"""The time in which connections that have begun before a listener closes are completed."""
_CLOSE_SECONDS: Final = 0.5
"""The time for connections to end, and again for their requests after the connections were cut off."""
_LAST_WORD_SECONDS: Final = 0.1
"""The time in which cancelled requests may still send their answer."""
_LOOK_SECONDS: Final = 0.005
"""Seconds between two looks whether all connections have ended."""
_BACKLOG: Final = 2048
"""Connections that the kernel keeps for the server until it accepts them."""
_TURNS_TO_ACCEPT: Final = 5
"""After so many turns of the event loop, uvicorn knows every connection that the kernel has accepted."""
_M_ARENA_MAX: Final = -8
"""The number of the option M_ARENA_MAX in `malloc.h`."""
_SOCKET: Final = (
    ("handspan.gateway.clients.fast_socket", "FastSocketProtocol")
    if IS_FAST
    else ("handspan.gateway.clients.socket", "SocketProtocol")
)
"""The module and the class of a WebSocket connection."""
_log = logging.getLogger(__name__)


def _socket_protocol(limits: ConnectionLimits, **arguments: Any) -> Any:
    """Return the protocol of a WebSocket connection. Its module is loaded late, for a fast start."""
    module, name = _SOCKET
    protocol = vars(importlib.import_module(module))[name](**arguments)
    protocol.frame_limits = limits
    return protocol


class Servable(Protocol):
    """What can be served. `open` is called before the first request, `close` after the last one."""

    @property
    def asgi(self) -> ASGIApp:
        """The application."""

    @property
    def leaving_seconds(self) -> float:
        """Seconds that `leave` may take; 0: there are no other nodes."""

    async def open(self, url: str = "") -> None:
        """Get ready for requests, which come to this address."""

    async def leave(self) -> None:
        """Send the clients to other nodes, and answer requests as before. Returns when they are gone."""

    async def drain(self, seconds: float) -> None:
        """Take no new work. Work that runs ends, or is ended, within so many seconds."""

    async def close(self) -> None:
        """Close all parts."""


class Server:
    """A gateway on a port: `open`, then it answers, then `close`. It ignores signals: `serve` takes them."""

    def __init__(self, gateway: Servable, settings: GatewaySettings) -> None:
        self._gateway = gateway
        self._settings = settings
        self._ticking: asyncio.Task[None] | None = None
        self._state: SharedState | None = None
        self._listeners: list[asyncio.Server | TlsListener] = []
        self._sockets: list[socket.socket] = []
        self._make: Callable[[], HttpProtocol] | None = None
        self.port = 0
        """The port; known after `open`."""

    @property
    def url(self) -> str:
        """The address for programs on this computer, without a slash at the end."""
        return url_of(self._settings, self.port)

    async def open(self) -> str:
        """Listen, and return the address. Raises `ConfigError`, with nothing left open, when that is not possible."""
        tls = TlsFiles(self._settings)
        self._sockets = listen(self._settings)
        self.port = self._sockets[0].getsockname()[1]
        async with contextlib.AsyncExitStack() as undo:
            for bound in self._sockets:
                undo.callback(bound.close)
            await self._gateway.open(self.url)
            undo.push_async_callback(self._gateway.close)
            await self._start(tls)
            undo.pop_all()
        return self.url

    async def _start(self, tls: TlsFiles) -> None:
        """Accept connections on all sockets."""
        prefix, limits = self._settings.path_prefix, self._settings.connections
        idle, turns = IdleConnections(limits), ReadingTurns(limits.tokenless_per_second)
        config = ProtocolConfig(
            Answering(self._gateway.asgi, prefix),
            partial(_socket_protocol, limits),
            self._settings.limits.message_bytes,
        )
        _silence_uvicorn()
        state = self._state = SharedState()
        state.set_date(time.time())  # before the first answer
        shared: dict[str, Any] = {"config": config, "server_state": state, "app_state": {}}
        make = self._make = partial(HttpProtocol, prefix, limits, idle, turns, **shared)
        accept = partial(self._accept, make=make, tls=tls, idle=idle, connections=state.connections)
        self._listeners = [await accept(bound) for bound in self._sockets]
        self._ticking = asyncio.create_task(_tick(state, idle, tls))

    async def _accept(
        self,
        bound: socket.socket,
        *,
        make: Callable[..., HttpProtocol],
        tls: TlsFiles,
        idle: IdleConnections,
        connections: set[Any],
    ) -> asyncio.Server | TlsListener:
        """Accept connections, with TLS if there is a certificate."""
        if tls.context is None:
            return await asyncio.get_running_loop().create_server(make, sock=bound, backlog=_BACKLOG)
        bound.listen(_BACKLOG)
        seconds = self._settings.connections.head_seconds
        listener = TlsListener(bound, tls.context, seconds, idle, connections=connections, make=make)
        listener.open()
        return listener

    async def close(self, seconds: float = 0.0) -> None:
        """Wait for running work, at most so many seconds; tell the clients (1012), then close everything."""
        try:
            if seconds and self._gateway.leaving_seconds:
                await self._leave()
            await self._drain(seconds)
        finally:
            try:
                await self._close_connections()
            finally:
                await self._gateway.close()

    async def _leave(self) -> None:
        """Let the clients go to other nodes. Every request that comes meanwhile is answered (SPEC K6).

        A proxy learns from a refused connection that another node has to get the request. So the listeners close before
        any request is refused, and a connection that is open ends with its next answer, or when it has been idle.
        """
        if self._state is not None:
            self._state.end_after_answers(time.time())
        try:
            async with asyncio.timeout(self._gateway.leaving_seconds + 0.2):
                await self._gateway.leave()
        except TimeoutError:
            _log.warning("Some clients did not leave within %s s", self._gateway.leaving_seconds)
        await self._stop_listening()
        await asyncio.sleep(_IDLE_SECONDS)
        for connection in () if self._state is None else tuple(self._state.connections):
            if isinstance(connection, HttpProtocol):
                connection.shutdown()

    async def _stop_listening(self) -> None:
        """Close the listeners. Connections that the system has taken for them by then are still used.

        A connection that is complete, and not accepted when its listener closes, is reset: a proxy has sent its request
        by then, and can't send it to another node. So no connection begins in the moment before.
        """
        if all(drop_new_connections(bound) for bound in self._sockets):
            await asyncio.sleep(_HANDSHAKE_SECONDS)
        waiting: list[socket.socket] = []
        for bound, listener in zip(self._sockets, self._listeners, strict=True):
            if isinstance(listener, asyncio.AbstractServer):
                with contextlib.suppress(OSError):
                    while True:
                        waiting.append(bound.accept()[0])
            listener.close()
        for one in waiting:
            assert self._make is not None
            with contextlib.suppress(OSError):  # its client has left
                await asyncio.get_running_loop().connect_accepted_socket(self._make, one)

    async def _drain(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds + 0.2):
                await self._gateway.drain(seconds)
        except TimeoutError:
            _log.warning("Some work did not end within %s s", seconds)

    async def _close_connections(self) -> None:
        """Close all listeners and connections. Requests that do not end in time are cancelled."""
        state, self._state = self._state, None
        if state is None:
            return
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a connection that is cut off is no error
        left = set(state.tasks)
        await self._end_connections(state)
        if left:
            await asyncio.wait(left, timeout=_LAST_WORD_SECONDS)  # cancelled requests still send their answer
        for client in list(state.connections):
            client.transport.abort()
        if left:
            await asyncio.wait(left, timeout=_CLOSE_SECONDS)

    async def _end_connections(self, state: SharedState) -> None:
        """Close listening sockets and idle connections, wait for the others, and cancel what takes too long."""
        for listening in (*self._listeners, *self._sockets):
            listening.close()
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while state.connections or state.tasks:  # noqa: ASYNC110 - uvicorn has no event for the end of one
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            for task in state.tasks:
                task.cancel()


def _silence_uvicorn() -> None:
    """Let uvicorn log no more than warnings: lower levels log addresses with their query, and so tokens (SPEC S5)."""
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").propagate = False  # so uvicorn does not even put its lines together


async def _tick(state: SharedState, idle: IdleConnections, tls: TlsFiles) -> None:
    """Update the date header, end connections that are too slow, take a new certificate: every second."""
    while True:
        await asyncio.sleep(1.0)
        state.set_date(time.time())
        idle.end_late()
        try:
            tls.reload()
        except ConfigError as problem:
            _log.warning("%s The certificate from before is used on.", problem)


def tune_garbage_collection() -> None:
    """Collect garbage less often: objects of the start stay, and connections leave no cycles."""
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)
    gc.enable()


def use_one_heap() -> None:
    """Let all threads allocate from one heap. Call this before the first thread starts.

    The GNU C library gives each thread a heap of its own, and what is freed stays in its heap. Any of many threads
    loads a long conversation: each of their heaps would grow to the size of the longest one.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # another C library has no `mallopt`
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def serve(
    gateway: Servable,
    settings: GatewaySettings,
    *,
    on_ready: Callable[[str], None],
    on_stopping: Callable[[], None] | None = None,
    on_reload: Callable[[], None] | None = None,
) -> None:
    """Serve until a signal comes, then stop in order.

    `on_ready` gets the address once requests are answered; `on_stopping` is called a moment after the signal, when only
    the work that the stop waits for is left; `on_reload` when SIGHUP asks for new settings.
    """
    server, leaving = Server(gateway, settings), gateway.leaving_seconds
    stopping = Stopping(on_reload, leaving + _HANDSHAKE_SECONDS + _IDLE_SECONDS if leaving else 0.0)
    stopping.open()
    if not await _open_unless_stopped(server, stopping):
        return
    tune_garbage_collection()
    try:
        on_ready(server.url)
        await stopping.is_stopping.wait()
    finally:
        closing = asyncio.create_task(server.close(DRAIN_SECONDS if stopping.is_stopping.is_set() else 0.0))
        try:
            await asyncio.wait([closing], timeout=_LEAVE_SECONDS)
            if on_stopping is not None and stopping.is_stopping.is_set():
                on_stopping()
        finally:
            await closing


async def _open_unless_stopped(server: Server, stopping: Stopping) -> bool:
    """Open the server. Return False, with nothing left open, when a signal has come meanwhile."""
    opening = asyncio.create_task(server.open())
    stop = asyncio.create_task(stopping.is_stopping.wait())
    try:
        await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        if not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
    if opening.cancelled():
        return False
    await opening
    return True


def find_uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's `new_event_loop`; None, which means asyncio's own, where uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415 - a library that need not be there
    except ImportError:
        return None
    return uvloop.new_event_loop
