"""A program: our MCP server with the fixtures of the suite. It prints its address and serves until it is terminated."""

import asyncio
import sys

import uvicorn

from handspan.core.version import VERSION
from handspan.mcp.protocol import ProtocolServer, make_asgi
from handspan.mcp.shell import LOCAL_HOSTS
from tests.conformance.offer import FixtureOffer
from tests.conformance.sdk_fixtures import PROMPTS, TOOLS, MemoryEvents, add_fixtures


async def main() -> None:
    server = ProtocolServer(FixtureOffer(TOOLS, PROMPTS), "handspan-conformance", VERSION)
    add_fixtures(server)
    app = make_asgi(server, "/mcp", LOCAL_HOSTS, MemoryEvents())
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="on")
    web = uvicorn.Server(config)
    serving = asyncio.create_task(web.serve())
    while not web.started and not serving.done():
        await asyncio.sleep(0.01)  # uvicorn has no event for that
    sys.stdout.write(f"http://localhost:{web.servers[0].sockets[0].getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
