"""Commands in processes of their own that start at once: forks of one that has loaded the command."""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.cli.loaded import LARGEST, NUMBER

_ROOT: Final = Path(__file__).parents[2]
_WAIT: Final = 120.0


class Forked:
    """A command that was started."""

    def __init__(self, pid: int, answers: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answers = answers
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float = _WAIT) -> int:
        """The exit code, once it has ended; a signal's number is negative."""
        with self._lock:
            if self.returncode is None:
                if not select.select([self._answers], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("handspan", timeout)
                (self.returncode,) = NUMBER.unpack(self._answers.recv(NUMBER.size))
                self._answers.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its parent reaps it before it tells its exit code
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)


class Loaded:
    """The process that has loaded the command; it ends with this one."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.cli.loaded", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()

    def start(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        at_terminal: bool = False,
    ) -> Forked:
        """A command with these streams; `at_terminal`: they are a terminal, and it is to be the command's own."""
        request = json.dumps({"words": words, "environ": dict(environ), "at_terminal": at_terminal}).encode()
        assert len(request) <= LARGEST
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._requests, [request], [*streams, theirs.fileno()])
        assert select.select([ours], [], [], _WAIT)[0], "it has not started in time"
        (pid,) = NUMBER.unpack(ours.recv(NUMBER.size))
        return Forked(pid, ours)

    def close(self) -> None:
        """End it."""
        self._requests.close()
        self._process.wait(_WAIT)


@functools.cache
def loaded() -> Loaded:
    """The one of this process, started when it is first needed."""
    made = Loaded()
    atexit.register(made.close)
    return made


def run_forked(words: Sequence[str], environ: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Return the exit code of a command that has a process of its own."""
    process = loaded().start(words, environ, streams)
    try:
        return process.wait()
    finally:
        process.kill()
