"""The table of addresses: every special range is known, and the public ones are not in it."""

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handspan.net.addresses import is_metadata, special_kind

SPECIAL = {
    "0.0.0.0": "unspecified",
    "0.255.255.255": "unspecified",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "shared",
    "100.127.255.255": "shared",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "169.254.1.1": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "reserved",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4 relay",
    "192.168.0.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "168.63.129.16": "cloud metadata",
    "169.254.169.254": "cloud metadata",
    "169.254.170.2": "cloud metadata",
    "100.100.100.200": "cloud metadata",
    "192.0.0.192": "cloud metadata",
    "::": "unspecified",
    "::1": "loopback",
    "::127.0.0.1": "IPv4-compatible",
    "::ffff:127.0.0.1": "IPv4-mapped",
    "::ffff:8.8.8.8": "IPv4-mapped",
    "::ffff:0:127.0.0.1": "IPv4-translated",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b::808:808": "NAT64",
    "64:ff9b:1::1": "NAT64",
    "100::1": "reserved",
    "2001::1": "reserved",
    "2001:2::1": "reserved",
    "2001:10::1": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "6to4",
    "2002:808:808::1": "6to4",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "fd00:ec2::254": "cloud metadata",
    "fd20:ce::254": "cloud metadata",
    "fe80::a9fe:a9fe%eth0": "cloud metadata",
}


@pytest.mark.parametrize(("address", "kind"), SPECIAL.items())
def test_a_special_address_is_known_by_its_kind(address: str, kind: str) -> None:
    assert special_kind(ip_address(address)) == kind


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0"),
        *("126.255.255.255", "128.0.0.1", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0"),
        *("172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255"),
        *("198.20.0.0", "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111"),
        *("2a00:1450:4001::1", "3ffe::1"),
    ],
)
def test_a_public_address_is_not_special(address: str) -> None:
    assert special_kind(ip_address(address)) is None


@pytest.mark.parametrize(
    "address",
    [
        "::169.254.169.254",
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:a9fe:a9fe::1",
        "::ffff:168.63.129.16",
    ],
)
def test_a_metadata_address_is_known_in_every_wrapping(address: str) -> None:
    assert is_metadata(ip_address(address))


@pytest.mark.parametrize(
    "address", ["2606:4700::a9fe:a9fe", "64:ff9b::8.8.8.8", "2002:808:808::1", "fe80::1", "8.8.8.8"]
)
def test_other_addresses_are_not_taken_for_metadata(address: str) -> None:
    assert not is_metadata(ip_address(address))


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_outside_the_public_ipv6_block_everything_is_special(address: object) -> None:
    parsed = ip_address(str(address))
    assert special_kind(parsed) is not None or int(parsed) >> 125 == 0b001
