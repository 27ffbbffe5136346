"""A gateway whose model answers the question of the seed's example: it calls both tools, then says what they gave.

Prints {"url", "token"}, and ends when its input does.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from handspan.core.messages import Message, ResultsMessage
from handspan.models.scripted import Scripted, call
from handspan.testing import running_gateway


def say_results(messages: Sequence[Message]) -> str:
    """The envelopes of both calls."""
    last = messages[-1]
    assert isinstance(last, ResultsMessage)
    return " ".join(result.envelope for result in last.results)


async def main() -> None:
    """Serve."""
    model = Scripted([[call("read_clipboard"), call("get_browser_locale")], say_results], loop=True)
    with TemporaryDirectory() as folder:
        async with running_gateway(Path(folder), model=model, gateway={"hosts": ["localhost:8000"]}) as gateway:
            sys.stdout.buffer.write(msgspec.json.encode({"url": gateway.url, "token": gateway.token}) + b"\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
