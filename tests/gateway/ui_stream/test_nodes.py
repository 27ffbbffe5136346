"""A page whose requests come to another node than the one that runs its turn (SPEC F5, K1)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.principals import Origin
from tests.gateway.openai.kit import Held
from tests.gateway.ui_stream.kit import Page, Pages
from tests.nodes.gateways import nodes_here
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


async def test_a_page_resumes_and_stops_at_another_node(tmp_path: Path, pages: Pages) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes:
        held = Held()
        nodes[0].gateway.parts.app.registry.register(held, Origin("plugin", "tests"))
        opened = []
        for number, node in enumerate(nodes):
            name = f"node{number}"
            await soon(pages.order(name, "open", id="c1", api=f"{node.url}/ui", token=nodes[0].token))
            opened.append(Page(pages, name))
        here, there = opened
        running = here.begin("One.\ncall hold\nthen\nTwo.")
        await soon(held.is_at_work.wait())
        await here.until(has="dynamic-tool")
        following = asyncio.ensure_future(there.resume())
        await there.until(has="dynamic-tool")
        held.may_end.set()
        first, second = await soon(asyncio.gather(running, following))
        assert (first.text, second.text) == ("One.Two.", "One.Two.")
        assert second.messages == first.messages[1:]
        again = await there.say("And now?")
        assert again.text == "And now?"
