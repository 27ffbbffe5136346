"""What holds for every request and answer of a login: https, a time limit, a largest size."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

import httpx2

from handspan.sources.mcp.logins.login import LoginFailed

_LARGEST: Final = 256 * 1024
"""Bytes of an answer about a login."""
SILENCE_SECONDS: Final = 20.0
"""For one silence of a server of logins."""


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, refused when it is too large."""

    def __init__(self, response: httpx2.Response) -> None:
        self._host = response.url.host
        self._is_packed = response.headers.get("content-encoding", "identity") != "identity"
        self._body = response.stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _LARGEST
        assert isinstance(self._body, httpx2.AsyncByteStream)  # an async client has no other
        async for piece in self._body:
            left -= len(piece)
            if left < 0 or self._is_packed:  # we ask for plain bytes: packed ones could grow without a limit
                raise LoginFailed(f"the answer of {self._host!r} about its login is too large, or compressed")
            yield piece

    async def aclose(self) -> None:
        """End the body."""
        assert isinstance(self._body, httpx2.AsyncByteStream)
        await self._body.aclose()


def check_request(request: httpx2.Request, server: str) -> httpx2.Request:
    """Return this request of a login, with a time limit. Raises `LoginFailed` if it would show a secret on its way."""
    check_address(str(request.url), server)
    request.headers["Accept-Encoding"] = "identity"
    request.extensions["timeout"] = httpx2.Timeout(SILENCE_SECONDS).as_dict()
    return request


def check_address(address: str, server: str) -> None:
    """Raise `LoginFailed` if this address has no https, unless it is on the host of the server."""
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == urlsplit(server).hostname):
        raise LoginFailed(f"its login is at {parts.hostname!r} without https")
