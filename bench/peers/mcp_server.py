"""A call through a peer's MCP server, against the SDK's own server: prints the ratio. Runs in the peer's environment.

Taken as our `mcp_server_call` is: the official client, one call after another, the servers in processes of their own
that take turns, the best of many rounds. Neither server stores anything.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

from bench.peers.far_end import quiet, run
from bench.peers.remote import ALL_S, ARGUMENTS, other_process

ROUNDS = 40
CALLS = 25
PEERS = {"fastmcp": "fastmcp_http"}
"""The peer, and its server in `far_end.py`."""


async def main(peer: str) -> None:
    """Print how many times as long a call takes as with the SDK's own server."""
    quiet()
    from mcp import Client  # noqa: PLC0415 - only one peer is installed

    best: dict[str, float] = {}
    async with asyncio.timeout(ALL_S), AsyncExitStack() as stack:
        clients: dict[str, Any] = {}
        for server in (PEERS[peer], "mcp_plain_http"):
            port = await stack.enter_async_context(other_process(server))
            clients[server] = await stack.enter_async_context(Client(f"http://127.0.0.1:{port}/mcp", cache=None))
        for _ in range(ROUNDS):
            for server, client in clients.items():
                began = time.perf_counter()
                for _ in range(CALLS):
                    await client.call_tool("say", ARGUMENTS)
                best[server] = min(best.get(server, float("inf")), time.perf_counter() - began)
    print(json.dumps({"ratio": best[PEERS[peer]] / best["mcp_plain_http"]}), flush=True)


if __name__ == "__main__":
    run(main(sys.argv[1]))
