"""The engine inside your own program, without a gateway: `python -m examples.embedded`."""

import asyncio
import sys

from handspan import tool
from handspan.config.load import load_settings
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import Origin
from handspan.gateway.app import App


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with App(load_settings()) as app:
        app.registry.register(add, Origin("plugin", "sums"))
        calls = [ToolCall("add", {"a": n, "b": 1}, new_call_id()) for n in range(3)]
        for result in await app.engine.call_all(calls, app.caller()):
            sys.stdout.write(f"{result}\n")


asyncio.run(main())
