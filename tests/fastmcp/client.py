"""A program: fastmcp's client. Lists the tools at an address, calls one, and prints both as JSON.

`python client.py auto|legacy URL TOKEN TOOL`, with the Python of `.venv-fastmcp`. It imports nothing of ours.
"""

import asyncio
import json
import sys

from fastmcp import Client


async def main(mode: str, url: str, token: str, tool: str) -> None:
    """Print what the server has and what the tool gives."""
    async with Client(url, auth=token, mode=mode) as client:
        tools = [one.name for one in await client.list_tools()]
        result = await client.call_tool_mcp(tool, {})
        missing = await client.call_tool("read_file", {"path": "missing.txt"}, raise_on_error=False)
        failure = {"is_error": missing.is_error, "text": missing.content[0].text}
        protocol = client.protocol_version
    dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    sys.stdout.write(json.dumps({"protocol": protocol, "tools": tools, "result": dumped, "failure": failure}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
