"""Threads for code that blocks. Daemons: what hangs must not keep the process from ending."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def run_aside(function: Callable[..., Any], *args: Any) -> Any:
    """What the function returns or raises, from a thread of its own. When the caller is cancelled, it is left alone."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result(value) if error is None else outcome.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args)
        except Exception as raised:
            error = raised
        except BaseException as raised:  # SystemExit ends a program, not this one
            error = RuntimeError(f"{type(raised).__name__}: {raised}")
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=work, name="handspan-tool", daemon=True).start()
    return await outcome
