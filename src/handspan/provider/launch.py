"""Starts the programs of a manifest as a consumer does (cetp.md 6.8, 6.10)."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from handspan.core.tasks import finish
from handspan.provider.connection import CallFailed

START_SECONDS: Final = 10.0
_PAUSE: Final = 0.05


class StartedProgram:
    """A program of a manifest, in a session of its own. It runs on when the process that started it ends.

    A program of `asyncio.subprocess` would be killed then.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.returncode: int | None = None
        """The exit code; None while it runs."""
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        threading.Thread(target=self._wait, name=f"waits for {self.pid}", daemon=True).start()

    async def wait(self) -> int:
        """Return the exit code, once the program has ended."""
        await self._ended.wait()
        assert self.returncode is not None  # `_end` has set it
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and its children. Nothing happens if it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def end(self, seconds: float, *, kills: bool = True) -> None:
        """Ask the program to end, and wait for so many seconds. `kills`: a program that still runs then is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL) if kills else (signal.SIGTERM,):
            self.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.wait()
                    return

    def _wait(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop of the one who started it is closed
            self._loop.call_soon_threadsafe(self._end, code)

    def _end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()


async def start_program(
    argv: list[str],
    socket_path: Path,
    environment: Mapping[str, str],
    intent: str = "",
    *,
    errors: IO[bytes] | int = subprocess.DEVNULL,
) -> StartedProgram:
    """Start a program of a manifest in a session of its own, without a terminal. Raises `CallFailed`.

    `errors`: the file that takes what the program writes to its standard error.
    """
    more = {"CETP_SOCKET": str(socket_path), **({"CETP_AUTHORIZE_INTENT": intent} if intent else {})}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            env={**environment, **more},
            cwd=environment.get("HOME") or "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )

    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return StartedProgram(await finish(starting))
    except asyncio.CancelledError:  # no caller knows of it: it shall neither stay nor be left as a zombie
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            StartedProgram(starting.result()).send_signal(signal.SIGTERM)
        raise
    except OSError as error:
        raise CallFailed(f"{argv[0]!r} can't be started: {error.strerror}") from None


async def wait_until_listening(
    path: Path, process: StartedProgram | None = None, seconds: float = START_SECONDS
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
        trial.setblocking(False)  # noqa: FBT003 - its only parameter
        try:
            trial.connect(os.fspath(path))
        except BlockingIOError:  # a process listens, and its queue is full
            return True
        except OSError:
            return False
        return True
