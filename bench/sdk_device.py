"""A device that is a program with our Python SDK, as anybody would write it. The other half of `remote_call_sdk`.

`python -m bench.sdk_device URL TOKEN LABEL LOOP`: offers `say` (async) and `say_aside` (a plain function, so it runs on
a thread) on the event loop LOOP: `uvloop` or `asyncio`. It prints `ready` when the gateway has answered, and ends when
its standard input does.
"""

import asyncio
import sys

import uvloop

from handspan.client import Client


async def main() -> None:
    """Connect, answer, end."""
    url, token, label, _ = sys.argv[1:5]
    client = Client(url, token, label=label)

    @client.tool
    async def say(text: str) -> str:
        """Say something."""
        return "done"

    @client.tool
    def say_aside(text: str) -> str:
        """Say something, on a thread."""
        return "done"

    async with client:
        print("ready", flush=True)
        await _end_of_input()


async def _end_of_input() -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await lines.read()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[4] == "uvloop" else None) as runner:
        runner.run(main())
