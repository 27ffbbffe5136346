"""The settings of the gateway: what is wrong is said with its key; the limits are those of the contract (ws.md 8.1)."""

from pathlib import Path

import msgspec
import pytest

from handspan.config.gateway_settings import GatewaySettings, RemoteLimits
from handspan.config.load import load_settings
from handspan.core.errors import ConfigError
from handspan.wire.ws_frames import WireLimits


def load(tmp_path: Path, content: str, **variables: str) -> GatewaySettings:
    file = tmp_path / "config.toml"
    file.write_text(content)
    return load_settings(file, {"HOME": str(tmp_path), **variables}).gateway


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("port = 65536", "gateway.port: must be a port from 1 to 65535, or 0 for any that is free, not 65536."),
        ("port = -1", "gateway.port: must be a port"),
        ("host = ' '", "gateway.host: must be a text that is not empty"),
        ("path_prefix = 'hs'", "gateway.path_prefix: must be a path such as '/handspan'"),
        ("path_prefix = '/hs/'", "gateway.path_prefix: must be a path such as '/handspan'"),
        ("path_prefix = '/a//b'", "gateway.path_prefix: must be a path"),
        ("path_prefix = '/../a'", "gateway.path_prefix: must be a path"),
        ("hosts = ['http://box']", "gateway.hosts[0]: must be a host as browsers send it"),
        ("hosts = ['box', '*']", "gateway.hosts[1]: must be a host"),
        ("hosts = ['box:']", "gateway.hosts[0]: must be a host"),
        ("hosts = ['::1']", "gateway.hosts[0]: must be a host"),
        ("origins = ['*']", "gateway.origins[0]: must be an origin such as 'https://app.example.com'"),
        ("origins = ['null']", "gateway.origins[0]: must be an origin"),
        ("origins = ['https://app.example/']", "gateway.origins[0]: must be an origin"),
        ("origins = ['https://*.example']", "gateway.origins[0]: must be an origin"),
        ("tls_key = 'key.pem'", "gateway.tls_key: it needs its certificate, gateway.tls_cert."),
        ("resume_grace = 0", "gateway.resume_grace: must be a number of seconds above 0"),
        ("request_bytes = 10", "gateway.request_bytes: must be a whole number of bytes, 1024 or more"),
        ("limits.tools = 0", "gateway.limits.tools: must be a whole number of 1 or more"),
        ("limits.tool = 1", "gateway.limits.tool: unknown key. Did you mean 'tools'?"),
        ("remote.deny = ['']", "gateway.remote.deny[0]: must be a text that is not empty"),
    ],
)
def test_what_is_wrong_names_its_key_and_what_is_wanted(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"[gateway]\n{content}\n")
    (line,) = str(refused.value).splitlines()[1:]
    assert problem in line


def test_the_gateway_listens_to_this_computer_alone_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    gateway = load(tmp_path, "")
    assert (gateway.host, gateway.port, gateway.hosts, gateway.origins) == ("127.0.0.1", 42617, (), ())
    assert gateway.tls_cert is None and gateway.path_prefix == ""


def test_the_limits_are_those_of_the_contract_by_name_and_by_default() -> None:
    assert msgspec.to_builtins(RemoteLimits()) == msgspec.to_builtins(WireLimits())


def test_everything_can_be_set(tmp_path: Path) -> None:
    gateway = load(
        tmp_path,
        """
        [gateway]
        host = "0.0.0.0"
        pathPrefix = "/tools/handspan"
        tls_cert = "cert.pem"
        tls_key = "~/key.pem"
        hosts = ["box.local", "box:8443", "[2001:db8::1]:443"]
        origins = ["https://app.example", "http://localhost:3000", "chrome-extension://abc"]
        remote = { allow = ["camera"], deny = ["shell_*"], deny_permissions = ["android.permission.*"] }
        limits.message_bytes = 4096
        """,
        HANDSPAN_GATEWAY__PORT="0",
    )
    assert (gateway.port, gateway.path_prefix) == (0, "/tools/handspan")
    assert (gateway.tls_cert, gateway.tls_key) == (tmp_path / "cert.pem", tmp_path / "key.pem")
    assert gateway.hosts[2] == "[2001:db8::1]:443" and gateway.origins[1] == "http://localhost:3000"
    assert gateway.remote.allow == ("camera",) and gateway.remote.deny_permissions == ("android.permission.*",)
    assert gateway.limits.message_bytes == 4096 and gateway.limits.tools == 256
