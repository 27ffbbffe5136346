"""How long a peer takes from its import to the first answer of an agent with one tool, as our `hands_start`.

Runs where only that peer is installed, and prints the figure as JSON.
"""

import json
import sys
from typing import Final

from bench.peers.slices import best_start

TRIES: Final = 15

PYDANTIC_AI: Final = """
import asyncio
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
def get_weather(city: str) -> str:
    "The weather of a city."
    return f"It is sunny in {city}."
async def main():
    agent = Agent(TestModel(custom_output_text="It is sunny."), tools=[get_weather])
    answer = await agent.run("What is the weather in Paris?")
    assert len(answer.all_messages()) == 4 and answer.output == "It is sunny."
asyncio.run(main())
"""
"""Its `TestModel` calls every tool once, and then answers."""

PEERS: Final = {"pydantic_ai": PYDANTIC_AI}


def main(peer: str) -> None:
    """Print the ratio to `import asyncio, json` in the same environment."""
    took = best_start({"nothing": "pass", "floor": "import asyncio, json", "peer": PEERS[peer]}, TRIES)
    print(json.dumps({"ratio": (took["peer"] - took["nothing"]) / (took["floor"] - took["nothing"])}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
