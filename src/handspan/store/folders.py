"""Folders of the state, for their owner alone (SPEC S6)."""

from pathlib import Path


def make_private(folder: Path) -> None:
    """Have this folder, with access for nobody else, also where it was there before. `OSError` when that can't be."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:  # made by someone else, or with a wider umask in mind
        folder.chmod(0o700)
