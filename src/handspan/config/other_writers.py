"""Whether other users of this computer could have written a file that decides what the gateway runs (SPEC S6, T6)."""

import contextlib
import errno
import functools
import grp
import os
import pwd
import shlex
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from handspan.core.errors import ConfigError

_MAX_LINKS: Final = 40
"""As many links as the kernel follows."""


def check_writers(file: Path) -> None:
    """Raise `ConfigError` if other users could have written this file. A file that can't be found passes."""
    try:
        problem = find_other_writer(file)
    except (OSError, ValueError):  # reading it will say what is wrong
        return
    if problem is not None:
        raise ConfigError(f"{file}: {problem}")


def find_other_writer(path: Path, name: str = "it") -> str | None:
    """Return how other users could write this path, and what to type against it; None: only this user and root could.

    Each folder on the way counts, also behind links: a user who can write a folder can replace what is in it. In a
    folder with the sticky bit, users can only add files; the path itself has to be closed to that, too. `name`: what
    the path is called in the text. Raises `OSError` when there is no such path.
    """
    path = path.absolute()
    places = list(_walk(path))
    last = places[-1][0]
    for place, status in places:
        if problem := _find_problem(place, status, is_last=place == last):
            return f"{name if place in (path, last) else f'the folder {str(place)!r}'} {problem}"
    return None


def _walk(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the way to a file, as the kernel goes it: each folder, each link, and the file."""
    here, names, links = Path("/"), deque(path.parts[1:]), 0
    yield here, here.lstat()
    while names:
        name = names.popleft()
        if name == "..":
            here = here.parent
            continue
        place = here / name
        status = place.lstat()
        yield place, status
        if not stat.S_ISLNK(status.st_mode):
            here = place
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(place))
        here = Path("/") if target.is_absolute() else here
        names.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _find_problem(place: Path, status: os.stat_result, *, is_last: bool) -> str | None:
    """Return how another user could change this file or folder, and the command that ends that; None if none could.

    `is_last`: it is the file itself, not a folder on the way to it.
    """
    quoted, mode = shlex.quote(str(place)), status.st_mode
    if status.st_uid not in (os.geteuid(), 0) and not _is_unknown_owner(status.st_uid):
        command = "chown -h" if stat.S_ISLNK(mode) else "chown"
        return f"belongs to another user ({_name_user(status.st_uid)}). Type: sudo {command} {_name_user()} {quoted}"
    is_guarded = stat.S_ISLNK(mode) or (not is_last and bool(mode & stat.S_ISVTX))
    if is_guarded or not mode & (stat.S_IWOTH | stat.S_IWGRP) or _is_read_only(place):
        return None
    if mode & stat.S_IWOTH:
        who = "go" if mode & stat.S_IWGRP and not _is_own_group(status.st_gid) else "o"
        return f"can be written by all users of this computer. Type: chmod {who}-w {quoted}"
    if not _is_own_group(status.st_gid):
        return f"can be written by the group {_name_group(status.st_gid)}. Type: chmod g-w {quoted}"
    if _has_more_rules(place):
        return f"can be written by the users that its access list names. Type: chmod g-w {quoted}"
    return None


def _is_unknown_owner(user: int) -> bool:
    """Whether this stands for all users that a container does not know, and so for the owner of the system's files."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
        known = (range(int(first), int(first) + int(count)) for first, _, count in map(str.split, lines))
        unknown = int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
        return user == unknown and not any(user in users for users in known)
    return False


@functools.cache
def _is_own_group(group: int) -> bool:
    """Whether only this user and root are in the group, as with the usual group of each user (umask 002)."""
    if group == 0:
        return True
    if group not in (os.getegid(), *os.getgroups()):
        return False
    own = os.geteuid()
    members: set[str] = set()
    with contextlib.suppress(KeyError):
        members = set(grp.getgrgid(group).gr_mem)
    users = pwd.getpwall()
    members -= {user.pw_name for user in users if user.pw_uid in (own, 0)}
    return not members and all(user.pw_gid != group or user.pw_uid in (own, 0) for user in users)


def _is_read_only(place: Path) -> bool:
    """Whether the file system is mounted read-only: modes then say nothing, as those of a Kubernetes ConfigMap."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _has_more_rules(place: Path) -> bool:
    """Whether an access list names users and groups besides the owner. The mode of the group is then its bound."""
    try:
        return bool(os.getxattr(place, "system.posix_acl_access"))
    except (OSError, AttributeError):  # it has none, or the system has no such lists
        return False


def _name_user(user: int | None = None) -> str:
    user = os.geteuid() if user is None else user
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _name_group(group: int) -> str:
    try:
        return repr(grp.getgrgid(group).gr_name)
    except KeyError:
        return str(group)
