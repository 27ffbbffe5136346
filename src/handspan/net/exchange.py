"""A request, its response and its redirects as data; the rules for headers; the errors of a connection (SPEC X2)."""

import re
import ssl
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import ToolError
from handspan.core.late_imports import httpx2
from handspan.net.urls import Url, resolve_location

MEBIBYTE: Final = 1024 * 1024
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})

Headers = tuple[tuple[str, str], ...]

# Patterns as text: `re` compiles them at their first use and caches them.
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}"
_BAD_IN_VALUE: Final = r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]"
_SET_BY_CLIENT: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect"}
    | {"accept-encoding", "proxy-connection", "http2-settings"}
)
# These say nothing about the caller. Any other header may hold a secret, and is not sent to another origin.
_HARMLESS: Final = frozenset({"accept", "accept-language", "cache-control", "content-type", "user-agent"})


class OutgoingRequest(Struct, frozen=True):
    """A request of a tool."""

    url: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = b""


class RequestLimits(Struct, frozen=True):
    """The limits of one request with its redirects."""

    seconds: float | None = 30.0
    """For everything: look-up, connection, TLS, redirects, body. None: only each silence is limited."""
    body_bytes: int = 10 * MEBIBYTE
    """Bytes of the response body after decompression; the rest is not read."""
    redirects: int = 5


class Fetched(Struct, frozen=True):
    """The last response to a request."""

    url: str
    """The URL that answered, after redirects."""
    status: int
    headers: dict[str, str]
    """The names are in lower case."""
    body: bytes
    truncated: bool = False
    """The body is longer than the limit; `body` is its beginning."""


class Hop(Struct, frozen=True):
    """One request in a chain of redirects."""

    url: Url
    method: str
    headers: Headers
    body: bytes

    def redirect(self, status: int, location: str) -> "Hop":
        """Return the next request, changed as browsers do; without secrets if the origin changes.

        Raises `ToolError` (`network_error`) if the server sent a URL that can't be asked: the caller did not choose it.
        """
        try:
            url = resolve_location(self.url, location)
        except ToolError as error:
            text = f"{self.url} redirects to {location!r:.200}, which can't be asked: {error.__cause__}."
            raise ToolError("network_error", text) from error
        hop = replace(self, url=url)
        if (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST"):
            headers = tuple(pair for pair in self.headers if not pair[0].lower().startswith("content-"))
            hop = replace(hop, method="GET", body=b"", headers=headers)
        if url.origin != self.url.origin:
            hop = replace(hop, headers=tuple(pair for pair in hop.headers if pair[0].lower() in _HARMLESS))
        return hop


def check_method(method: str) -> str:
    """Return the method. Raises `ToolError` (`invalid_arguments`) if we do not send it."""
    if method in METHODS:
        return method
    text = f"{method!r:.40} is not a method to send: use one of {', '.join(sorted(METHODS))}."
    raise ToolError("invalid_arguments", text)


def check_headers(headers: Headers) -> Headers:
    """Return the headers. Raises `ToolError` (`invalid_arguments`) if one could smuggle in another header."""
    for name, value in headers:
        if not re.fullmatch(_TOKEN, name):
            raise ToolError("invalid_arguments", f"{name!r:.100} is not a header name: use letters, digits and '-'.")
        if name.lower() in _SET_BY_CLIENT or name.lower().startswith("proxy-"):
            raise ToolError("invalid_arguments", f"The header {name!r} is set by the client itself: leave it out.")
        if re.search(_BAD_IN_VALUE, value):
            text = f"The value of header {name!r} holds a line break or another control character."
            raise ToolError("invalid_arguments", text)
    return tuple((name, value.strip(" \t")) for name, value in headers)


def network_error(url: Url, error: Exception) -> ToolError:
    """Return the error for an exception of the HTTP library: timeout, TLS, refused, broken or not HTTP."""
    return ToolError("network_error", _explain(f"{url.host!r} port {url.port}", error))


def describe_http_error(error: "httpx2.RequestError") -> str:
    """Return why a request had no answer, in words for a person."""
    url = error.request.url
    return _explain(f"{url.host!r} port {url.port or (443 if url.scheme == 'https' else 80)}", error)


def _explain(place: str, error: Exception) -> str:
    """Return why a request failed, for people and models, with what to do."""
    match error, _first_cause(error):
        case httpx2.TimeoutException(), _:
            return f"Timeout: {place} did not answer in time. Try again later."
        case _, ssl.SSLError() as cause:
            return f"TLS: no trusted connection to {place}: {_text(cause)}. Check the host and its certificate."
        case _, ConnectionRefusedError():
            return f"Connection refused by {place}. Check the port, and whether the server is running."
        case httpx2.ConnectError(), cause:
            return f"No connection to {place}: {_text(cause)}. Check the host and the port."
        case httpx2.NetworkError(), cause:
            return f"The connection to {place} broke: {_text(cause)}. Try again."
    return f"Protocol error: the answer of {place} is not proper HTTP: {_text(error)}."


def _first_cause(error: BaseException) -> BaseException:
    """Return the error of the operating system or TLS, below those of the library."""
    found, current = error, error.__cause__ or error.__context__
    while current is not None:
        if isinstance(current, OSError):
            found = current
        current = current.__cause__ or current.__context__
    return found


def _text(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
