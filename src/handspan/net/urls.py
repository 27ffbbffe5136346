"""One strict parse of a URL: the URL that is checked is the URL that is requested (SPEC S2)."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.late_imports import idna

IpAddress: TypeAlias = IPv4Address | IPv6Address

MAX_URL_LENGTH: Final = 16_384
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

# Patterns as text: `re` compiles them at their first use and caches them. Most starts of the program need none.
_FORBIDDEN: Final = r"[\x00-\x20\x7f-\x9f\s\\\ud800-\udfff]"
_FORBIDDEN_ASCII: Final = r"[\x00-\x20\x7f\\]"
_URL: Final = (
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?:#.*)?"
)
_AUTHORITY: Final = r"(?P<host>\[[^\[\]]*\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?"
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NUMERIC_LABEL: Final = r"[0-9]+|0x[0-9a-f]*"
_SCHEME_FIRST: Final = r"[A-Za-z][A-Za-z0-9+.-]*:"


class Url(Struct, frozen=True):
    """A URL in one canonical form: host in lower-case ASCII without brackets, explicit port, no user, no fragment."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    """With its question mark, or empty."""

    @property
    def origin(self) -> str:
        """Scheme, host and port. Secrets may be sent within one origin only."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return f"{self.origin}{self.path}{self.query}"


def parse_url(text: str) -> Url:
    """Return the canonical URL. Raises `ToolError` (`invalid_arguments`) if parsers could read it in two ways."""
    try:
        return _parse(text)
    except ValueError as error:
        shown = text if len(text) <= 200 else text[:200] + "…"
        problem = f"Not a usable URL: {shown!r}: {error}. Give an absolute URL such as 'https://example.com/page'."
        raise ToolError("invalid_arguments", problem) from error


def resolve_location(base: Url, location: str) -> Url:
    """Return the URL that a redirect leads to. Raises `ToolError` if the strict parse refuses it."""
    # Browsers encode a space in a Location. In the host it becomes a percent sign, which is refused.
    location = location.strip(" \t").replace(" ", "%20")
    if re.match(_SCHEME_FIRST, location):
        return parse_url(location)
    if location.startswith("//"):
        return parse_url(f"{base.scheme}:{location}")
    if location.startswith("/"):
        return parse_url(base.origin + location)
    if location.startswith("?"):
        return parse_url(base.origin + base.path + location)
    if not location or location.startswith("#"):
        return base
    return parse_url(base.origin + base.path.rpartition("/")[0] + "/" + location)


def parse_host(text: str) -> str:
    """Return the host in canonical form: an address, or a name in lower-case ASCII. Raises `ValueError`."""
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    # Convert to ASCII first: then the rules check the name that is really requested.
    name = (text if text.isascii() else _to_ascii(text)).lower().removesuffix(".")
    labels = name.split(".")
    if re.fullmatch(_NUMERIC_LABEL, labels[-1]):
        return _parse_ipv4(name)
    if len(name) > 253 or not all(re.fullmatch(_LABEL, label) for label in labels):
        raise ValueError(f"{text!r} is not a host name")
    return name


def address_of(host: str) -> IpAddress | None:
    """Return the address that a canonical host is, or None for a name."""
    if ":" in host:
        return IPv6Address(host)
    return IPv4Address(host) if host.rpartition(".")[2].isdigit() else None


def _parse(text: str) -> Url:
    """Return the parts of this URL. Raises `ValueError` for everything that two programs could read in two ways."""
    if len(text) > MAX_URL_LENGTH:
        raise ValueError(f"it is longer than {MAX_URL_LENGTH} characters")
    if found := re.search(_FORBIDDEN_ASCII if text.isascii() else _FORBIDDEN, text):
        raise ValueError(
            f"the character {found[0]!r} must not stand in a URL; percent-encode it where it belongs to a path or query"
        )
    parts = re.fullmatch(_URL, text)
    if parts is None or (scheme := parts["scheme"].lower()) not in DEFAULT_PORTS:
        raise ValueError("url must start with http:// or https://")
    host, port = _parse_authority(parts["authority"], scheme)
    return Url(scheme, host, port, parts["path"] or "/", query=parts["query"] or "")


def _parse_authority(authority: str, scheme: str) -> tuple[str, int]:
    """Return host and port. Raises `ValueError`."""
    if "@" in authority:
        raise ValueError("it holds a user name or password; send an Authorization header instead")
    if "%" in authority:
        raise ValueError("its host holds a percent sign")
    parts = re.fullmatch(_AUTHORITY, authority)
    if parts is None:
        raise ValueError(f"{authority!r} is not a host with an optional port")
    return parse_host(parts["host"]), parse_port(parts["port"]) if parts["port"] else DEFAULT_PORTS[scheme]


def parse_port(text: str) -> int:
    """Return a valid port. Raises `ValueError`."""
    port = int(text)
    if not 0 < port < 65_536:
        raise ValueError(f"there is no port {port}")
    return port


def _parse_ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} looks like a number but is not four decimal numbers with dots") from None


def _parse_ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError("an address with a zone can't be requested")
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv6 address") from None


def _to_ascii(name: str) -> str:
    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"{name!r} is not an international host name ({error})") from error
