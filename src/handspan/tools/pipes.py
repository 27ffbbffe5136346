"""The pipes of a child process for the event loop: each descriptor is closed once, by the loop that runs."""

import asyncio
import os
from typing import IO


def hand_over(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a copy of this end of a pipe for `connect_read_pipe` or `connect_write_pipe`, and close `pipe`.

    uvloop closes the descriptor of a pipe and then the file object. The second close would close a file that another
    thread has opened under the same number meanwhile. So the file object closes its descriptor only for asyncio's loop.
    """
    assert pipe is not None  # the child was started with this pipe
    is_closed_by_file = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    with pipe:
        return open(os.dup(pipe.fileno()), pipe.mode, buffering=0, closefd=is_closed_by_file)
