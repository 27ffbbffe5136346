"""https for phones in the local network: a root of our own, and from it a certificate for this computer (SPEC S5, U1).

A browser gives camera, location and motion only to pages over https. A person loads the root into the phone once; the
certificate that it signs may then change with the computer's addresses. The root can sign for private addresses and
`.local` names alone: a thief of its key can't pretend to be a site of the internet.
"""

import base64
import plistlib
import socket
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from handspan.config.private_files import make_private, replace_private
from handspan.core.errors import ConfigError
from handspan.gateway.serving.listening import CERTIFICATE_FILE, ROOT_FILE, find_address

_ROOT_KEY: Final = "root.key"
_ROOT_DAYS: Final = 3650
_DAYS: Final = 397
"""Browsers refuse certificates that are valid for longer."""
_DAYS_LEFT: Final = 30
"""A certificate with fewer days left is made anew."""
_EARLIER: Final = timedelta(days=1)
"""Certificates are valid from a day ago: the phone's clock may be behind ours."""
_NETWORKS: Final[tuple[IPv4Network | IPv6Network, ...]] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
"""The networks that the root may sign for. 100.64.0.0/10 is what private overlay networks use."""
_ALWAYS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names that every certificate has."""


class LanCertificates:
    """The root and the certificate of one gateway, in a folder that only its user can read."""

    def __init__(self, folder: Path, names: Callable[[], frozenset[str]] | None = None) -> None:
        self._folder = folder
        self._names = names or local_names
        self.root = folder / ROOT_FILE
        """The root's certificate (PEM), which a phone has to trust."""
        self.certificate = folder / CERTIFICATE_FILE
        """The gateway's certificate with its chain and its key (PEM)."""

    def renew(self) -> bool:
        """Make what is missing, ends soon or lacks a name of this computer. Return whether anything was made.

        Raises `ConfigError` when a file can't be read or written.
        """
        wanted = frozenset(name for name in self._names() | _ALWAYS if self.may_sign(name))
        try:
            make_private(self._folder)
            is_new = self._renew_root()
            if not is_new and _is_good(self._read(self.certificate), wanted):
                return False
            self._sign(wanted)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The certificates in {str(self._folder)!r} can't be used: {error}. Correct that, or remove the folder:"
                " a new root is made, and phones have to load it again."
            ) from None
        return True

    def fingerprint(self) -> str:
        """Return the root's SHA-256 in the form that phones show."""
        return self._root().fingerprint(SHA256()).hex(":").upper()

    def pin_for(self, url: str) -> str | None:
        """Return the root's SHA-256 as a pairing link has it; None where another certificate serves this address."""
        address = urlsplit(url)
        if address.scheme != "https" or not self.may_sign(address.hostname or ""):
            return None
        return base64.urlsafe_b64encode(self._root().fingerprint(SHA256())).rstrip(b"=").decode()

    def root_der(self) -> bytes:
        """Return the root as Android and desktop browsers load it."""
        return self._root().public_bytes(Encoding.DER)

    def root_profile(self) -> bytes:
        """Return the root as iOS loads it: a configuration profile."""
        name = self._root().subject.rfc4514_string().removeprefix("CN=")
        ident = str(uuid.uuid5(uuid.NAMESPACE_OID, self.fingerprint()))
        root = {
            "PayloadType": "com.apple.security.root",
            "PayloadVersion": 1,
            "PayloadIdentifier": f"dev.handspan.root.{ident}",
            "PayloadUUID": ident,
            "PayloadDisplayName": name,
            "PayloadContent": self.root_der(),
        }
        profile = {
            "PayloadType": "Configuration",
            "PayloadVersion": 1,
            "PayloadIdentifier": f"dev.handspan.profile.{ident}",
            "PayloadUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, ident)),
            "PayloadDisplayName": name,
            "PayloadDescription": "Lets this phone use the Handspan gateway of your own network over https.",
            "PayloadContent": [root],
        }
        return plistlib.dumps(profile)

    def _root(self) -> x509.Certificate:
        found = self._read(self.root)
        if found is None:
            raise ConfigError(f"There is no root in {str(self._folder)!r}: start the gateway with --tls.")
        return found

    def _renew_root(self) -> bool:
        """Make the root if there is none or it ends soon. Return whether it was made."""
        found = self._read(self.root)
        if found is not None and (self._folder / _ROOT_KEY).exists() and _days_left(found) > _DAYS:
            return False
        key = generate_private_key(SECP256R1())
        replace_private(self._folder / _ROOT_KEY, _pem_of_key(key))
        replace_private(self.root, _pem(_make_root(key)))
        return True

    def _sign(self, names: frozenset[str]) -> None:
        """Make a certificate for these names, signed by the root, and write it with its chain and its key."""
        root, root_key, key = self._root(), _read_key(self._folder / _ROOT_KEY), generate_private_key(SECP256R1())
        signed = _make_certificate(key, names, root, root_key)
        replace_private(self.certificate, _pem(signed) + _pem(root) + _pem_of_key(key))

    @staticmethod
    def may_sign(name: str) -> bool:
        """Whether the root may sign for this address or name: only for those of private networks."""
        address = find_address(name)
        if address is None:
            return name == "localhost" or name.endswith(".local")
        return any(address in network for network in _NETWORKS if network.version == address.version)

    @staticmethod
    def _read(path: Path) -> x509.Certificate | None:
        return x509.load_pem_x509_certificate(path.read_bytes()) if path.exists() else None


def local_names() -> frozenset[str]:
    """Return the addresses and names by which the local network knows this computer."""
    host = socket.gethostname().partition(".")[0]
    names = {f"{host}.local"} if host else set()
    return frozenset(names | set(_addresses()))


def _addresses() -> Iterable[str]:
    """Yield the addresses of this computer, as far as the system tells them."""
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))  # no packet is sent: the system only says which address it would use
                yield str(probe.getsockname()[0])
        except OSError:
            continue
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return
    yield from (str(address[0]).partition("%")[0] for _, _, _, _, address in found)


def _days_left(certificate: x509.Certificate) -> float:
    return (certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def _is_good(certificate: x509.Certificate | None, wanted: frozenset[str]) -> bool:
    """Whether the certificate has these names, and does not end soon."""
    if certificate is None or _days_left(certificate) < _DAYS_LEFT:
        return False
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return wanted <= known


def _make_root(key: EllipticCurvePrivateKey) -> x509.Certificate:
    """Return our root certificate. It can sign only for names and addresses of private networks."""
    name = _name(f"Handspan of {socket.gethostname().partition('.')[0] or 'this computer'}")
    now, own = datetime.now(UTC), x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    allowed = [x509.DNSName("local"), x509.DNSName("localhost"), *map(x509.IPAddress, _NETWORKS)]
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=_ROOT_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.NameConstraints(allowed, None), critical=True)
        .add_extension(own, critical=False)
        .sign(key, SHA256())
    )


def _make_certificate(
    key: EllipticCurvePrivateKey, names: frozenset[str], root: x509.Certificate, root_key: EllipticCurvePrivateKey
) -> x509.Certificate:
    """Return the certificate for these names of this computer, signed by the root."""
    now = datetime.now(UTC)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    return (
        x509.CertificateBuilder(root.subject, _name("Handspan gateway"), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now - _EARLIER + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(list(map(_general_name, sorted(names)))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(root_key, SHA256())
    )


def _general_name(name: str) -> x509.GeneralName:
    address = find_address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Return what the key may be used for: to sign certificates, or to serve TLS."""
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _read_key(path: Path) -> EllipticCurvePrivateKey:
    key = load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError(f"{path.name} is not a key of ours")
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
