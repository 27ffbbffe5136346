"""Which hosts may be requested: private addresses are refused here, against SSRF (SPEC S2).

The rules are the settings `tools.url_policy`.

An entry of `allowed_domains` is a host, `host:port` or an address, and exempts that host from all other rules; a
network such as `10.0.0.0/8` exempts the addresses in it. An entry of `blocked_domains` also blocks the domains below
it. `enabled = false` switches the rules off, but not the strict parse of URLs.
"""

import re
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_network
from typing import Final, TypeVar

from handspan.config.tool_settings import UrlPolicy
from handspan.core.errors import ConfigError, ToolError
from handspan.net.addresses import METADATA_NAMES, PRIVATE_KINDS, is_metadata, special_kind
from handspan.net.urls import IpAddress, address_of, parse_host, parse_port

__all__ = ["HostList", "UrlPolicy", "UrlRules"]

ALLOWED_SETTING: Final = "tools.url_policy.allowed_domains"
BLOCKED_SETTING: Final = "tools.url_policy.blocked_domains"
_ENTRY: Final = r"(?P<host>\[[^\[\]]*\]|[^\[\]:/@%\\]+)(?::(?P<port>[0-9]{1,5}))?"


class HostList:
    """A list of hosts of the settings: `host`, `host:port`, an address or a network."""

    def __init__(self, entries: tuple[str, ...], setting: str) -> None:
        self.setting = setting
        self._networks = tuple(
            _parse(partial(ip_network, strict=False), entry, setting) for entry in entries if "/" in entry
        )
        self._hosts = frozenset(_parse(_parse_entry, entry, setting) for entry in entries if "/" not in entry)

    def names(self, host: str, port: int) -> bool:
        """Whether an entry is exactly this host, for any port or for this one."""
        return (host, None) in self._hosts or (host, port) in self._hosts

    def names_parent_of(self, host: str, port: int) -> bool:
        """Whether an entry is this host or a domain above it."""
        labels = host.split(".")
        return any(self.names(".".join(labels[start:]), port) for start in range(len(labels)))

    def covers(self, address: IpAddress) -> bool:
        """Whether a network of the list contains this address."""
        return any(address in network for network in self._networks)


class UrlRules:
    """Checks every connection: first the host name, then each of its addresses."""

    def __init__(self, policy: UrlPolicy, only: HostList | None = None) -> None:
        self._policy = policy
        self._only = only
        self._allowed = HostList(policy.allowed_domains, ALLOWED_SETTING)
        self._blocked = HostList(tuple(entry.removeprefix("*.") for entry in policy.blocked_domains), BLOCKED_SETTING)

    def check_host(self, host: str, port: int) -> None:
        """Raise `ToolError` (`policy_denied`) for a host that may not be looked up."""
        address = address_of(host)
        if self._only is not None and not self._only.names(host, port) and not (address and self._only.covers(address)):
            raise _denial(f"host {host!r} is not in the list of this tool", f"adding {host!r} to {self._only.setting}")
        if not self._policy.enabled or self._allowed.names(host, port):
            return
        if self._blocked.names_parent_of(host, port) or (address and self._blocked.covers(address)):
            raise _denial(f"blocked domain: {host!r}", f"taking it out of {BLOCKED_SETTING}")
        if host in METADATA_NAMES:
            raise _metadata_denied(host)

    def check_address(self, host: str, port: int, address: IpAddress) -> None:
        """Raise `ToolError` (`policy_denied`) for an address, such as a private one, that this host may not have."""
        if not self._policy.enabled:
            return
        is_allowed = self._allowed.names(host, port)
        if is_metadata(address):
            # That a name is allowed does not allow a metadata address which DNS returns for it.
            if is_allowed and (host in METADATA_NAMES or address_of(host) == address):
                return
            raise _metadata_denied(host)
        if is_allowed or self._allowed.covers(address):
            return
        if self._blocked.covers(address):
            raise _denial(f"blocked address {address} for host {host!r}", f"taking it out of {BLOCKED_SETTING}")
        kind = special_kind(address)
        if kind is None or (self._policy.allow_private and kind in PRIVATE_KINDS):
            return
        entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise _denial(
            f"blocked private IP {address} for host {host!r} ({kind}; only public addresses may be requested)",
            f"adding {entry!r} to {ALLOWED_SETTING}",
        )


def _denial(what: str, remedy: str) -> ToolError:
    return ToolError("policy_denied", f"Not requested: {what}. The operator of this gateway can allow it by {remedy}.")


def _metadata_denied(host: str) -> ToolError:
    return _denial(f"blocked cloud metadata endpoint: {host!r}", f"naming the endpoint itself in {ALLOWED_SETTING}")


_Entry = TypeVar("_Entry")


def _parse(parse: Callable[[str], _Entry], entry: str, setting: str) -> _Entry:
    try:
        return parse(entry)
    except ValueError as error:
        raise ConfigError(
            f"{setting}: {entry!r} is not an entry ({error}). "
            "Write a host, 'host:port', an address or a network such as '10.0.0.0/8'; no scheme, no path."
        ) from error


def _parse_entry(entry: str) -> tuple[str, int | None]:
    if entry.count(":") > 1 and not entry.startswith("["):
        return str(IPv6Address(entry)), None
    parts = re.fullmatch(_ENTRY, entry)
    if parts is None:
        raise ValueError("it is not a host with an optional port")
    return parse_host(parts["host"]), parse_port(parts["port"]) if parts["port"] else None
