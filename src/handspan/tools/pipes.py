"""The pipes of a child process, as the event loop uses them: each descriptor is closed once, by the loop that runs."""

import asyncio
import os
from typing import IO


def hand_over(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return this end of a pipe for `connect_read_pipe` or `connect_write_pipe`, which then owns it; `pipe` is closed.

    uvloop closes a pipe's descriptor and then the file object. That second close would hit whatever file another
    thread has opened under the same number meanwhile. So its file object must not close; asyncio's is the only one that
    does.
    """
    assert pipe is not None  # the child was started with it
    is_closed_by_file = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    with pipe:
        return open(os.dup(pipe.fileno()), pipe.mode, buffering=0, closefd=is_closed_by_file)
