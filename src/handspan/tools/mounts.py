"""The file system inside the sandbox, as options of bubblewrap: the system, the workspace, and covered paths."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from handspan.tools.git_files import folders_without_hooks, protected_files

WORKSPACE: Final = "/workspace"
SANDBOX_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LINKS_TO_USR: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC: Final = ("ld.so.cache", "alternatives", "localtime")
# Certificates that programs trust, in the places of several distributions. Other folders there may have private keys.
_CERTIFICATES: Final = (
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates/extracted"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust/extracted"),
)
_NAME_LOOKUP: Final = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols")
_TAKEN: Final = frozenset((*_LINKS_TO_USR, "usr", "etc", "dev", "proc", "sys", WORKSPACE[1:]))
"""Names in the root folder that the sandbox uses itself."""


def mount_options(workspace: Path, hidden: Sequence[Path], scratch: int, network: str) -> Iterator[str]:
    """Yield bubblewrap's options for all mounts of one command: files come and go between two commands.

    `hidden`: paths that commands must not see. `scratch`: bytes of /tmp, and as many of /dev/shm. A command with a
    network (see `sandbox.py`) gets certificates.
    """
    real = os.path.realpath(workspace)
    certificates = () if network == "none" else _CERTIFICATES
    yield from _system_options((*_ETC, *certificates, *(_NAME_LOOKUP if network == "host" else ())))
    yield from ("--dev", "/dev", "--proc", "/proc")
    for folder in ("/dev/shm", "/tmp"):
        yield from ("--size", str(scratch), "--perms", "1777", "--tmpfs", folder)
    yield from ("--remount-ro", "/dev")
    yield from ("--bind", real, WORKSPACE)
    yield from _link_real_path(real)
    yield from _cover_options(real, [os.path.realpath(path) for path in hidden])


def _cover_options(real: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield the options that make git's files read-only and hidden paths empty."""
    protected, no_hooks = list(protected_files(real)), list(folders_without_hooks(real))
    yield from _pin_folders(real, [*hidden, *protected, *no_hooks, f"{real}/.git/hooks"])
    for path in protected:
        yield from ("--ro-bind", path, _inside(path, real))
    for path in no_hooks:
        yield from _empty_folder(_inside(path, real))
    for path in hidden:
        if _is_below(path, real):
            yield from _cover(path, _inside(path, real))
        if _is_below(path, "/usr"):  # a workspace in /usr is visible under two paths
            yield from _cover(path, path)


def _system_options(etc: Sequence[str]) -> Iterator[str]:
    """Yield the options for the system's folders, all of them read-only, and for these entries of `/etc`."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _LINKS_TO_USR:
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    folders = {str(folder) for name in etc for folder in Path("/etc", name).parents} - {"/"}
    for folder in sorted(folders):  # bubblewrap by itself would make these folders for its own user alone
        yield from ("--perms", "0755", "--dir", folder)
    for name in etc:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _link_real_path(real: str) -> Iterator[str]:
    """Yield options for a link at the workspace's real path: the model knows files by that path, too."""
    first, *others = Path(real).parts[1:]
    if first in _TAKEN:
        return
    folder = f"/{first}"
    for name in others:
        yield from ("--perms", "0755", "--dir", folder)
        folder = f"{folder}/{name}"
    yield from ("--symlink", WORKSPACE, real)


def _pin_folders(real: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield options that mount the folders above covered paths, since a mounted folder can't be moved.

    Otherwise a command could move such a folder, and the next command would find the path uncovered under a new name.
    """
    between = {str(parent) for path in paths for parent in Path(path).parents if _is_below(str(parent), real)}
    for folder in sorted(between - {real}):
        if os.path.isdir(folder) and os.path.realpath(folder) == folder:
            yield from ("--bind", folder, _inside(folder, real))


def _cover(path: str, inside: str) -> Iterator[str]:
    """Yield options that replace a folder by an empty one, or a file by /dev/null."""
    if os.path.isdir(path):
        yield from _empty_folder(inside)
    elif os.path.lexists(path):
        yield from ("--ro-bind", "/dev/null", inside)


def _empty_folder(inside: str) -> tuple[str, ...]:
    return "--perms", "0555", "--tmpfs", inside, "--remount-ro", inside


def _inside(path: str, real: str) -> str:
    """Return the path inside the sandbox for a real path in the workspace."""
    return WORKSPACE + path.removeprefix(real)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
