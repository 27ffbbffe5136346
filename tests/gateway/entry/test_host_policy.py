"""Host and Origin: a page of somebody else gets nowhere, however it names us (SPEC S5)."""

from typing import Any

import pytest

from handspan.config.gateway_settings import GatewaySettings
from handspan.core.errors import ConfigError
from handspan.gateway.entry.host_policy import HostPolicy, address_of, is_local
from handspan.gateway.http.refusals import Refusal
from tests.gateway.entry.entering import scope, socket_scope


def refusal(policy: HostPolicy, asked: dict[str, Any]) -> str:
    with pytest.raises(Refusal) as refused:
        policy.check(asked)
    assert refused.value.status == 403
    return refused.value.code


@pytest.fixture
def policy() -> HostPolicy:
    return HostPolicy(GatewaySettings())


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            None,
            "",
            "evil.example",
            "evil.example:42617",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.1:42618",
            "127.0.0.1:",
            "127.0.0.1:42617:42617",
            "127.0.0.1:042617x",
            "127.0.0.1:99999",
            "127.1:42617",
            "2130706433:42617",
            "0x7f000001:42617",
            "0177.0.0.1:42617",
            "0.0.0.0:42617",
            "[::]:42617",
            "[::1:42617",
            "::1:42617",
            "[::1%lo]:42617",
            "[::ffff:127.0.0.1]:42617",
            "localhost.evil.example:42617",
            "localhost..:42617",
            "evil.example@127.0.0.1:42617",
            "127.0.0.1:42617/",
            "127.0.0.1:42617, evil.example",
            "http://127.0.0.1:42617",
            "loc alhost:42617",
            "ｌocalhost:42617".encode().decode("latin-1"),
            "127.0.0.2:42617",
            "192.168.1.20:42617",
        ],
    )
    def test_a_host_that_is_not_ours_is_refused(self, policy: HostPolicy, host: str | None) -> None:
        assert refusal(policy, scope(host=host)) == "unknown_host"
        assert refusal(policy, socket_scope(host=host)) == "unknown_host"

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1:42617", "localhost:42617", "LocalHost:42617", "localhost.:42617", "[::1]:42617", "[0:0::1]:42617"],
    )
    def test_names_of_this_computer_with_our_port_pass(self, policy: HostPolicy, host: str) -> None:
        policy.check(scope(host=host))
        policy.check(socket_scope(host=host))

    def test_two_hosts_are_none(self, policy: HostPolicy) -> None:
        asked = scope()
        asked["headers"].append((b"host", b"127.0.0.1:42617"))
        assert refusal(policy, asked) == "unknown_host"

    def test_the_port_of_the_scheme_may_be_left_out(self, policy: HostPolicy) -> None:
        policy.check(scope(host="localhost", server=("127.0.0.1", 80)))
        policy.check(scope(host="localhost", server=("127.0.0.1", 443), scheme="https"))
        assert refusal(policy, scope(host="localhost", server=("127.0.0.1", 80), scheme="https")) == "unknown_host"

    def test_the_address_that_the_connection_came_to_is_ours(self) -> None:
        everywhere = HostPolicy(GatewaySettings(host="0.0.0.0"))
        everywhere.check(scope(host="192.168.1.20:42617", server=("192.168.1.20", 42617)))
        everywhere.check(scope(host="192.168.1.20:42617", server=("::ffff:192.168.1.20", 42617)))
        everywhere.check(scope(host="[2001:db8::7]:42617", server=("2001:db8:0::7", 42617)))
        assert refusal(everywhere, scope(host="0.0.0.0:42617", server=("192.168.1.20", 42617))) == "unknown_host"
        assert refusal(everywhere, scope(host="192.168.1.21:42617", server=("192.168.1.20", 42617))) == "unknown_host"

    def test_the_name_that_it_listens_on_is_ours(self) -> None:
        named = HostPolicy(GatewaySettings(host="My-Laptop.local"))
        named.check(scope(host="my-laptop.local:42617", server=("192.168.1.20", 42617)))
        assert refusal(named, scope(host="my-laptop.local:1", server=("192.168.1.20", 42617))) == "unknown_host"

    def test_hosts_of_the_settings_pass_with_any_port_or_with_theirs(self) -> None:
        policy = HostPolicy(GatewaySettings(hosts=("Gateway.example", "other.example:8443", "[2001:db8::1]")))
        for host in (
            "gateway.example",
            "gateway.example:1234",
            "gateway.example.",
            "other.example:8443",
            "[2001:db8::1]",
        ):
            policy.check(scope(host=host))
        assert refusal(policy, scope(host="other.example")) == "unknown_host"
        assert refusal(policy, scope(host="sub.gateway.example")) == "unknown_host"

    def test_over_a_unix_socket_only_names_of_this_computer_pass(self, policy: HostPolicy) -> None:
        for server in (None, ("/run/handspan.sock", None)):
            policy.check(scope(host="localhost", server=server, client=None))
            assert refusal(policy, scope(host="evil.example", server=server, client=None)) == "unknown_host"

    def test_the_refusal_says_what_to_do(self, policy: HostPolicy) -> None:
        with pytest.raises(Refusal, match=r"not known as 'box:8080': add that to `gateway.hosts`"):
            policy.check(scope(host="box:8080"))
        with pytest.raises(Refusal, match="not known as no host"):
            policy.check(scope(host=None))


class TestOrigin:
    @pytest.mark.parametrize(
        "origin",
        [
            "null",
            "",
            "https://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:3000",
            "http://localhost:42617",
            "http://127.0.0.1:42617/",
            "http://127.0.0.1:42617.evil.example",
            "http://127.0.0.1:42617@evil.example",
            "http://evil.example/127.0.0.1:42617",
            "http://127.0.0.1:42617 http://evil.example",
            "127.0.0.1:42617",
            "file://",
            "ws://127.0.0.1:42617",
            "chrome-extension://127.0.0.1:42617",
        ],
    )
    def test_a_page_of_somebody_else_is_refused(self, policy: HostPolicy, origin: str) -> None:
        assert refusal(policy, scope(origin=origin)) == "unknown_origin"
        assert refusal(policy, socket_scope(origin=origin)) == "unknown_origin"

    def test_our_own_page_passes(self, policy: HostPolicy) -> None:
        for asked in (
            scope(origin="http://127.0.0.1:42617"),
            socket_scope(origin="HTTP://127.0.0.1:42617"),
            scope(host="localhost:42617", origin="http://localhost:42617"),
            scope(host="[::1]:42617", origin="http://[::1]:42617"),
            scope(host="localhost", origin="http://localhost", server=("127.0.0.1", 80)),
        ):
            policy.check(asked)
            assert policy.is_own_origin(asked)
            assert policy.allowed_origin(asked) is None

    def test_a_page_behind_a_proxy_with_tls_is_our_own(self) -> None:
        policy = HostPolicy(GatewaySettings(hosts=("gateway.example",)))
        policy.check(scope(host="gateway.example", origin="https://gateway.example"))
        assert refusal(policy, scope(host="gateway.example", origin="https://gateway.example:8443")) == "unknown_origin"

    def test_with_tls_of_our_own_a_page_without_is_not_ours(self, policy: HostPolicy) -> None:
        policy.check(scope(scheme="https", origin="https://127.0.0.1:42617"))
        assert refusal(policy, scope(scheme="https", origin="http://127.0.0.1:42617")) == "unknown_origin"
        assert refusal(policy, socket_scope(scheme="wss", origin="http://127.0.0.1:42617")) == "unknown_origin"

    def test_https_is_foreign_to_a_gateway_that_is_reached_without_tls_or_proxy(self, policy: HostPolicy) -> None:
        assert refusal(policy, scope(origin="https://127.0.0.1:42617")) == "unknown_origin"

    def test_two_origins_are_none_that_we_know(self, policy: HostPolicy) -> None:
        asked = scope(origin="http://127.0.0.1:42617")
        asked["headers"].append((b"origin", b"http://127.0.0.1:42617"))
        assert refusal(policy, asked) == "unknown_origin"

    def test_guests_are_those_of_the_settings_alone(self) -> None:
        policy = HostPolicy(GatewaySettings(origins=("https://App.example", "chrome-extension://abcdef")))
        for origin in ("https://app.example", "https://app.example:443", "chrome-extension://abcdef"):
            asked = scope(origin=origin)
            policy.check(asked)
            assert policy.allowed_origin(asked) == origin
            assert not policy.is_own_origin(asked)
        for origin in ("http://app.example", "https://app.example:8443", "https://sub.app.example", "null"):
            assert refusal(policy, scope(origin=origin)) == "unknown_origin"

    def test_without_an_origin_nobody_is_a_page(self, policy: HostPolicy) -> None:
        policy.check(scope())
        assert not policy.is_own_origin(scope())
        assert policy.allowed_origin(scope()) is None


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "key"),
        [
            (GatewaySettings(hosts=("a..b",)), "gateway.hosts"),
            (GatewaySettings(hosts=("box:99999",)), "gateway.hosts"),
            (GatewaySettings(origins=("https://a..b",)), "gateway.origins"),
            (GatewaySettings(host="not a host"), "gateway.host"),
        ],
    )
    def test_what_is_no_host_is_named_with_its_key(self, settings: GatewaySettings, key: str) -> None:
        with pytest.raises(ConfigError, match=f"^{key}: "):
            HostPolicy(settings)


class TestAddresses:
    @pytest.mark.parametrize(
        ("client", "counted", "local"),
        [
            (None, "local", True),
            ("127.0.0.1", "127.0.0.1", True),
            ("127.8.8.8", "127.0.0.1", True),
            ("::1", "127.0.0.1", True),
            ("::ffff:127.0.0.1", "127.0.0.1", True),
            ("192.168.1.20", "192.168.1.20", False),
            ("::ffff:192.168.1.20", "192.168.1.20", False),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", False),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::", False),
            ("fe80::1%eth0", "fe80::", False),
            ("testclient", "testclient", False),
        ],
    )
    def test_tries_are_counted_by_address_and_of_ipv6_by_network(
        self, client: str | None, counted: str, local: bool
    ) -> None:
        address = address_of(scope(client=client))
        assert (address, is_local(address)) == (counted, local)
