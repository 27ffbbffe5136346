"""What holds for every request and answer of a login: https, a time limit, a largest size."""

from typing import Final
from urllib.parse import urlsplit

import httpx2

from handspan.sources.mcp.http_limits import PLAIN_BYTES, BoundedBody
from handspan.sources.mcp.logins.login import LoginFailed

_LARGEST: Final = 256 * 1024
"""Bytes of an answer about a login."""
SILENCE_SECONDS: Final = 20.0
"""How long a server of logins may be silent."""


def bound_body(response: httpx2.Response) -> BoundedBody:
    """Return the body of this answer. Reading it raises `LoginFailed` when it is too large, or compressed."""
    text = f"the answer of {response.url.host!r} about its login is too large, or compressed"
    return BoundedBody(response, _LARGEST, LoginFailed(text))


def check_request(request: httpx2.Request, server: str) -> httpx2.Request:
    """Return this request of a login, with a time limit. Raises `LoginFailed` as `check_address` does."""
    check_address(str(request.url), server)
    request.headers.update(PLAIN_BYTES)
    request.extensions["timeout"] = httpx2.Timeout(SILENCE_SECONDS).as_dict()
    return request


def check_address(address: str, server: str) -> None:
    """Raise `LoginFailed` if this address has no https, which hides secrets, unless it is on the host of the server."""
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == urlsplit(server).hostname):
        raise LoginFailed(f"its login is at {parts.hostname!r} without https")
