"""The manifests of providers on this computer: found, read and checked (cetp.md 6.1 to 6.3).

The programs that a manifest names are started as the person. So a manifest counts only if no other user could have
written it.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.wire.cetp_manifest import (
    MANIFEST_BYTES,
    ManifestError,
    ProviderManifest,
    encode_manifest,
    manifest_folders,
    read_manifest,
    socket_path,
)

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_FILES: Final = 1000


class FoundManifest(Struct, frozen=True):
    """A manifest file, and what a consumer makes of it."""

    path: Path
    manifest: ProviderManifest | None = None
    """None: the file can't be read as a manifest."""
    socket: Path | None = None
    """The absolute path of the provider's socket."""
    problem: str = ""
    """Why a consumer skips the manifest; empty when it does not."""

    @property
    def id(self) -> str:
        """The id of the provider: the manifest's, or the file's name when it can't be read."""
        return self.manifest.id if self.manifest else self.path.stem


def find_manifests(environment: Mapping[str, str]) -> list[FoundManifest]:
    """Return every manifest of this person's folders, also those that a consumer skips, with the reason."""
    found: list[FoundManifest] = []
    first: dict[str, Path] = {}
    for path in _files(environment):
        one = load_manifest(path, environment)
        earlier = first.setdefault(one.id, path)
        if earlier != path:
            one = FoundManifest(path, one.manifest, one.socket, f"{str(earlier)!r} has the same id and comes first")
        found.append(one)
    return found


def load_manifest(path: Path, environment: Mapping[str, str]) -> FoundManifest:
    """Return one manifest. A problem is part of the result: nothing is raised."""
    manifest = None
    try:
        manifest = read_manifest(_read_checked(path))
        socket = socket_path(manifest, environment)
        _check(path, manifest)
    except (ManifestError, OSError) as error:
        return FoundManifest(path, manifest, None, _reason(error))
    return FoundManifest(path, manifest, socket)


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    for folder in manifest_folders(environment):
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name[0] != ".")
        except OSError:  # the folder is missing, or is not ours to read
            continue
        yield from (folder / name for name in names[:_MAX_FILES])


def _read_checked(path: Path) -> bytes:
    """Return the bytes of the file. Raises `ManifestError` if it is not regular, or other users may write to it."""
    _check_status(path.parent.stat(), path.parent, "the folder")
    # O_NONBLOCK: a FIFO of this name must not stop the scan.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ManifestError("it is no regular file")
        _check_status(status, path, "the file")
        return os.read(descriptor, MANIFEST_BYTES + 1)
    finally:
        os.close(descriptor)


def _check(path: Path, manifest: ProviderManifest) -> None:
    """Raise `ManifestError` for a manifest that a consumer skips: by its id, its version or its programs."""
    if path.stem != manifest.id:
        raise ManifestError(f"its id is {manifest.id!r}: name the file {manifest.id}.json")
    if not manifest.is_supported:
        raise ManifestError(f"it speaks version {manifest.version} of CETP, and only version 1 is known here")
    for field, argv in (("exec", manifest.exec), ("authorize", manifest.authorize)):
        if argv:
            _check_program(field, Path(argv[0]))


def _check_program(field: str, program: Path) -> None:
    """Raise `ManifestError` for a program that must not be started. A missing program passes: its start fails later."""
    try:
        status = program.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) or not os.access(program, os.X_OK):
        raise ManifestError(f"{field} names {str(program)!r}, which is no program that you may run")
    _check_status(status, program, f"the program of {field},")


def _check_status(status: os.stat_result, path: Path, what: str) -> None:
    """Raise `ManifestError` if another user than the person and root owns this path, or may write to it."""
    if status.st_uid not in (os.getuid(), 0):
        raise ManifestError(f"{what} {str(path)!r} belongs to another user (uid {status.st_uid})")
    if status.st_mode & _OTHERS_WRITE:
        raise ManifestError(f"other users may write to {what} {str(path)!r}: run chmod go-w {path}")


def _reason(error: Exception) -> str:
    return f"it can't be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def install_manifest(manifest: ProviderManifest, environment: Mapping[str, str]) -> Path:
    """Write the manifest where consumers of this person find it. Return its path. Raises `OSError`."""
    folder = manifest_folders(environment)[0]
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    path, fresh = folder / f"{manifest.id}.json", folder / f".{manifest.id}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), "wb") as file:
        file.write(encode_manifest(manifest))
    fresh.replace(path)
    return path


def remove_manifest(provider: str, environment: Mapping[str, str]) -> Path | None:
    """Remove the manifest that this person has installed. Return its path; None: there is none. Raises `OSError`."""
    path = manifest_folders(environment)[0] / f"{provider}.json"
    try:
        path.unlink()
    except FileNotFoundError:
        return None
    return path
