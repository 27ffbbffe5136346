"""The command in this process: through its own `main()`, with streams, environment and words as a shell gives them.

What a command leaves behind in its process is put back: handlers of the log, signals, the time zone.
"""

import asyncio
import contextlib
import gc
import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from handspan.cli.main import main

_SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def can_run_here() -> bool:
    """Return whether a command may have this thread: it needs the main one, for signals, and makes its own loop."""
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def run_here(words: Sequence[str], environ: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Return the exit code of the command."""
    gc.collect()  # a command tells the collector to skip all that is there, so there must be no garbage
    with _environment(environ), _streams(streams), _words(words), _signals(), _log():
        try:
            main()
        except SystemExit as ending:
            return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return 0


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        _set_environment(environ)
        yield
    finally:
        _set_environment(before)


def _set_environment(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()


@contextlib.contextmanager
def _streams(handles: tuple[int, int, int]) -> Iterator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    opened = open_streams(handles)
    sys.stdin, sys.stdout, sys.stderr = opened
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in opened:
            stream.close()


def open_streams(handles: tuple[int, int, int]) -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    """Return the three streams of these handles, as Python opens those of a process."""
    given, out, err = handles
    return (
        open(given, encoding="utf-8", closefd=False),
        io.TextIOWrapper(open(out, "wb", closefd=False), encoding="utf-8", line_buffering=os.isatty(out)),
        io.TextIOWrapper(open(err, "wb", closefd=False), "utf-8", "backslashreplace", line_buffering=True),
    )


@contextlib.contextmanager
def _words(words: Sequence[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["handspan", *words]
    try:
        yield
    finally:
        sys.argv = before


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextlib.contextmanager
def _log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
