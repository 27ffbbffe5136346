"""Starts the programs of a manifest as a consumer does (cetp.md 6.8, 6.10)."""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from handspan.provider.connection import CallFailed

START_SECONDS: Final = 10.0
_PAUSE: Final = 0.05


async def start_program(
    argv: list[str],
    socket_path: Path,
    environment: Mapping[str, str],
    intent: str = "",
    *,
    errors: IO[bytes] | int = asyncio.subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """Start a program of a manifest in a session of its own, without a terminal. Raises `CallFailed`.

    `errors`: the file that takes what the program writes to its standard error.
    """
    more = {"CETP_SOCKET": str(socket_path), **({"CETP_AUTHORIZE_INTENT": intent} if intent else {})}
    nothing = asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            env={**environment, **more},
            cwd=environment.get("HOME") or "/",
            stdin=nothing,
            stdout=nothing,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise CallFailed(f"{argv[0]!r} can't be started: {error.strerror}") from None


async def wait_until_listening(
    path: Path, process: asyncio.subprocess.Process | None = None, seconds: float = START_SECONDS
) -> None:
    """Return when a process listens on this socket. Raises `CallFailed` when none does in time."""
    ended = ""
    try:
        async with asyncio.timeout(seconds):
            while not is_listening(path):
                if process is not None and process.returncode not in (None, 0):
                    ended = f": it ended with exit code {process.returncode}"
                    break
                await asyncio.sleep(_PAUSE)  # a socket that does not exist yet can't be waited for
            else:
                return
    except TimeoutError:
        ended = f" within {seconds:g} seconds"
    raise CallFailed(f"no process listens on {str(path)!r}{ended}")


def is_listening(path: Path) -> bool:
    """Whether a process listens on this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.setblocking(False)
        try:
            trial.connect(os.fspath(path))
        except BlockingIOError:  # a process listens, and its queue is full
            return True
        except OSError:
            return False
        return True
