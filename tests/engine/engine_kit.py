"""A real registry, ledger and engine for tests, with short methods for what tests do with them."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from handspan.core.agents import GENERAL, Agent
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.context import Deadline, Progress, no_progress
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, OPERATOR, Origin, Principal
from handspan.core.results import Failure, Pending, Success, ToolResult
from handspan.core.signature import AnyFunction
from handspan.core.tool import Tool
from handspan.core.values import Arguments, Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.registry.entry import Entry
from handspan.registry.registry import Registry, RegistryRules
from tests.memory_ledger import MemoryLedger
from tests.open_questions import OpenQuestions
from tests.stores import open_artifacts
from tests.waiting import WAIT


class EngineKit:
    """A registry, a ledger and an engine."""

    def __init__(self, folder: Path, rules: RegistryRules | None = None, **engine: Any) -> None:
        self.registry = Registry(rules)
        self.ledger = MemoryLedger()
        self.artifacts = open_artifacts(folder / "artifacts")
        parts = {"artifacts": self.artifacts, "workspace": folder, "ledger": self.ledger, "questions": OpenQuestions()}
        self.engine = Engine(**{**parts, **engine})

    def add(self, function: AnyFunction | Tool, origin: Origin = BUILTIN, **about: Any) -> Entry:
        """Register a tool, or a function as one."""
        if not hasattr(function, "spec"):
            function = tool(**{"description": "Made for a test.", **about})(function)
        return self.registry.register(cast(Tool, function), origin)

    def caller(
        self,
        agent: Agent = GENERAL,
        who: Principal = OPERATOR,
        session: str = "session-1",
        progress: Progress = no_progress,
    ) -> Caller:
        return Caller(who, agent, self.registry.toolbox(agent, who, session), session, progress)

    async def call(
        self,
        name: str,
        arguments: Arguments | bytes | str = b"",
        *,
        caller: Caller | None = None,
        call_id: str = "",
        deadline: Deadline | None = None,
    ) -> ToolResult | Pending:
        call = ToolCall(name, arguments, call_id or new_call_id(), deadline)
        async with asyncio.timeout(WAIT):
            return await self.engine.call(call, caller or self.caller())

    async def value(self, name: str, arguments: Arguments | bytes | str = b"", **more: Any) -> Json:
        """The value of a call that has to succeed."""
        result = await self.call(name, arguments, **more)
        assert isinstance(result, Success), result
        return result.value

    async def failure(self, name: str, arguments: Arguments | bytes | str = b"", **more: Any) -> Failure:
        """The failure of a call that has to fail."""
        result = await self.call(name, arguments, **more)
        assert isinstance(result, Failure), result
        return result

    def journal(self) -> list[CallRecord]:
        return list(self.ledger.journal())

    def last(self) -> CallRecord:
        """The record of the call that was finished last."""
        return self.journal()[-1]

    def start(self, name: str, arguments: Arguments | bytes | str = b"", **more: Any) -> "asyncio.Task[Any]":
        """A call that runs beside the test."""
        return asyncio.create_task(self.call(name, arguments, **more))


async def soon(*events: asyncio.Event) -> None:
    """Wait until all of these happened."""
    async with asyncio.timeout(WAIT):
        for event in events:
            await event.wait()


async def outcome_of(tasks: Iterable["asyncio.Task[Any]"]) -> list[Any]:
    """What became of the tasks, exceptions included."""
    async with asyncio.timeout(WAIT):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def call_all(engine: Engine, calls: Iterable[ToolCall], caller: Caller) -> list[ToolResult | Pending]:
    """Run several calls at the same time. Return their results in the order of the calls, when each has one."""
    tasks = [asyncio.create_task(engine.call(call, caller)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except asyncio.CancelledError:
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def left_behind() -> list["asyncio.Task[Any]"]:
    """The tasks that a test left running; those of the test runner itself are not meant."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    return [task for task in tasks if "TestRunner" not in repr(task.get_coro())]
