"""Ctrl-C: what it does now, in one place. Where it ends a command, the exit code is 130 (see `main`)."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")
Act: TypeAlias = Callable[[], object]

_act: Final[ContextVar[Act | None]] = ContextVar("_act", default=None)
"""What Ctrl-C does now; None outside of every block."""


async def until_ctrl_c(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a command's work. Ctrl-C cancels the work, and raises `KeyboardInterrupt`.

    asyncio's own way misses a Ctrl-C that comes just before the loop waits.
    """
    task = asyncio.current_task()
    assert task is not None
    with hear_ctrl_c(task.cancel):
        try:
            return await work
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


@contextlib.contextmanager
def hear_ctrl_c(act: Act) -> Iterator[None]:
    """Open a block in which Ctrl-C calls `act` and does nothing else. Of nested blocks the innermost counts."""
    outer = _act.get()
    token = _act.set(act)
    _listen(act)
    try:
        yield
    finally:
        _act.reset(token)
        _listen(outer)


def _listen(act: Act | None) -> None:
    """Let Ctrl-C call `act`; None: as it is by default."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a command in the background ignores Ctrl-C
        return
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets signals
        if act is None:
            loop.remove_signal_handler(signal.SIGINT)
        else:
            loop.add_signal_handler(signal.SIGINT, act)
