"""An engine with a registry to measure, and the tool that every figure of dispatch calls."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.memory_ledger import MemoryLedger

from bench.bare import ARGUMENTS, add
from handspan import tool
from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import ToolContext, no_progress
from handspan.core.function_tool import FunctionTool
from handspan.core.principals import OPERATOR
from handspan.core.results import Pending, encode_envelope, succeed
from handspan.engine.caller import Caller, read_arguments
from handspan.engine.engine import Engine
from handspan.registry.registry import Registry
from handspan.store.artifacts import FolderArtifacts

RAW = b'{"a": 2, "b": 3}'


async def add_later(a: int, b: int) -> int:
    """Add two numbers after a breath."""
    await asyncio.sleep(0)
    return a + b


async def nap() -> None:
    """Sleep for 50 ms."""
    await asyncio.sleep(0.05)


class House:
    """What a door of the gateway has at hand when a call comes in."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry()
        for function in (add, add_later, nap):
            self.registry.register(tool(function))
        self.ledger = MemoryLedger()
        self.engine = Engine(FolderArtifacts(folder), folder, ledger=self.ledger)
        self.caller = Caller(OPERATOR, GENERAL, self.registry.toolbox(GENERAL, OPERATOR))
        found = self.caller.box.find("add")
        assert found is not None
        self._add = found
        self._ctx = ToolContext("call-1", OPERATOR, "", None, no_progress, FolderArtifacts(folder), folder)

    async def call(self, name: str, raw: bytes = RAW) -> bytes:
        """The whole way: an id, look-up, JSON in, schema, policy, deadline, ledger, envelope, JSON out."""
        result = await self.engine.call(ToolCall(name, raw, new_call_id()), self.caller)
        assert not isinstance(result, Pending)
        return encode_envelope(result)

    async def bare(self, raw: bytes = RAW) -> str:
        """Our parts alone: JSON in, validated, called, JSON out. No id, no policy, no deadline, no ledger."""
        arguments = read_arguments(self._add, raw)
        return succeed(await self._add.tool.run(arguments, self._ctx)).encoded.decode()


def tool_named(name: str) -> FunctionTool[..., Any]:
    """One more tool like `add`."""
    return tool(name=name)(add)


async def floor_suspending() -> str:
    """The bare call of the tool that suspends once."""
    return json.dumps(await add_later(**ARGUMENTS))
