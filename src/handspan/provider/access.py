"""Which consumers a provider serves, and what each of them sees (cetp.md 5).

A grant is the person's yes to one program. Grants are in a file, because the program that asks the person
(`authorize` of the manifest) is another process than the provider.
"""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.names import matches_any
from handspan.provider.peer import Consumer
from handspan.wire.cetp import ProviderError

Others: TypeAlias = Literal["admit", "ask", "deny"]


class Access(Struct, frozen=True):
    """The rules of one provider. Programs are named by their name or their whole path; `*` and `?` are wildcards."""

    others: Others = "admit"
    """For programs that no list names: serve them, ask the person first, or refuse them."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Wins over `allow`."""
    coarse: tuple[str, ...] = ()
    """Programs that get coarser data: tools see it in `Consumer.is_coarse`."""
    valid_for: float | None = None
    """Seconds after which a grant expires. None: never."""
    hint: str = ""
    """What the person can do to allow a program."""
    intent: str = ""
    """The name of that step, for the consumer."""


class Grant(Struct, frozen=True, omit_defaults=True):
    """The person's yes to one program."""

    until: float | None = None
    """When it expires, in seconds since 1970."""
    is_coarse: bool = False


class GrantFile(Struct, frozen=True):
    """What the file of grants holds, by the path of the program."""

    granted: dict[str, Grant] = {}
    waiting: list[str] = []
    """Programs that were refused because no person has decided about them."""


class Grants:
    """The grants of one provider, in a file that only the person may read."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._stamp: tuple[int, int] | None = None
        """The time and the inode of the file when `_read` was read."""
        self._read = GrantFile()

    def find(self, program: str) -> Grant | None:
        """Return the grant of this program; None when it has none, or it has expired."""
        grant = self.load().granted.get(program)
        return grant if grant and (grant.until is None or grant.until > self._clock()) else None

    def load(self) -> GrantFile:
        """Return what the file says now. A file that can't be read grants nothing."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                self._read, self._stamp = msgspec.json.decode(self._path.read_bytes(), type=GrantFile), stamp
        except (OSError, msgspec.DecodeError):
            self._read, self._stamp = GrantFile(), None
        return self._read

    def wait_for(self, program: str) -> None:
        """Note that this program waits for the person's decision."""
        if program not in self.load().waiting:
            with self._change() as found:
                found.waiting.append(program)
                del found.waiting[:-100]

    def add(self, program: str, valid_for: float | None = None, *, is_coarse: bool = False) -> None:
        """Allow this program; with `is_coarse`, tools give it coarser data."""
        with self._change() as found:
            until = None if valid_for is None else self._clock() + valid_for
            found.granted[program] = Grant(until, is_coarse)
            found.waiting[:] = [other for other in found.waiting if other != program]

    def remove(self, program: str) -> bool:
        """Take the grant back. Return False when there is none."""
        with self._change() as found:
            return found.granted.pop(program, None) is not None

    @contextlib.contextmanager
    def _change(self) -> Iterator[GrantFile]:
        """Yield what the file holds, and write it after the caller's changes: one process at a time.

        A reader sees all changes or none.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._stamp = None  # read anew: two changes in one tick of the clock have the same stamp
            found = self.load()
            changed = GrantFile(dict(found.granted), list(found.waiting))
            yield changed
            self._replace(msgspec.json.encode(changed))
        finally:
            os.close(lock)

    def _replace(self, data: bytes) -> None:
        fresh = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        fresh.replace(self._path)


def grants_path(provider: str, environment: Mapping[str, str]) -> Path:
    """Return the file of a provider's grants, in the person's folder for state."""
    given = environment.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path(environment.get("HOME") or "/") / ".local" / "state"
    return base / "cetp" / f"{provider}.json"


class AccessGate:
    """Applies the rules of a provider to each consumer."""

    def __init__(self, access: Access, grants: Grants, uid: int) -> None:
        self._access = access
        self._grants = grants
        self._uid = uid

    def admit(self, consumer: Consumer) -> Consumer:
        """Return the consumer with what it may see. Raises `ProviderError` when it may see nothing."""
        access = self._access
        if consumer.uid not in (self._uid, 0):
            raise ProviderError("PERMISSION_DENIED", "Only programs of the person who runs this app may call it")
        if _is_named(access.deny, consumer):
            raise ProviderError("PERMISSION_DENIED", f"{consumer.name!r} is not admitted")
        grant = self._grants.find(consumer.program) if consumer.program else None
        is_admitted = access.others == "admit" or _is_named(access.allow, consumer)
        if grant is None and not is_admitted:
            raise self._refusal(consumer)
        is_coarse = _is_named(access.coarse, consumer) or (grant is not None and grant.is_coarse)
        return Consumer(consumer.uid, consumer.pid, consumer.program, is_coarse)

    def _refusal(self, consumer: Consumer) -> ProviderError:
        """Return the error for a consumer that is not admitted; note its program if the person can allow it."""
        access = self._access
        if access.others == "deny" or not consumer.program:  # a program without a name can't be granted anything
            return ProviderError("PERMISSION_DENIED", f"{consumer.name!r} is not admitted")
        self._grants.wait_for(consumer.program)
        message = f"The person has not allowed {consumer.name!r} to read this"
        return ProviderError("AUTH_REQUIRED", message, hint=access.hint, intent=access.intent)


def _is_named(patterns: tuple[str, ...], consumer: Consumer) -> bool:
    return bool(patterns) and (matches_any(patterns, consumer.name) or matches_any(patterns, consumer.program))
