"""A call of a tool in another process through a peer: prints its p50. Runs where only that peer is installed.

Taken as our `remote_call_us` is: one call after another, both processes on one core, the best of several rounds, the
same arguments and an answer of a few characters. Each peer runs with the defaults of its packages, its log off, and its
own library at both ends. `bench/remote.py` measures ours twice: with our SDK at the other end (`remote_call_sdk_us`),
which is the fair comparison, and with as little as can be there (`remote_call_us`), which is the gateway's own share.
"""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn

from bench.peers.far_end import quiet, run

ROUNDS = 7
CALLS = 600
WARM_UP = 50
START_S, END_S, ALL_S = 30, 5, 200
"""Longest waits: until the other process answers, until it is gone, for everything."""
ARGUMENTS = {"text": "x" * 150}
"""As in bench/echoes.py: with what a protocol puts around it, about 270 bytes on the wire."""
REQUEST = {
    "type": "tool_call_request",
    "id": "550e8400-e29b-41d4-a716-446655440000",
    "name": "say",
    "args": ARGUMENTS,
}
"""Socket.IO has no form of its own for calls, so an application sends this one."""
FAR_END = ("-m", "bench.peers.far_end")

Call: TypeAlias = Callable[[], Awaitable[Any]]
"""One call; gives the id of the process that answered."""


@contextlib.asynccontextmanager
async def socketio() -> AsyncIterator[Call]:
    """Socket.IO's server calls a client and waits for the acknowledgement: the server begins, as our gateway does."""
    import socketio as peer  # type: ignore[import-not-found]  # noqa: PLC0415 - only one peer is installed

    server = peer.AsyncServer(async_mode="asgi")
    async with _serving(peer.ASGIApp(server)) as port, other_process("socketio", str(port)) as client:
        yield lambda: server.call("say", REQUEST, to=client)


@contextlib.asynccontextmanager
async def mcp_stdio() -> AsyncIterator[Call]:
    """The MCP SDK's client with a server on standard input and output."""
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415 - only one peer is installed

    server = StdioServerParameters(command=sys.executable, args=[*FAR_END, "mcp_stdio"], cwd=Path.cwd())
    async with Client(stdio_client(server)) as client:
        yield _mcp_call(client)


@contextlib.asynccontextmanager
async def mcp_http() -> AsyncIterator[Call]:
    """The MCP SDK's client with a server behind streamable HTTP."""
    from mcp import Client  # noqa: PLC0415 - only one peer is installed

    async with other_process("mcp_http") as port, Client(f"http://127.0.0.1:{port}/mcp") as client:
        yield _mcp_call(client)


@contextlib.asynccontextmanager
async def fastmcp_http() -> AsyncIterator[Call]:
    """FastMCP's client with a server behind streamable HTTP."""
    from fastmcp import Client  # noqa: PLC0415 - only one peer is installed

    async with other_process("fastmcp_http") as port, Client(f"http://127.0.0.1:{port}/mcp") as client:

        async def call() -> Any:
            return (await client.call_tool("say", ARGUMENTS)).data

        yield call


PEERS = {"socketio": socketio, "mcp_stdio": mcp_stdio, "mcp_http": mcp_http, "fastmcp_http": fastmcp_http}


def _mcp_call(client: Any) -> Call:
    async def call() -> Any:
        return (await client.call_tool("say", ARGUMENTS)).content[0].text

    return call


# The other process, and a server in this one.


@contextlib.asynccontextmanager
async def other_process(*arguments: str) -> AsyncIterator[str]:
    """What the far end says when it is there. It is gone afterwards, whatever happens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *FAR_END, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin and process.stdout
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        assert line, f"the far end of {arguments[0]!r} ended at once"
        yield line.decode().strip()
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[int]:
    """uvicorn with this application on any free port. It leaves signals alone: an interrupt has to end the run."""
    config = uvicorn.Config(
        app, port=0, lifespan="off", log_level="critical", access_log=False, timeout_graceful_shutdown=END_S
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        await server.shutdown()


# How time is taken.


async def _best_p50(call: Call) -> float:
    """Seconds for one call, both processes on one core, a core after another."""
    async with asyncio.timeout(START_S):
        answered = await call()
    cores = sorted(os.sched_getaffinity(0))
    best = float("inf")
    for turn in range(ROUNDS):
        _pin(cores[turn % len(cores)], os.getpid(), int(answered))
        best = min(best, await _p50(call, answered))
    return best


async def _p50(call: Call, answer: str) -> float:
    for _ in range(WARM_UP):
        await call()
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        answered = await call()
        taken.append(time.perf_counter() - began)
        assert answered == answer, answered
    return statistics.median(taken)


def _pin(core: int, *processes: int) -> None:
    """Every thread of these on one core: a peer may read its input on a thread."""
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread.name), {core})


async def main(peer: str) -> None:
    """Print what a call takes, in microseconds."""
    quiet()
    async with asyncio.timeout(ALL_S), PEERS[peer]() as call:
        us = await _best_p50(call) * 1e6
    print(json.dumps({"us": us}), flush=True)


if __name__ == "__main__":
    run(main(sys.argv[1]))
