"""The sockets that the gateway listens on, its TLS and its addresses. Each `ConfigError` says what to do."""

import errno
import socket
import ssl
import struct
import sys
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.late_imports import ctypes

_SO_ATTACH_FILTER: Final = 26
"""The number of the option in `asm/socket.h`."""
_DROP_SYN: Final = (
    (0x30, 0, 0, 13),  # load the byte of the TCP flags
    (0x45, 0, 1, 0x02),  # SYN, which begins a connection?
    (0x06, 0, 0, 0),  # then drop it
    (0x06, 0, 0, 0xFFFFFFFF),  # else take all of it
)
"""A packet filter, as `linux/filter.h` has it."""


def listen(settings: GatewaySettings) -> list[socket.socket]:
    """Return bound sockets, one for each address of the host, all with one port. They do not accept yet."""
    try:
        # As bytes where possible: for text, Python would first load its tables of international names.
        host = settings.host.encode() if settings.host.isascii() else settings.host
        found = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(
            f"gateway.host: {settings.host!r} is no address of this computer ({error.strerror}). Use '127.0.0.1', "
            "or '0.0.0.0' for every network that it is in."
        ) from None
    port = settings.port
    with ExitStack() as until_all_are_bound:
        sockets = []
        for family, address in dict.fromkeys((family, address[0]) for family, _, _, _, address in found):
            # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is named, as here.
            bound = until_all_are_bound.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            _bind(bound, str(address), port)
            port = bound.getsockname()[1]
            sockets.append(bound)
        until_all_are_bound.pop_all()
    return sockets


def _bind(bound: socket.socket, address: str, port: int) -> None:
    """Listen there. Raises `ConfigError` with what to do."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        bound.bind((address, port))
        bound.listen(0)  # now: two sockets with SO_REUSEADDR may share a port, but only one of them can listen
    except OSError as error:
        raise ConfigError(_explain_bind_error(error, address, port)) from None


def _explain_bind_error(error: OSError, address: str, port: int) -> str:
    """Return why the system does not let us listen there, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"gateway.port: another program listens on {address} port {port}. End it, or choose another port: "
                "--port 0 takes one that is free."
            )
        case errno.EACCES:
            return f"gateway.port: this user may not listen on port {port}. Choose one of 1024 or more."
        case errno.EADDRNOTAVAIL:
            return (
                f"gateway.host: {address!r} is not an address of this computer. Use '127.0.0.1', or '0.0.0.0' for "
                "every network that it is in."
            )
        case _:
            return f"gateway.host: {address} port {port} can't be listened on: {error.strerror}. Choose another."


TLS_FOLDER: Final = "tls"
"""The folder of our own certificates, in the state folder (`gateway/serving/lan_certificates.py`)."""
ROOT_FILE: Final = "root.crt"
CERTIFICATE_FILE: Final = "gateway.pem"


def has_own_root(settings: Settings) -> bool:
    """Whether the gateway shows a certificate of our own, whose root a phone has to load."""
    return settings.gateway.tls_cert == settings.state / TLS_FOLDER / CERTIFICATE_FILE


class TlsFiles:
    """TLS with the files of the settings. New connections get a certificate that replaced the first one."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Read the files. Raises `ConfigError` when they can't be used."""
        self._settings = settings
        self.context: ssl.SSLContext | None = None
        """None without a certificate."""
        self._seen = self._change_times()
        if settings.tls_cert is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2
            _load(self.context, settings)

    def reload(self) -> None:
        """Read the files again if they changed. Raises `ConfigError`; the old certificate is used on then."""
        changed_at = self._change_times()
        if self.context is None or changed_at == self._seen:
            return
        self._seen = changed_at
        # First into a context of its own: a new certificate without its key would break the one in use.
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._settings)
        _load(self.context, self._settings)

    def _change_times(self) -> list[int]:
        files = [each for each in (self._settings.tls_cert, self._settings.tls_key) if each is not None]
        return [each.stat().st_mtime_ns if each.exists() else 0 for each in files]


def _load(context: ssl.SSLContext, settings: GatewaySettings) -> None:
    """Load the certificate and its key. Raises `ConfigError` when they can't be used."""
    assert settings.tls_cert is not None
    try:
        for file in (settings.tls_cert, settings.tls_key):
            if file is not None:
                file.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"gateway.tls_cert, gateway.tls_key: {error.filename} can't be read: {error.strerror}. "
            "Name a PEM file that this user can read."
        ) from None
    try:  # with an empty password: without one, OpenSSL would ask at the terminal
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"gateway.tls_cert: {settings.tls_cert} and its key can't be used: {error.strerror or error}. They have to "
            "be PEM, belong together, and the key must have no password."
        ) from None


def url_of(settings: GatewaySettings, port: int) -> str:
    """Return the address for programs on this computer, with the path prefix and no slash at the end."""
    if not _is_everywhere(settings.host):
        return _url(settings, settings.host, port)
    return _url(settings, "::1" if ":" in settings.host else "127.0.0.1", port)


def browser_url(settings: GatewaySettings, port: int) -> str:
    """Return the address to which a browser comes back after a login elsewhere."""
    return settings.public_url.rstrip("/") or url_of(settings, port or GatewaySettings().port)


def url_for_others(settings: GatewaySettings, port: int) -> str | None:
    """Return the address for a phone in the same network; None when only this computer can reach the gateway."""
    if is_loopback(settings.host):
        return None
    if not _is_everywhere(settings.host):
        return _url(settings, settings.host, port)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:  # no packet is sent: the system only says which of its addresses it would use
            probe.connect(("2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1", 9))
        except OSError:
            return None
        return _url(settings, str(probe.getsockname()[0]), port)


def is_loopback(host: str) -> bool:
    """Whether this host names the computer itself, so that no other one can reach it."""
    address = find_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _url(settings: GatewaySettings, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{name}:{port}{settings.path_prefix}"


def _is_everywhere(host: str) -> bool:
    address = find_address(host)
    return address is not None and address.is_unspecified


def find_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that this text is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def drop_new_connections(listener: socket.socket) -> bool:
    """Let the system drop what begins a new connection to this listener; connections that have begun are completed.

    The client's system tries again after a second: it is refused if the listener is closed by then. Return False where
    the system can't do that.
    """
    if sys.platform != "linux":
        return False
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN))
    try:
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN), ctypes.addressof(program))
        )
    except OSError:  # a sandbox may forbid it
        return False
    return True
