"""Certificates: checked against the name, whatever address was dialled."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from handspan.core.errors import ToolError
from handspan.net.exchange import OutgoingRequest
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from tests.net.site import Site, response

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.outside,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl binary to make a certificate"),
]

POLICY = UrlPolicy(allowed_domains=("site.test", "other.test", "127.0.0.1"))


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class Certificate:
    """A certificate for `site.test` that signs itself."""

    def __init__(self, folder: Path) -> None:
        self.file, key = folder / "cert.pem", folder / "key.pem"
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        names = ["-subj", "/CN=site.test", "-addext", "subjectAltName=DNS:site.test"]
        subprocess.run(
            ["openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(self.file)],
            check=True,
            capture_output=True,
            timeout=30,
        )
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.file, key)
        self.names: list[str | None] = []
        self.server.sni_callback = lambda _, name, __: self.names.append(name)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


async def refusal(guard: NetGuard, url: str) -> str:
    with pytest.raises(ToolError) as raised:
        await guard.fetch(OutgoingRequest(url))
    assert raised.value.code == "network_error"
    return raised.value.message


async def test_a_certificate_without_a_trusted_issuer_is_refused(certificate: Certificate) -> None:
    async with Site({"/": response(b"secret")}, tls=certificate.server) as site:
        message = await refusal(NetGuard(POLICY, resolve=at_home), site.url(host="site.test"))
        assert "TLS" in message
        assert "self-signed" in message
        assert site.seen == []


async def test_the_environment_can_not_vouch_for_a_certificate(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    async with Site({"/": response(b"secret")}, tls=certificate.server) as site:
        assert "TLS" in await refusal(NetGuard(POLICY, resolve=at_home), site.url(host="site.test"))


async def test_a_certificate_of_another_name_is_refused(certificate: Certificate) -> None:
    guard = NetGuard(POLICY, resolve=at_home, tls=ssl.create_default_context(cafile=certificate.file))
    async with Site({"/": response(b"secret")}, tls=certificate.server) as site:
        assert "TLS" in await refusal(guard, site.url(host="other.test"))
        assert "TLS" in await refusal(guard, site.url(host="127.0.0.1"))
        assert site.seen == []


async def test_the_name_is_checked_and_sent_though_the_address_is_dialled(certificate: Certificate) -> None:
    guard = NetGuard(POLICY, resolve=at_home, tls=ssl.create_default_context(cafile=certificate.file))
    async with Site({"/": response(b"hello")}, tls=certificate.server) as site:
        fetched = await guard.fetch(OutgoingRequest(site.url(host="site.test")))
        assert fetched.body == b"hello"
        assert certificate.names == ["site.test"]
        assert site.seen[0].headers["host"] == f"site.test:{site.port}"


async def test_a_server_that_speaks_no_tls_is_told(tmp_path: Path) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert "TLS" in await refusal(NetGuard(POLICY), f"https://127.0.0.1:{port}/")
