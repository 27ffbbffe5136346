"""A child's pipe is closed once: a second close would hit the file that a thread opened under the same number."""

import asyncio
import os
from collections.abc import Callable
from io import FileIO
from typing import IO

import pytest
import uvloop

from handspan.tools.processes import detach_pipe

_LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("make_loop", _LOOPS.values(), ids=_LOOPS)
def test_a_pipe_is_closed_either_by_its_loop_or_by_its_file(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def count_closes() -> None:
        pipe = detach_pipe(FileIO(_open_pipe()))
        descriptor = pipe.fileno()
        pipe.close()
        is_closed_by_file = _make_sure_it_is_closed(descriptor)
        descriptor = _open_pipe()
        await _read_to_the_end(FileIO(descriptor, closefd=False))
        is_closed_by_loop = _make_sure_it_is_closed(descriptor)
        assert is_closed_by_file != is_closed_by_loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(count_closes())


@pytest.mark.parametrize("make_loop", _LOOPS.values(), ids=_LOOPS)
def test_a_pipe_that_was_read_to_its_end_is_closed(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def check() -> None:
        before = FileIO(_open_pipe())
        pipe = detach_pipe(before)
        descriptor = pipe.fileno()
        await _read_to_the_end(pipe)
        assert before.closed
        assert _make_sure_it_is_closed(descriptor)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(check())


def _open_pipe() -> int:
    """Return the reading end of a pipe that nobody writes to any more."""
    ours, theirs = os.pipe()
    os.close(theirs)
    return ours


async def _read_to_the_end(pipe: IO[bytes]) -> None:
    gone = asyncio.Event()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _Ending(gone), pipe)
    async with asyncio.timeout(10):
        await gone.wait()
    transport.close()


def _make_sure_it_is_closed(descriptor: int) -> bool:
    """Return whether this descriptor was closed already."""
    try:
        os.close(descriptor)
    except OSError:
        return True
    return False


class _Ending(asyncio.Protocol):
    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
