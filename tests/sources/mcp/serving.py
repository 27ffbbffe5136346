"""An app with MCP servers, for tests."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from handspan.config.settings import Settings
from handspan.config.tool_settings import McpServer, ToolSettings
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import Progress, no_progress
from handspan.core.questions import Questions
from handspan.core.results import Pending, ToolResult
from handspan.gateway.app import App
from handspan.sources.mcp.connection import McpConnection
from tests.waiting import until

PROGRAM: Final = Path(__file__).with_name("server.py")
WITHOUT: Final = McpServer(command=sys.executable, args=("-I", "-S", str(PROGRAM)), internal_only=False)


def server(*options: str, **settings: Any) -> McpServer:
    """The test's own server, with these options and settings."""
    return replace(WITHOUT, **{"args": (*WITHOUT.args, *options), **settings})


@asynccontextmanager
async def app_with(folder: Path, *, questions: Questions | None = None, **servers: McpServer) -> AsyncIterator[App]:
    settings = Settings(folder / "workspace", folder / "state", tools=ToolSettings(mcp_servers=servers))
    async with App(settings, questions) as app:
        yield app


def connection(app: App, name: str = "bad") -> McpConnection:
    found = app.mcp.find(name)
    assert found is not None
    return found


async def ready(app: App, *names: str) -> None:
    for name in names or ("bad",):
        await until_status(connection(app, name), "ready")


async def until_status(one: McpConnection, status: str) -> None:
    await until(lambda: one.state.status == status)


async def call(app: App, name: str, progress: Progress = no_progress, **arguments: Any) -> ToolResult:
    result = await app.engine.call(ToolCall(name, arguments, new_call_id()), app.caller(progress=progress))
    assert not isinstance(result, Pending)
    return result
