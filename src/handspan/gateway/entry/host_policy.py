"""Which Host and Origin headers are accepted: a Host of ours, and from web pages a known Origin (SPEC S5).

The Host check stops DNS rebinding: a page whose name points to this computer has a foreign Host, and no foreign Origin.
The Origin check stops pages of other sites: they have our Host, but a foreign Origin. A token replaces neither check.
"""

import re
import socket
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

from starlette.types import Scope

from handspan.config.gateway_settings import GatewaySettings
from handspan.core.errors import ConfigError
from handspan.gateway.http.refusals import Refusal
from handspan.net.urls import DEFAULT_PORTS, parse_host, parse_port

_T = TypeVar("_T")

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LOCAL: Final = "local"
"""Stands for the address of a connection that has none, such as a Unix socket."""

_AUTHORITY: Final = r"(\[[^\[\]]*\]|[^\[\]:]+)(?::([0-9]{1,5}))?"
_ORIGIN: Final = r"([a-z][a-z0-9+.-]*)://([^/?#@\\\s]+)"
_MAX_QUOTED: Final = 100
_MAX_NAME: Final = 300
"""Longer hosts and origins are unknown: those that were read are kept in memory."""


class Authority(NamedTuple):
    """A host in its normal form, and the port if one is given."""

    host: str
    port: int | None


class WebOrigin(NamedTuple):
    """The origin of a web page."""

    scheme: str
    authority: Authority | str
    """The text, for schemes other than http and https (`chrome-extension`)."""


class HostPolicy:
    """Accepts or refuses requests by their Host and Origin."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._hosts = {_read_setting("hosts", text, _authority) for text in settings.hosts}
        self._origins = {_read_setting("origins", text, _origin) for text in settings.origins}
        self._bound = _bound_host(settings.host)
        # The local network knows this computer by this name too. No name server of the internet gives it to a page.
        self._local_name = f"{socket.gethostname().partition('.')[0].lower()}.local" if self._bound is None else None

    def check(self, scope: Scope) -> None:
        """Raise `Refusal` for a Host that is not ours, or an Origin that is not known."""
        host = self._check_host(scope)
        origin = header_of(scope, b"origin")
        if origin is None or self._is_own(origin, host, scope) or self._is_allowed(origin):
            return
        raise Refusal(
            403,
            "unknown_origin",
            f"Pages of {origin[:_MAX_QUOTED]!r} may not use this gateway: add that origin to `gateway.origins` if they"
            " may.",
        )

    def is_own_origin(self, scope: Scope) -> bool:
        """Whether the request's Origin is our own page."""
        origin = header_of(scope, b"origin")
        return origin is not None and self._is_own(origin, self._check_host(scope), scope)

    def allowed_origin(self, scope: Scope) -> str | None:
        """Return the request's Origin if it is one of `gateway.origins`; else None."""
        origin = header_of(scope, b"origin")
        return origin if origin is not None and self._is_allowed(origin) else None

    def _is_own(self, text: str, host: Authority, scope: Scope) -> bool:
        """Whether this origin is a page that was served under the Host of this request."""
        origin = _read_origin(text)
        if origin is None or origin.scheme not in DEFAULT_PORTS:
            return False
        if origin.scheme == "https":
            is_ours = is_secure(scope) or self._is_named(host, DEFAULT_PORTS["https"])
        else:
            is_ours = not is_secure(scope)
        return is_ours and origin.authority == Authority(host.host, host.port or DEFAULT_PORTS[origin.scheme])

    def _is_named(self, host: Authority, default_port: int) -> bool:
        """Whether the settings name this host: then TLS may be a reverse proxy's in front of us."""
        return not self._hosts.isdisjoint((Authority(host.host, None), Authority(host.host, host.port or default_port)))

    def _is_allowed(self, origin: str) -> bool:
        return bool(self._origins) and _read_origin(origin) in self._origins

    def _check_host(self, scope: Scope) -> Authority:
        """Return the Host of the request. Raises `Refusal` for one that is not ours."""
        text = header_of(scope, b"host")
        host = None if text is None or len(text) > _MAX_NAME else _read_authority(text)
        if host is not None and self._knows(host, scope):
            return host
        name = "no host" if text is None else f"{text[:_MAX_QUOTED]!r}"
        raise Refusal(
            403, "unknown_host", f"This gateway is not known as {name}: add that to `gateway.hosts` if it should be."
        )

    def _knows(self, host: Authority, scope: Scope) -> bool:
        """Whether this host is ours: one of the settings, or this computer with the port of the connection."""
        port = host.port or DEFAULT_PORTS["https" if is_secure(scope) else "http"]
        if self._is_named(host, port):
            return True
        here, here_port = scope.get("server") or ("", None)
        if here_port is not None and port != here_port:
            return False
        return host.host in LOOPBACK or host.host in (self._bound, self._local_name, _normal_address(here))


def header_of(scope: Scope, name: bytes) -> str | None:
    """Return the header; None if it is missing; an empty string, which no check accepts, if it was sent twice."""
    found: list[bytes] = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        return ""
    return found[0].decode("latin-1").strip() if found else None


def is_secure(scope: Scope) -> bool:
    """Whether the request came over TLS."""
    return scope.get("scheme") in ("https", "wss")


def address_of(scope: Scope) -> str:
    """Return the address under which a client's tries count; for IPv6 its network: one person has a whole one."""
    client = scope.get("client")
    return LOCAL if not client else _counted_address(client[0])


def is_local(address: str) -> bool:
    """Whether this address (of `address_of`) is the gateway's own computer."""
    return address == LOCAL or address.startswith("127.")


@lru_cache(maxsize=1024)
def _counted_address(text: str) -> str:
    """Return the address whose guesses are counted: of IPv6 the network, in which a client has many."""
    address = ip_address(_normal_address(text)) if _is_address(text) else None
    if address is None:
        return text
    if address.is_loopback:
        return "127.0.0.1"
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


@lru_cache(maxsize=256)
def _normal_address(text: str) -> str:
    """Return an address in its normal form, an IPv4-mapped one as IPv4. Return other texts unchanged."""
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


def _bound_host(host: str) -> str | None:
    """Return the host that we listen on; None for `0.0.0.0`, by which foreign pages can reach this computer."""
    if _is_address(host):
        return None if ip_address(host).is_unspecified else _normal_address(host)
    return _read_setting("host", host, lambda text: Authority(parse_host(text), None)).host


def _authority(text: str) -> Authority:
    """Return host and port. Raises `ValueError` for a text that two programs could read differently."""
    parts = re.fullmatch(_AUTHORITY, text) if text.isascii() else None
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
    """Return the parts of an origin. Raises `ValueError` for text that is none."""
    parts = re.fullmatch(_ORIGIN, text.lower())
    if parts is None:
        raise ValueError(f"{text!r} is not an origin")
    scheme, rest = parts.groups()
    if scheme not in DEFAULT_PORTS:
        return WebOrigin(scheme, rest)
    host, port = _authority(rest)
    return WebOrigin(scheme, Authority(host, port or DEFAULT_PORTS[scheme]))


def _read_origin(text: str) -> WebOrigin | None:
    return _parse_origin(text) if len(text) <= _MAX_NAME else None


@lru_cache(maxsize=256)
def _parse_origin(text: str) -> WebOrigin | None:
    try:
        return _origin(text)
    except ValueError:  # such as `null`: a page that hides its origin
        return None


def _read_setting(name: str, text: str, read: Callable[[str], _T]) -> _T:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError(f"gateway.{name}: {error}. Correct it.") from None
