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
    return RequestLog(app) if _log.isEnabledFor(logging.DEBUG) else app


class RequestLog:
    """An application that logs the requests of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 0, time.monotonic()

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            self._log(scope, status, time.monotonic() - began)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        method, path = scope["method"], scope["path"][:_LONGEST_PATH]
        answer = str(status) if status else "no answer"
        about = {"event": "request", "method": method, "path": path, "status": status, "seconds": seconds}
        _log.debug("%s %s: %s in %s", method, path, answer, describe_seconds(seconds), extra=about)
