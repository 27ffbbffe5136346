"""How a node shows NATS who it is, and the other way round: TLS, and nkeys in place of a password (SPEC S5)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from handspan.bus.link import LinkOptions, NatsLink
from handspan.core.errors import ConfigError
from tests.bus.rows import NodeRows
from tests.nats_engine import NatsEngine, need_server

pytestmark = pytest.mark.anyio


def link(**options: object) -> NatsLink:
    """A link that answers nothing."""
    given = LinkOptions(**options)  # type: ignore[arg-type] # names of a test
    return NatsLink(given, lambda kind, body: None, NodeRows().senders())


def make_certificate(certificate: Path, key: Path) -> None:
    """A certificate of this computer alone."""
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl: apt-get install openssl")
async def test_the_servers_are_checked_with_the_given_certificates(tmp_path: Path) -> None:
    need_server()
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    make_certificate(certificate, key)
    with NatsEngine("--tls", "--tlscert", str(certificate), "--tlskey", str(key)) as server:
        servers = (server.url.replace("nats://", "tls://"),)
        stranger = link(servers=servers)
        with pytest.raises(ConfigError, match="no connection to NATS"):
            await stranger.open(b"k" * 32, "n")
        known = link(servers=servers, tls_ca=certificate)
        await known.open(b"k" * 32, "n")
        assert known.is_up
        await known.flush()
        await known.close()
    with pytest.raises(ConfigError, match=r"cluster\.tls_ca"):
        await link(servers=servers, tls_ca=tmp_path / "nothing").open(b"k" * 32, "n")


async def test_a_node_with_its_nkey_is_let_in_and_one_without_is_not(tmp_path: Path) -> None:
    need_server()
    nkeys = pytest.importorskip("nkeys")
    from nacl.signing import SigningKey  # noqa: PLC0415 - it comes with nkeys

    seed = nkeys.encode_seed(bytes(SigningKey.generate()), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    (tmp_path / "node.nk").write_bytes(bytes(seed))
    config = tmp_path / "nats.conf"
    config.write_text(f"authorization: {{ users: [ {{ nkey: {public} }} ] }}\n")
    with NatsEngine("-c", str(config)) as server:
        with pytest.raises(ConfigError, match="credentials"):
            await link(servers=(server.url,)).open(b"k" * 32, "n")
        node = link(servers=(server.url,), nkey=tmp_path / "node.nk")
        await node.open(b"k" * 32, "n")
        assert node.is_up
        await node.close()
