"""Our own table of addresses that are not on the public Internet.

`ipaddress.is_global` is no help: on Python 3.11.7 it is True for multicast, NAT64, 6to4 and site-local addresses, and
for 168.63.129.16, which belongs to a cloud.
"""

from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from handspan.net.urls import IpAddress

PRIVATE_KINDS: Final = frozenset({"loopback", "private", "link-local", "shared", "benchmarking"})
"""The kinds that `allow_private` allows. The others lead nowhere and stay refused."""

# The first network that has an address counts: `::1` is in `::/96`, too. An IPv6 address outside this table and outside
# 2000::/3 is "reserved": only known public ranges are open.
_KINDS: Final = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "shared": ("100.64.0.0/10",),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "benchmarking": ("198.18.0.0/15",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "6to4 relay": ("192.88.99.0/24",),
    "6to4": ("2002::/16",),
    "NAT64": ("64:ff9b::/96", "64:ff9b:1::/48"),
    "IPv4-compatible": ("::/96",),
    "IPv4-mapped": ("::ffff:0:0/96",),
    "IPv4-translated": ("::ffff:0:0:0/96",),
    "reserved": ("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "240.0.0.0/4", "2001::/23"),
}

_METADATA_ADDRESSES: Final = (
    *("100.100.100.200", "168.63.129.16", "169.254.0.23", "169.254.42.42", "169.254.169.254"),
    *("169.254.170.2", "169.254.170.23", "192.0.0.192"),
    *("fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:ec2::23", "fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe"),
)
METADATA_NAMES: Final = frozenset(
    (
        *("instance-data", "instance-data.ec2.internal", "metadata", "metadata.azure.com", "metadata.azure.internal"),
        *("metadata.goog", "metadata.google.internal", "metadata.internal", "metadata.packet.net"),
        *("metadata.platformequinix.com", "metadata.tencentyun.com", "rancher-metadata"),
    )
)


class _AddressTables:
    """The tables above as networks. They are made when the first address is checked."""

    def __init__(self) -> None:
        rows = [(ip_network(network), kind) for kind, networks in _KINDS.items() for network in networks]
        self.by_version = {version: [row for row in rows if row[0].version == version] for version in (4, 6)}
        self.ipv6_public = IPv6Network("2000::/3")
        self.metadata = frozenset(map(ip_address, _METADATA_ADDRESSES))
        self.nat64_local = IPv6Network("64:ff9b:1::/48")
        self.lowest_bits = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
        """Networks whose addresses have an IPv4 address in their lowest 32 bits."""


_tables: Final = cache(_AddressTables)


def special_kind(address: IpAddress) -> str | None:
    """Return the word for an address that is not on the public Internet; None for a public one."""
    if is_metadata(address):
        return "cloud metadata"
    kind = next((kind for network, kind in _tables().by_version[address.version] if address in network), None)
    return kind if kind or address.version == 4 or address in _tables().ipv6_public else "reserved"


def is_metadata(address: IpAddress) -> bool:
    """Whether a cloud serves credentials at this address, also if IPv6 embeds it."""
    metadata = _tables().metadata
    if isinstance(address, IPv6Address):
        # The plain number: an address with a zone is still the same address.
        return IPv6Address(int(address)) in metadata or not metadata.isdisjoint(_embedded_addresses(address))
    return address in metadata


def _embedded_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that a router could read out of this one."""
    number = int(address)
    lowest = IPv4Address(number & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address in _tables().nat64_local:  # RFC 6052: after a /48 prefix, a zero byte splits the IPv4 address
        return (lowest, IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF))
    return (lowest,) if any(address in network for network in _tables().lowest_bits) else ()
