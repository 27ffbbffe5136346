"""The files of a repository that make a person's git run programs: settings, hooks, and files that name other settings.

For commands in the sandbox these files are read-only (`mounts.py`), and file tools write nothing below `.git`.
SECURITY.md says what this does not cover.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from handspan.tools.paths import Parts, caseless, close_after

_MAX_MODULES: Final = 100
"""The most submodules that are protected."""
_SETTINGS: Final = ("hooks", "config", "config.worktree", "commondir")
_HAS_OWN_WORKTREE: Final = rb"(?im)worktree\s*=|bare\s*(?:=\s*(?:true|yes|on|1)\s*)?$"
"""Finds `core.worktree` and `core.bare` in a config file."""
_LONGEST_CONFIG: Final = 1024 * 1024
_SAFELY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_THIS_FOLDER: Final = b".\n"


def is_in_repository(parts: Parts) -> bool:
    """Whether this path is `.git`, or lies below it, in any folder and any spelling."""
    return ".git" in caseless(parts)


def protected_files(root: str) -> Iterator[str]:
    """Yield the paths that must be read-only for commands in this folder. In a worktree `.git` itself is a file."""
    git = f"{root}/.git"
    if os.path.isfile(git) and not os.path.islink(git):
        yield git
    _create_missing(root)
    for folder in _repository_folders(root):
        for name in _SETTINGS:
            path = f"{folder}/{name}"
            if os.path.realpath(path) == path and os.path.exists(path):
                yield path


def folders_without_hooks(root: str) -> Iterator[str]:
    """Yield the paths where a command could create a folder with hooks."""
    for folder in _repository_folders(root):
        if not os.path.lexists(f"{folder}/hooks") and os.access(folder, os.W_OK):
            yield f"{folder}/hooks"


def _repository_folders(root: str) -> Iterator[str]:
    """Yield `.git`, and the folders of submodules in it."""
    git = f"{root}/.git"
    if os.path.isdir(git) and not os.path.islink(git):
        yield git
        yield from islice(_modules(f"{git}/modules"), _MAX_MODULES)


def _modules(folder: str) -> Iterator[str]:
    """Yield the repositories of submodules below this folder. The name of a submodule may have slashes."""
    for path, names, files in os.walk(folder):
        if "HEAD" in files:
            yield path
            names[:] = [name for name in names if name == "modules"]


def _create_missing(root: str) -> None:
    """Create missing settings files, with a content that changes nothing for git.

    Otherwise a command could create these files: bubblewrap can't cover a name that is missing. `commondir` names the
    folder with the settings, and git refuses an empty `commondir`. While that file exists, git does not read
    `core.worktree` and `core.bare`: so a repository that has set one of these gets no `commondir`.
    """
    # Descriptors are used, because another command may meanwhile put a link in the place of a folder.
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError),
        close_after(os.open(f"{root}/.git", os.O_DIRECTORY | _SAFELY)) as folder,
    ):
        _create(folder, "config", b"")
        with close_after(os.open("config", os.O_NONBLOCK | _SAFELY, dir_fd=folder)) as config:
            is_found = re.search(_HAS_OWN_WORKTREE, os.read(config, _LONGEST_CONFIG))
        if not is_found:
            _create(folder, "commondir", _THIS_FOLDER)


def _create(folder: int, name: str, content: bytes) -> None:
    """Create a file in this open folder, unless it exists."""
    with contextlib.suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with close_after(os.open(name, flags, 0o644, dir_fd=folder)) as created:
            os.write(created, content)
