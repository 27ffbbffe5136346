"""The certificate that a command trusts at a named gateway: that of --ca, of a pairing, or of our own state folder."""

import socket
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from handspan.cli.running import find_running
from handspan.config.settings import Settings
from handspan.gateway.serving.listening import ROOT_FILE, TLS_FOLDER

CA: Final = "HANDSPAN_CA"
HOW_TO_TRUST: Final = (
    "give its root certificate with --ca FILE: `tls/root.crt` in the state folder of the gateway's computer, or "
    "{url}/device/root.crt, if its SHA-256 is the one that `handspan serve` shows there"
)
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_OWN_ROOT: Final = "Handspan of "
"""How the name of a root certificate begins that `serve --tls` made (gateway/serving/lan_certificates.py)."""


def own_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return TLS that trusts only the gateway of the state folder, at any address; None when it has no certificate.

    The certificate is that of the settings, or our own root. Raises `OSError` when it can't be read.
    """
    certificate = settings.gateway.tls_cert or settings.state / TLS_FOLDER / ROOT_FILE
    if settings.gateway.tls_cert is None and not certificate.exists():
        return None
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def read_certificate(file: str) -> str:
    """Return the certificates of a file as PEM. The file may be DER, which browsers save. Raises `UsageError`."""
    try:
        data = Path(file).expanduser().read_bytes()
        pem = data.decode("ascii") if _BEGIN in data else ssl.DER_cert_to_PEM_cert(data)
        trusting_tls(pem)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise click.UsageError(
            f"--ca: {file!r} can't be used: {error}. It has to be a certificate, PEM or DER."
        ) from None
    return pem


def trusting_tls(pem: str) -> ssl.SSLContext:
    """Return TLS that trusts these certificates and no others. Raises `ssl.SSLError` when `pem` has none.

    A root of `serve --tls` signs for one gateway alone, so its name does not have to fit the address: the address may
    have changed since, or be one that the root can't sign for.
    """
    context = ssl.create_default_context(cadata=pem)
    context.check_hostname = not all(_OWN_ROOT in str(one.get("subject")) for one in context.get_ca_certs())
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def named_tls(settings: Settings, url: str, pem: str = "") -> ssl.SSLContext | None:
    """Return TLS for the gateway at this address; None: as this computer trusts. `pem`: a given certificate."""
    if not url.startswith(("https:", "wss:")):
        return None
    if pem:
        return trusting_tls(pem)
    return own_tls(settings) if _is_own(settings, url) else None


def _is_own(settings: Settings, url: str) -> bool:
    """Whether the gateway of the state folder is at this address: this computer, and the gateway's port."""
    running, parts = find_running(settings.state), urlsplit(url)
    if running is None or urlsplit(running.url).port != parts.port or not parts.hostname:
        return False
    with socket.socket(socket.AF_INET6 if ":" in parts.hostname else socket.AF_INET) as probe:
        try:  # the system lets a program listen on the computer's own addresses alone
            probe.bind((parts.hostname, 0))
        except OSError:
            return False
    return True
