"""An agent with tools inside your own program, without a gateway: `python -m examples.embedded`."""

import asyncio
import sys

from handspan import Handspan, tool
from handspan.models.scripted import Scripted, call


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = Scripted([call("add", a=19, b=23), "It is 42."])  # "offline", or "anthropic:…", would do as well
    async with Handspan(tools=[add], model=model) as hands:
        for result in await asyncio.gather(*(hands.call("add", {"a": n, "b": 1}) for n in range(3))):
            sys.stdout.write(f"{result}\n")
        answer = await hands.ask("What is 19 and 23?")
        assert answer.calls[0].result == 42
        sys.stdout.write(f"{answer}\n")


if __name__ == "__main__":
    asyncio.run(main())
