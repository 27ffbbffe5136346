"""What uvicorn's connections read of their server, in place of uvicorn's own `Config` and `Server`.

uvicorn's also have a command line, processes, signals and a way to stop; our server has its own of each.
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from starlette.types import ASGIApp


class ProtocolConfig:
    """The members of uvicorn's `Config` that its connections read, under the same names."""

    loaded = True
    root_path = ""
    asgi_version = "3.0"
    limit_concurrency = None
    timeout_keep_alive = 5
    reset_contextvars = False
    ws_ping_interval = 20.0
    ws_ping_timeout = 20.0
    ws_per_message_deflate = False  # it multiplies the memory of a connection

    def __init__(self, app: ASGIApp, ws_protocol_class: Callable[..., Any], ws_max_size: int) -> None:
        self.loaded_app = app
        self.ws_protocol_class = ws_protocol_class
        self.ws_max_size = ws_max_size


class SharedState:
    """The members of uvicorn's `ServerState`: what all connections of a server share."""

    def __init__(self) -> None:
        self.total_requests = 0
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.default_headers: list[tuple[bytes, bytes]] = []
        """The headers of every response."""
        self._is_leaving = False

    def set_date(self, now: float) -> None:
        """Let responses have the date of this moment, in seconds since 1970."""
        last = [(b"connection", b"close")] if self._is_leaving else []
        self.default_headers = [(b"date", formatdate(now, usegmt=True).encode()), *last]

    def end_after_answers(self, now: float) -> None:
        """Let each connection end with its next answer, from this moment on."""
        self._is_leaving = True
        self.set_date(now)
