"""A line for each HTTP request, with `--verbose`: method, path, status, time. Never the query: it may be secret."""

import logging
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handspan.core.values import describe_seconds

_LONGEST_PATH: Final = 200
_log = logging.getLogger(__name__)


def with_request_log(app: ASGIApp) -> ASGIApp:
    """Return the application with a log of its requests; unchanged when the log leaves requests out."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, and log it with its status and its time."""
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        status, began = 0, time.monotonic()

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, send_and_see)
        finally:
            _log_request(scope, status, time.monotonic() - began)

    return answer if _log.isEnabledFor(logging.DEBUG) else app


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    method, path = scope["method"], scope["path"][:_LONGEST_PATH]
    about = {"event": "request", "method": method, "path": path, "status": status, "seconds": seconds}
    _log.debug("%s %s: %s in %s", method, path, status or "no answer", describe_seconds(seconds), extra=about)
