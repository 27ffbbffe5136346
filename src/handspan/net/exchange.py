"""What goes out and what comes back, as data; and the rules for headers and redirects."""

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import ToolError
from handspan.net.urls import Url, resolve_location

MEBIBYTE: Final = 1024 * 1024
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})

Headers = tuple[tuple[str, str], ...]

# Patterns as text: `re` compiles them when they are first used, and keeps them.
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}"
_BAD_IN_VALUE: Final = r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]"
_OURS_TO_SET: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect"}
    | {"accept-encoding", "proxy-connection", "http2-settings"}
)
# What says nothing about the caller. Everything else may be a secret under any name, and stays with its first origin.
_HARMLESS: Final = frozenset({"accept", "accept-language", "cache-control", "content-type", "user-agent"})


class OutgoingRequest(Struct, frozen=True):
    """A request as a tool wants it."""

    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""


class RequestLimits(Struct, frozen=True):
    """How much one request may cost, redirects included."""

    seconds: float | None = 30.0
    """Over everything: look-up, connection, TLS, redirects, body. None: only each silence is bounded."""
    body_bytes: int = 10 * MEBIBYTE
    """Of the answer's body, counted after inflating; the rest is not read."""
    redirects: int = 5


class Fetched(Struct, frozen=True):
    """The last answer of a request."""

    url: str
    """The one that answered, after redirects."""
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    truncated: bool = False
    """The answer is longer than the limit; `body` is its beginning."""


class Hop(Struct, frozen=True):
    """One request of a chain of redirects."""

    url: Url
    method: str
    headers: Headers
    body: bytes

    def redirected(self, status: int, location: str) -> "Hop":
        """The next request, rewritten as browsers do, without secrets when the origin changes."""
        url = resolve_location(self.url, location)
        hop = replace(self, url=url)
        if (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST"):
            hop = replace(hop, method="GET", body=b"", headers=_without(self.headers, "content-"))
        if url.origin != self.url.origin:
            hop = replace(hop, headers=tuple(pair for pair in hop.headers if pair[0].lower() in _HARMLESS))
        return hop


def checked_method(method: str) -> str:
    """The method, if it is one that we send."""
    if method in METHODS:
        return method
    raise ToolError(
        "invalid_arguments", f"{method!r:.40} is not a method to send: use one of {', '.join(sorted(METHODS))}."
    )


def checked_headers(headers: Headers) -> Headers:
    """The headers, if none of them can change what is a header and what is not."""
    for name, value in headers:
        if not re.fullmatch(_TOKEN, name):
            raise ToolError("invalid_arguments", f"{name!r:.100} is not a header name: use letters, digits and '-'.")
        if name.lower() in _OURS_TO_SET or name.lower().startswith("proxy-"):
            raise ToolError("invalid_arguments", f"The header {name!r} is set by the client itself: leave it out.")
        if re.search(_BAD_IN_VALUE, value):
            raise ToolError(
                "invalid_arguments", f"The value of header {name!r} holds a line break or another control character."
            )
    return tuple((name, value.strip(" \t")) for name, value in headers)


def _without(headers: Headers, prefix: str) -> Headers:
    return tuple(pair for pair in headers if not pair[0].lower().startswith(prefix))
