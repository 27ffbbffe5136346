"""https in the local network: which certificates are made, when, and who trusts them (SPEC S5)."""

import asyncio
import base64
import hashlib
import plistlib
import socket
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from handspan.config.gateway_settings import GatewaySettings
from handspan.core.errors import ConfigError
from handspan.gateway.serving.lan_certificates import LanCertificates, local_names
from handspan.gateway.serving.server import Server
from tests.gateway.small_gateway import SmallGateway
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio


def names_of(certificates: LanCertificates) -> set[str]:
    found = x509.load_pem_x509_certificate(certificates.certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def make(folder: Path, *names: str) -> LanCertificates:
    certificates = LanCertificates(folder, lambda: frozenset(names))
    certificates.renew()
    return certificates


async def handshake(port: int, root: Path, name: str) -> bytes:
    """Connect as a client that trusts the root alone, and return the certificate that the gateway shows."""
    tls = ssl.create_default_context(cafile=str(root))
    _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name), WAIT)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bytes(shown)


def test_the_certificate_has_the_private_names_of_this_computer_and_ends_within_397_days(tmp_path: Path) -> None:
    certificates = make(tmp_path / "tls", "192.168.1.7", "desk.local", "8.8.8.8", "desk.example.com")
    assert names_of(certificates) == {"192.168.1.7", "desk.local", "localhost", "127.0.0.1", "::1"}
    found = x509.load_pem_x509_certificate(certificates.certificate.read_bytes())
    assert found.not_valid_after_utc - found.not_valid_before_utc <= timedelta(days=397)
    assert found.not_valid_before_utc < datetime.now(UTC) < found.not_valid_after_utc
    for file in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


def test_a_certificate_is_made_anew_for_a_new_address_and_the_root_stays(tmp_path: Path) -> None:
    certificates = make(tmp_path, "192.168.1.7")
    root = certificates.root.read_bytes()
    assert not certificates.renew()
    moved = make(tmp_path, "10.0.0.9")
    assert "10.0.0.9" in names_of(moved)
    assert moved.root.read_bytes() == root
    assert not LanCertificates(tmp_path, frozenset).renew(), "an address that is gone is no reason"


def test_a_broken_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    certificates = make(tmp_path)
    (tmp_path / "root.crt").write_text("nonsense")
    with pytest.raises(ConfigError, match="remove the folder"):
        certificates.renew()


def test_the_root_is_a_file_for_android_and_a_profile_for_ios(tmp_path: Path) -> None:
    certificates = make(tmp_path)
    root = x509.load_der_x509_certificate(certificates.root_der())
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    (payload,) = plistlib.loads(certificates.root_profile())["PayloadContent"]
    assert payload["PayloadType"] == "com.apple.security.root"
    assert payload["PayloadContent"] == certificates.root_der()
    assert len(certificates.fingerprint().split(":")) == 32


def test_the_names_of_this_computer_are_found() -> None:
    assert f"{socket.gethostname().partition('.')[0]}.local" in local_names()


async def test_a_client_that_trusts_the_root_connects_and_sees_the_renewed_certificate(tmp_path: Path) -> None:
    certificates = make(tmp_path / "tls", "desk.local")
    settings = GatewaySettings(port=0, tls_cert=certificates.certificate)
    server = Server(SmallGateway(tmp_path / "state", settings), settings)
    await asyncio.wait_for(server.open(), WAIT)
    try:
        assert server.url.startswith("https://127.0.0.1:")
        first = await handshake(server.port, certificates.root, "desk.local")
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(server.port, certificates.root, "10.0.0.9")
        LanCertificates(tmp_path / "tls", lambda: frozenset({"10.0.0.9"})).renew()
        async with asyncio.timeout(WAIT):
            while True:
                try:
                    second = await handshake(server.port, certificates.root, "10.0.0.9")
                except ssl.SSLCertVerificationError:
                    await asyncio.sleep(0.05)
                else:
                    break
        assert second != first
    finally:
        await asyncio.wait_for(server.close(), WAIT)


async def test_the_root_can_not_sign_for_the_internet(tmp_path: Path) -> None:
    certificates = make(tmp_path)
    root = x509.load_pem_x509_certificate(certificates.root.read_bytes())
    constraints = root.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees is not None
    assert {each.value for each in constraints.value.permitted_subtrees if isinstance(each, x509.DNSName)} == {
        "local",
        "localhost",
    }


@pytest.mark.parametrize("name", ["192.168.1.7", "fd00::2", "pc.local", "localhost"])
def test_the_root_signs_for_a_private_network(name: str) -> None:
    assert LanCertificates.may_sign(name)


@pytest.mark.parametrize("name", ["192.0.2.2", "2001:db8::1", "pc.example.com", ""])
def test_the_root_signs_for_no_other_network(name: str) -> None:
    assert not LanCertificates.may_sign(name)


def test_a_pin_names_the_root_for_addresses_that_it_serves(tmp_path: Path) -> None:
    certificates = make(tmp_path)
    pin = certificates.pin_for("https://192.168.1.7:42617/prefix")
    assert pin is not None
    assert base64.urlsafe_b64decode(pin + "=") == hashlib.sha256(certificates.root_der()).digest()
    assert certificates.pin_for("http://192.168.1.7:42617") is None, "there is no certificate"
    assert certificates.pin_for("https://gateway.example.org") is None, "that of a proxy or a tunnel is another one"
