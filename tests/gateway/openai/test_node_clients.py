"""Clients of OpenAI's API in Node: OpenAI's own, the AI SDK's, and its agents (SPEC F2)."""

import asyncio
import json
from typing import Any

import pytest

from tests.gateway.openai.kit import Front
from tests.sources.mcp.test_real_servers import NODE, ROOT
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CLIENTS = ("openai", "compatible", "agents")


async def ask(there: Front, client: str, text: str, *, key: str = "", model: str = "handspan") -> Any:
    """What the client gets: the text, how often its tool ran, and what went wrong."""
    words = (client, f"{there.gateway.url}/v1", key or there.gateway.token, model, text)
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(ROOT / "tests" / "node" / "openai_clients.mjs"), *words, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await soon(process.communicate())
    return json.loads(said)


@pytest.mark.parametrize("client", CLIENTS)
async def test_tools_of_both_sides_run_once_and_the_answer_comes(there: Front, client: str) -> None:
    held = there.hold()
    held.may_end.set()
    both = 'call hold\nthen\ncall get_weather {"city": "Rome"}\nthen\nIt is {results}'
    answer = await ask(there, client, both)
    assert '"sunny"' in answer["text"], answer
    assert (answer["ran"], held.count, answer["error"]) == (1, 1, "")


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_is_refused_says_why(there: Front, client: str) -> None:
    wrong, unknown = await asyncio.gather(
        ask(there, client, "Hello.", key="wrong"), ask(there, client, "Hello.", model="handspan/Nobody")
    )
    assert wrong["error"].startswith("401"), wrong
    assert unknown["error"].startswith("404") and "handspan/Nobody" in unknown["error"], unknown
