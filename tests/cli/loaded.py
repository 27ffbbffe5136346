"""A process that has loaded the command, and runs it in a fork of itself whenever it is asked to.

For commands that need a terminal or go on beside the test; the others run in the process of the tests (`here.py`).

A start of Python that loads the command takes a quarter of a second, a fork some milliseconds. The fork is a whole
process: it has its own streams, environment, terminal and signals. It ends as Python ends, up to the point where
Python would free the memory of all that is loaded.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Final

import httpx2

import handspan
from handspan.cli.main import main
from tests.certificates import read_certificates_once
from tests.cli.here import open_streams

LARGEST: Final = 1 << 17
"""Bytes of a request."""
NUMBER: Final = struct.Struct("i")
"""An answer: first the process id, then the exit code (of a signal: its number, negative)."""

_STREAMS: Final = 3
_LATE: Final = (
    *("charset_normalizer", "difflib", "http.client", "idna", "importlib.metadata", "tomllib"),
    *("anyio._backends._asyncio", "importlib.readers", "tzdata", "uvloop", "yaml", "zoneinfo"),
)
"""What commands load only when they need it. Not `readline`: it looks at the terminal when it is loaded."""


class Forks:
    """Forks for every request on a socket, and answers with the id and the exit code of what it forked."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._ready = selectors.DefaultSelector()
        self._ready.register(requests, selectors.EVENT_READ)
        self._asked: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Return in each fork, once it has what was asked for; exit when nobody asks any more."""
        while True:
            for key, _ in self._ready.select():
                if key.fileobj is not self._requests:
                    self._answer(key.fd, key.data)
                elif self._fork():
                    return

    def _fork(self) -> bool:
        """Whether this is the fork."""
        message, handles, _, _ = socket.recv_fds(self._requests, LARGEST, _STREAMS + 1)
        if not message:
            sys.exit(0)
        pid = os.fork()
        if pid == 0:
            self._close()
            _become(handles[:_STREAMS], **json.loads(message))
            os.close(handles[_STREAMS])
            return True
        for handle in handles[:_STREAMS]:
            os.close(handle)
        watched = os.pidfd_open(pid)
        self._ready.register(watched, selectors.EVENT_READ, pid)
        self._asked[watched] = socket.socket(fileno=handles[_STREAMS])
        self._asked[watched].send(NUMBER.pack(pid))
        return False

    def _answer(self, watched: int, pid: int) -> None:
        self._ready.unregister(watched)
        os.close(watched)
        _, status = os.waitpid(pid, 0)
        with self._asked.pop(watched) as asked:
            asked.send(NUMBER.pack(os.waitstatus_to_exitcode(status)), socket.MSG_NOSIGNAL)

    def _close(self) -> None:
        for watched, asked in self._asked.items():
            os.close(watched)
            asked.close()
        self._ready.close()
        self._requests.close()


class Ended:
    """The end of a fork: threads are awaited and exit functions called, as always; then it is over."""

    def __init__(self) -> None:
        self._is_begun = False
        self._code: object = 1

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """A block that ends the process; what it says is the exit code."""
        self._is_begun = True
        try:
            yield
            self._code = 0
        except SystemExit as ending:
            self._code = ending.code
            raise

    def end(self) -> None:
        """End it, if it is a fork."""
        if self._is_begun:
            sys.stdout.flush()
            os._exit(self._code if isinstance(self._code, int) else int(self._code is not None))


def _become(streams: list[int], words: list[str], environ: dict[str, str], at_terminal: bool) -> None:
    """Be the process that was asked for: its streams, its environment, its words."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if at_terminal:  # the one that Ctrl-C comes from
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under `nohup`, which no terminal does
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.argv = ["handspan", *words]
    sys.stdin, sys.stdout, sys.stderr = open_streams((0, 1, 2))


def _load(package: ModuleType) -> None:
    """Import every module of a package that is no program."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


if __name__ == "__main__":
    _load(handspan)
    for late in _LATE:
        importlib.import_module(late)
    read_certificates_once()
    for trust_env in (True, False):
        httpx2.create_ssl_context(trust_env=trust_env)
    gc.collect()
    gc.freeze()  # what is loaded stays: no fork needs to look through it
    ended = Ended()
    atexit.register(ended.end)  # the first one that is registered is the last one that is called
    Forks(socket.socket(fileno=int(sys.argv[1]))).serve()
    with ended.noted():
        main()
