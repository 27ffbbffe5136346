"""One small request to a gateway, for commands that need no more than that."""

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_LARGEST: Final = 1024 * 1024


class HttpAnswer(Struct, frozen=True):
    """The answer to one request, or the reason why there is none."""

    status: int
    """0 when no answer came."""
    body: bytes = b""
    problem: str = ""
    """Why no answer came."""


def ask(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = 5.0,
    tls: ssl.SSLContext | None = None,
) -> HttpAnswer:
    """Send one request and return the answer. A request with a token goes only to a trusted certificate."""
    try:
        connection = connect(url, seconds, tls, trusts_all="Authorization" not in (headers or {}))
    except ValueError as error:
        return HttpAnswer(0, problem=f"{url!r} is no address: {error}")
    try:
        path = urlsplit(url)
        connection.request(method, f"{path.path or '/'}{'?' + path.query if path.query else ''}", headers=headers or {})
        answer = connection.getresponse()
        body = b"" if answer.status == 101 else answer.read(_LARGEST)
        return HttpAnswer(answer.status, body)
    except (OSError, HTTPException) as error:
        return HttpAnswer(0, problem=f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def connect(url: str, seconds: float, tls: ssl.SSLContext | None = None, *, trusts_all: bool = False) -> HTTPConnection:
    """Return a connection to this address, not open yet. Raises `ValueError` when it is no address.

    `tls` replaces what this computer trusts; `trusts_all`: without it, any certificate is accepted.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it must begin with http:// or https://")
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, parts.port or 80, timeout=seconds)
    if tls is None:
        tls = ssl.create_default_context()
        if trusts_all:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(parts.hostname, parts.port or 443, timeout=seconds, context=tls)
