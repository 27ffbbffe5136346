"""Files and folders of the state, for their owner alone (SPEC S6)."""

import os
import secrets
from pathlib import Path


def make_private(folder: Path) -> None:
    """Have this folder, with access for nobody else, also where it was there before. `OSError` when that can't be."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:  # made by someone else, or with a wider umask in mind
        folder.chmod(0o700)


def write_private(path: Path, data: bytes, *, is_synced: bool = False) -> None:
    """Write the file; `is_synced`: it is on the disk when this returns."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def replace_private(path: Path, data: bytes) -> None:
    """Put this in place of the file: a reader finds the old or the new one, never a part of one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private(fresh, data, is_synced=True)
    fresh.replace(path)


def sync_folder(folder: Path) -> None:
    """Let the names in it be on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
