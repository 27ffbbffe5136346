"""The operator's rules: names first, then every address behind them."""

from ipaddress import ip_address

import pytest

from handspan.core.errors import ConfigError, ToolError
from handspan.net.policy import HostList, UrlPolicy, UrlRules


def refusal(rules: UrlRules, host: str, address: str, port: int = 80) -> str | None:
    """The message that refuses this host at this address, or None."""
    try:
        rules.check_host(host, port)
        rules.check_address(host, port, ip_address(address))
    except ToolError as error:
        assert error.code == "policy_denied"
        return error.message
    return None


def test_a_private_address_is_refused_with_the_setting_that_would_allow_it() -> None:
    message = refusal(UrlRules(UrlPolicy()), "nas.example", "192.168.1.5", 8080)
    assert message is not None
    assert "192.168.1.5" in message
    assert "'nas.example:8080'" in message
    assert "tools.url_policy.allowed_domains" in message
    assert "'[::1]:80'" in (refusal(UrlRules(UrlPolicy()), "::1", "::1") or "")


def test_a_public_address_passes() -> None:
    assert refusal(UrlRules(UrlPolicy()), "example.com", "93.184.216.34") is None
    assert refusal(UrlRules(UrlPolicy()), "93.184.216.34", "93.184.216.34") is None
    assert refusal(UrlRules(UrlPolicy()), "example.com", "2606:4700::1111") is None


@pytest.mark.parametrize(
    ("entry", "host", "port", "passes"),
    [
        ("nas.example", "nas.example", 80, True),
        ("NAS.example.", "nas.example", 80, True),
        ("nas.example:8080", "nas.example", 8080, True),
        ("nas.example:8080", "nas.example", 80, False),
        ("nas.example", "sub.nas.example", 80, False),
        ("nas.example", "nas.example.evil.test", 80, False),
        ("nas.example", "evilnas.example", 80, False),
        ("10.0.0.7", "10.0.0.7", 80, True),
        ("10.0.0.7:80", "10.0.0.7", 80, True),
        ("10.0.0.7", "rebound.example", 80, False),
        ("10.0.0.0/8", "anything.example", 80, True),
        ("10.0.0.7/32", "anything.example", 80, True),
        ("10.1.0.0/16", "anything.example", 80, False),
        ("bücher.example", "xn--bcher-kva.example", 80, True),
    ],
)
def test_an_entry_lets_a_private_address_through_for_what_it_names_only(
    entry: str, host: str, port: int, passes: bool
) -> None:
    rules = UrlRules(UrlPolicy(allowed_domains=(entry,)))
    assert (refusal(rules, host, "10.0.0.7", port) is None) is passes


@pytest.mark.parametrize(("entry", "port"), [("::1", 80), ("[::1]", 80), ("[::1]:80", 80), ("0::1", 80), ("::/64", 80)])
def test_an_ipv6_entry_may_be_written_with_and_without_brackets(entry: str, port: int) -> None:
    assert refusal(UrlRules(UrlPolicy(allowed_domains=(entry,))), "::1", "::1", port) is None
    assert refusal(UrlRules(UrlPolicy(allowed_domains=("[::1]:81",))), "::1", "::1", port) is not None


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "127.0.0.1", "::1", "169.254.1.1", "fd12::1", "100.64.0.1", "198.18.0.1"]
)
def test_allow_private_opens_the_ranges_of_ones_own_network(address: str) -> None:
    assert refusal(UrlRules(UrlPolicy()), "nas.example", address) is not None
    assert refusal(UrlRules(UrlPolicy(allow_private=True)), "nas.example", address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254"),
        *("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "224.0.0.1", "0.0.0.0", "::", "255.255.255.255", "ff02::1"),
    ],
)
def test_allow_private_opens_neither_metadata_nor_what_is_no_network(address: str) -> None:
    assert refusal(UrlRules(UrlPolicy(allow_private=True)), "nas.example", address) is not None


def test_metadata_is_open_only_when_the_endpoint_itself_is_named() -> None:
    metadata = "169.254.169.254"
    for entries in ((), ("trusted.example",), ("169.254.0.0/16",), ("metadata.google.internal:81",)):
        rules = UrlRules(UrlPolicy(allow_private=True, allowed_domains=entries))
        assert "metadata" in (refusal(rules, "trusted.example", metadata) or "")
        assert "metadata" in (refusal(rules, metadata, metadata) or "")
        assert "metadata" in (refusal(rules, "metadata.google.internal", metadata) or "")
        assert "metadata" in (refusal(rules, "metadata.google.internal", "93.184.216.34") or "")
    rules = UrlRules(UrlPolicy(allowed_domains=(metadata, "metadata.google.internal")))
    assert refusal(rules, metadata, metadata) is None
    assert refusal(rules, "metadata.google.internal", metadata) is None


def test_a_blocked_domain_is_refused_with_everything_below_it() -> None:
    rules = UrlRules(
        UrlPolicy(blocked_domains=("bad.example", "*.worse.example", "5.5.5.0/24"), allowed_domains=("ok.bad.example",))
    )
    for host in ("bad.example", "www.bad.example", "worse.example", "a.b.worse.example"):
        assert "blocked_domains" in (refusal(rules, host, "93.184.216.34") or "")
    assert "blocked_domains" in (refusal(rules, "5.5.5.5", "5.5.5.5") or "")
    assert "blocked_domains" in (refusal(rules, "fine.example", "5.5.5.5") or "")
    assert refusal(rules, "notbad.example", "93.184.216.34") is None
    assert refusal(rules, "ok.bad.example", "93.184.216.34") is None


def test_a_disabled_policy_judges_nothing() -> None:
    rules = UrlRules(UrlPolicy(enabled=False, blocked_domains=("bad.example",)))
    for host, address in (("bad.example", "127.0.0.1"), ("169.254.169.254", "169.254.169.254"), ("::1", "::1")):
        assert refusal(rules, host, address) is None


def test_a_list_of_only_hosts_refuses_the_rest_even_where_the_policy_is_off() -> None:
    only = HostList(("api.example", "10.0.0.0/8", "old.example:8080"), "tools.x.hosts")
    rules = UrlRules(UrlPolicy(enabled=False), only)
    assert "tools.x.hosts" in (refusal(rules, "other.example", "93.184.216.34") or "")
    assert "tools.x.hosts" in (refusal(rules, "old.example", "93.184.216.34") or "")
    assert "tools.x.hosts" in (refusal(rules, "11.0.0.1", "11.0.0.1") or "")
    assert refusal(rules, "api.example", "93.184.216.34") is None
    assert refusal(rules, "10.0.0.1", "10.0.0.1") is None
    assert refusal(rules, "old.example", "93.184.216.34", 8080) is None


def test_a_list_of_only_hosts_opens_nothing_that_the_policy_shuts() -> None:
    rules = UrlRules(UrlPolicy(), HostList(("nas.example",), "tools.x.hosts"))
    assert "allowed_domains" in (refusal(rules, "nas.example", "10.0.0.1") or "")


@pytest.mark.parametrize(
    "entry",
    [
        "http://nas.example",
        "nas.example/",
        "*.example",
        "10.0.0.0/99",
        "2130706433",
        "a b",
        "host:0",
        "host:x",
        "1::2::3",
        "",
    ],
)
def test_an_entry_that_can_not_be_meant_stops_the_start_and_is_named(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.url_policy\.allowed_domains") as raised:
        UrlRules(UrlPolicy(allowed_domains=(entry,)))
    assert repr(entry) in str(raised.value)
