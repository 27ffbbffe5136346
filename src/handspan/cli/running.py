"""The gateway that serves a state folder: there is one at most, and other commands find it."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.cli import late
from handspan.config.private_files import is_locked, read_private, replace_private
from handspan.core.errors import ConfigError
from handspan.gateway.entry.operator_token import read_operator_token

_FILE: Final = "gateway.json"
_LOCK: Final = "gateway.lock"
_SECONDS: Final = 3.0
_OWN_FOLDER: Final = "End it first, or give this one a folder of its own: --state."


class ServingGateway(Struct, frozen=True, omit_defaults=True):
    """A gateway that answers, and what the file in its state folder says of it: all but the token."""

    url: str
    pid: int
    token: str = ""
    """The operator's token; empty when this user may not read it."""
    workspace: str = ""
    """The folder that the gateway's tools work in."""
    search_path: str = ""
    """The gateway's PATH, on which it finds the programs that it starts."""

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"ServingGateway(url={self.url!r}, pid={self.pid!r})"


class StateInUse(ConfigError):
    """Another gateway serves this state folder."""


def find_running(state: Path) -> ServingGateway | None:
    """Return the gateway that serves this state folder; None when none runs and answers."""
    try:
        found = msgspec.json.decode(read_private(state / _FILE) or b"", type=ServingGateway)
        os.kill(found.pid, 0)
    except PermissionError:  # the process runs, as another user's
        pass
    except (OSError, OverflowError, msgspec.DecodeError):
        return None
    if not is_locked(state / _LOCK):
        return None
    if late.http_request.ask("GET", f"{found.url}/health", seconds=_SECONDS).status != 200:
        return None
    return structs.replace(found, token=read_operator_token(state) or "")


@contextlib.contextmanager
def claim_state(state: Path, remedy: str = _OWN_FOLDER) -> Iterator[None]:
    """Open a block in which this process alone serves the state folder. Raises `StateInUse` when another one does.

    `remedy` ends the message of that error. The system frees the lock however the process ends.
    """
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(state / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"state: {error.filename!r} can't be used: {error.strerror}. Set another folder.") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateInUse(f"A gateway serves the state folder {str(state)!r} already. {remedy}") from None
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def announce(state: Path, url: str, workspace: str = "") -> Iterator[None]:
    """Open a block in which other commands find the gateway at this address, its workspace and its PATH."""
    file = state / _FILE
    said = ServingGateway(url, os.getpid(), workspace=workspace, search_path=os.environ.get("PATH", ""))
    replace_private(file, msgspec.json.encode(said))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()


def write_ready(file: Path, url: str, token: str) -> None:
    """Tell a script that the gateway answers: {"url", "token", "pid"}, for its owner alone."""
    try:
        replace_private(file, msgspec.json.encode({"url": url, "token": token, "pid": os.getpid()}))
    except OSError as error:
        raise ConfigError(f"The ready file {str(file)!r} can't be written: {error.strerror}.") from None
