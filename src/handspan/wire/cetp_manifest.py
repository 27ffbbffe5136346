"""The manifest of a provider on the desktop (cetp.md 6.1, 6.2), as bytes. `provider/manifests.py` finds the files."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from handspan.core.errors import WireError
from handspan.wire import strict_json
from handspan.wire.cetp import PROTOCOL_VERSION, label_of

MANIFEST_BYTES: Final = 64 * 1024
SOCKET_PATH_BYTES: Final = 103
"""macOS has the shortest limit for the path of a Unix socket: 104 bytes with the null byte at its end."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")

ProviderId = Annotated[str, Meta(max_length=128, pattern=rf"^{_ID.pattern}$")]


class ManifestError(WireError):
    """A manifest can't be used; the message says why and what to change."""


class ProviderManifest(Struct, frozen=True, omit_defaults=True):
    """How a provider on the desktop is found, reached, started and authorized."""

    id: ProviderId
    """The app, as in `org.example.finance`. The file is `ID.json`."""
    label: Annotated[str, Meta(max_length=80)] = ""
    """A short name. Empty: the last part of the id."""
    version: Annotated[int, Meta(ge=1)] = PROTOCOL_VERSION
    """The version of CETP that the provider speaks."""
    socket: str = ""
    """The path of its Unix socket; a relative one is below `$XDG_RUNTIME_DIR/handspan`. Empty: `ID.sock`."""
    exec: list[str] = []
    """Starts the provider: an absolute path and arguments. Empty: it can't be started."""
    authorize: list[str] = []
    """Starts its authorization, in the same way."""

    @property
    def name(self) -> str:
        """The provider's name, for a person."""
        return self.label or self.id.rpartition(".")[2]

    @property
    def prefix(self) -> str:
        """The label of the provider's tools, without the suffix that a clash of names adds (cetp.md 8.2)."""
        return label_of(self.name)

    @property
    def is_supported(self) -> bool:
        """Whether we speak the provider's version (cetp.md 4.2)."""
        return self.version <= PROTOCOL_VERSION


def read_manifest(data: bytes) -> ProviderManifest:
    """Return the manifest. Raises `ManifestError`."""
    if len(data) > MANIFEST_BYTES:
        raise ManifestError(f"it has more than {MANIFEST_BYTES:,} bytes: a manifest has a few hundred")
    try:
        manifest = msgspec.convert(strict_json.parse(data), ProviderManifest)
    except (WireError, msgspec.ValidationError) as error:
        raise ManifestError(f"it is no manifest: {error}") from None
    for field, argv in (("exec", manifest.exec), ("authorize", manifest.authorize)):
        _check_argv(field, argv)
    if "\0" in manifest.socket or ".." in Path(manifest.socket).parts:
        raise ManifestError(f"socket {manifest.socket!r} may hold no '..' and no null character")
    return manifest


def encode_manifest(manifest: ProviderManifest) -> bytes:
    """Return the manifest as the bytes of a file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def socket_path(manifest: ProviderManifest, environment: Mapping[str, str]) -> Path:
    """Return the absolute path of the provider's socket for this person. Raises `ManifestError` for a too long path."""
    path = runtime_folder(environment) / (manifest.socket or f"{manifest.id}.sock")
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ManifestError(
            f"the path of its socket, {str(path)!r}, has more than {SOCKET_PATH_BYTES} bytes: set XDG_RUNTIME_DIR to a"
            " short one, or name another socket"
        )
    return path


def runtime_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for sockets whose path in the manifest is relative (cetp.md 6.2)."""
    given = environment.get("XDG_RUNTIME_DIR", "")
    if given.startswith("/"):
        return Path(given) / "handspan"
    return Path(environment.get("HOME") or "/") / ".cache" / "handspan" / "run"


def manifest_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of manifests, the person's own first (cetp.md 6.1)."""
    home = environment.get("XDG_DATA_HOME", "")
    own = Path(home) if home.startswith("/") else Path(environment.get("HOME") or "/") / ".local" / "share"
    others = environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    found = [own, *(Path(one) for one in others.split(":") if one.startswith("/"))]
    return [folder / "handspan" / "providers" for folder in dict.fromkeys(found)]


def _check_argv(field: str, argv: list[str]) -> None:
    if argv and not argv[0].startswith("/"):
        raise ManifestError(f"{field} must begin with the absolute path of a program, not with {argv[0]!r}")
    if any("\0" in argument for argument in argv):
        raise ManifestError(f"{field} has an argument with a null character")
