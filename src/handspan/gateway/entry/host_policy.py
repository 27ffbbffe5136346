"""Where a request may come from: a Host that is ours, and from web pages an Origin that is known (SPEC S5).

A page whose name was made to lead here (DNS rebinding) has no foreign Origin, but it has a foreign Host; a page of
another site has our Host, but a foreign Origin. Neither check is a token's work, and no token replaces them.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

from starlette.types import Scope

from handspan.config.settings import GatewaySettings
from handspan.core.errors import ConfigError
from handspan.gateway.http.refusals import Refusal
from handspan.net.urls import DEFAULT_PORTS, parse_host, parse_port

_T = TypeVar("_T")

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LOCAL: Final = "local"
"""In place of an address: a connection without one, as over a Unix socket."""

_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#@\\\s]+)")
_SHOWN: Final = 100


class Authority(NamedTuple):
    """A host in its one form, and the port where one is named."""

    host: str
    port: int | None


class WebOrigin(NamedTuple):
    """Where a web page comes from."""

    scheme: str
    authority: Authority | str
    """For schemes that are not the web's (`chrome-extension`): the text."""


class HostPolicy:
    """The Hosts that are ours and the Origins that may speak to us."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._hosts = {_of_settings("hosts", text, _authority) for text in settings.hosts}
        self._origins = {_of_settings("origins", text, _origin) for text in settings.origins}
        self._bound = _bound(settings.host)

    def check(self, scope: Scope) -> None:
        """Refuse a request for somebody else's name, or from somebody else's page."""
        host = self._check_host(scope)
        origin = header_of(scope, b"origin")
        if origin is None or _is_own(origin, host, scope) or self._is_guest(origin):
            return
        raise Refusal(
            403,
            "unknown_origin",
            f"Pages of {origin[:_SHOWN]!r} may not use this gateway: add that origin to `gateway.origins` if they may.",
        )

    def is_own_origin(self, scope: Scope) -> bool:
        """Whether the request says that it comes from our own page."""
        origin = header_of(scope, b"origin")
        return origin is not None and _is_own(origin, self._check_host(scope), scope)

    def guest(self, scope: Scope) -> str | None:
        """The origin of a page of `gateway.origins` that asks; None for everybody else."""
        origin = header_of(scope, b"origin")
        return origin if origin is not None and self._is_guest(origin) else None

    def _is_guest(self, origin: str) -> bool:
        return bool(self._origins) and _read_origin(origin) in self._origins

    def _check_host(self, scope: Scope) -> Authority:
        text = header_of(scope, b"host")
        host = None if text is None else _read_authority(text)
        if host is not None and self._knows(host, scope):
            return host
        shown = "no host" if text is None else f"{text[:_SHOWN]!r}"
        raise Refusal(
            403, "unknown_host", f"This gateway is not known as {shown}: add that to `gateway.hosts` if it should be."
        )

    def _knows(self, host: Authority, scope: Scope) -> bool:
        port = host.port or DEFAULT_PORTS["https" if is_secure(scope) else "http"]
        if Authority(host.host, None) in self._hosts or Authority(host.host, port) in self._hosts:
            return True
        here, here_port = scope.get("server") or ("", None)
        if here_port is not None and port != here_port:
            return False
        return host.host in LOOPBACK or host.host == self._bound or host.host == _plain_address(here)


def header_of(scope: Scope, name: bytes) -> str | None:
    """The header, or None where it is missing. One that stands there twice is as good as none that we know."""
    found: list[bytes] = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        return ""
    return found[0].decode("latin-1").strip() if found else None


def is_secure(scope: Scope) -> bool:
    """Whether the request came over TLS."""
    return scope.get("scheme") in ("https", "wss")


def address_of(scope: Scope) -> str:
    """Whom tries are counted for: the address of the client; of IPv6 the network, which is what one person has."""
    client = scope.get("client")
    return LOCAL if not client else _counted(client[0])


def is_local(address: str) -> bool:
    """Whether this (`address_of`) is the computer that the gateway runs on."""
    return address == LOCAL or address.startswith("127.")


@lru_cache(maxsize=1024)
def _counted(text: str) -> str:
    address = ip_address(_plain_address(text)) if _is_address(text) else None
    if address is None:
        return text
    if address.is_loopback:
        return "127.0.0.1"
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


@lru_cache(maxsize=256)
def _plain_address(text: str) -> str:
    """An address in its one form; the IPv4 one where an IPv6 one only stands for it. Else the text."""
    if not _is_address(text):
        return text
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _bound(host: str) -> str | None:
    """The name that we listen on. `0.0.0.0` is no name: pages of strangers reach this computer by it."""
    if _is_address(host):
        return None if ip_address(host).is_unspecified else _plain_address(host)
    return _of_settings("host", host, lambda text: Authority(parse_host(text), None)).host


def _authority(text: str) -> Authority:
    """The host and port; `ValueError` for whatever two readers could read in two ways."""
    parts = _AUTHORITY.fullmatch(text) if text.isascii() else None
    if parts is None:
        raise ValueError(f"{text!r} is not a host with an optional port")
    return Authority(parse_host(parts[1]), parse_port(parts[2]) if parts[2] else None)


@lru_cache(maxsize=256)
def _read_authority(text: str) -> Authority | None:
    try:
        return _authority(text)
    except ValueError:
        return None


def _origin(text: str) -> WebOrigin:
    parts = _ORIGIN.fullmatch(text.lower())
    if parts is None:
        raise ValueError(f"{text!r} is not an origin")
    scheme, rest = parts.groups()
    if scheme not in DEFAULT_PORTS:
        return WebOrigin(scheme, rest)
    host, port = _authority(rest)
    return WebOrigin(scheme, Authority(host, port or DEFAULT_PORTS[scheme]))


@lru_cache(maxsize=256)
def _read_origin(text: str) -> WebOrigin | None:
    try:
        return _origin(text)
    except ValueError:  # among them `null`: a page that hides where it comes from
        return None


def _is_own(text: str, host: Authority, scope: Scope) -> bool:
    """Whether a page of this origin was served under the Host of this request."""
    origin = _read_origin(text)
    if origin is None or origin.scheme not in DEFAULT_PORTS:
        return False
    if is_secure(scope) and origin.scheme != "https":
        return False
    # Without TLS of our own, `https` may be a reverse proxy's: then Host names no port, and 443 is meant.
    return origin.authority == Authority(host.host, host.port or DEFAULT_PORTS[origin.scheme])


def _of_settings(name: str, text: str, read: Callable[[str], _T]) -> _T:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError(f"gateway.{name}: {error}. Correct it.") from None
