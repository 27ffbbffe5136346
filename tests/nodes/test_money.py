"""One budget of two gateways, with turns side by side at both: what may be spent, and what may be refused (SPEC L5)."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Text, Usage, UserMessage
from handspan.core.tool import ToolSpec
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection, Replied
from tests.nodes.gateways import ask, nodes_here
from tests.waiting import soon

pytestmark = pytest.mark.anyio

BUDGET: Final = 4.0
PRICED: Final = {
    "base_url": "http://127.0.0.1:9/v1",
    "price": {"input": 1000, "output": 1000},
    "options": {"max_tokens": 1000},
}
"""A dollar for a thousand tokens: a request may cost a dollar and what it sends."""
AT_ONCE: Final = 3
"""So many requests fit into the budget at the same time."""
COSTS: Final = (0.2, 1.7, 0.4, 0.1, 0.3, 1.9, 0.2, 0.5, 0.1, 0.6, 0.2, 0.4)
"""What the requests of the turns cost: two of them more than was reserved for them."""
_REFUSED: Final = re.compile(r"a day \$([\d.]+) are spent\. The next request may cost \$([\d.]+)\.")


class Counted:
    """A model that costs what the message says. Its first requests wait until as many run as fit into the budget."""

    name = "priced"

    def __init__(self) -> None:
        self.running = self.most = 0
        self._is_full = asyncio.Event()

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == AT_ONCE:
            self._is_full.set()
        await self._is_full.wait()
        assert isinstance(projection, KeptMessages)
        (message,) = projection.messages
        assert isinstance(message, UserMessage) and isinstance(message.parts[0], Text)
        output = round(float(message.parts[0].text) * 1000)
        self.running -= 1
        yield Replied(AssistantMessage((Text("Paid."),), model=self.name, usage=Usage(0, output)))


async def test_no_more_is_spent_than_the_budget_and_a_request_is_refused_only_for_what_is_spent(tmp_path: Path) -> None:
    model, agents = Counted(), {"Plain": {"tools": [], "instructions": "Be brief."}}
    given: dict[str, Any] = {"agents": agents, "default_agent": "Plain", "models": {"priced": PRICED}}
    async with nodes_here(tmp_path, "all", "all", model=model, budget={"day": BUDGET}, **given) as nodes:
        token = await nodes[0].gateway.parts.auth.issue("ann", ("chat",), "x")  # she can add no money

        async def say(number: int, dollars: float) -> dict[str, Any]:
            """What a turn of her own session answers."""
            more = {"token": token, "extra_headers": {"x-session-id": f"s{number}"}}
            told: dict[str, Any] = await ask(nodes[number % 2], "POST", "/webhook", {"message": str(dollars)}, **more)
            return told

        told = await soon(asyncio.gather(*(say(number, dollars) for number, dollars in enumerate(COSTS))))
        refused = [_REFUSED.search(one["error"]) for one in told if "error" in one]
        (day,) = (await ask(nodes[1], "GET", "/api/budgets"))["budgets"]

    answered = [dollars for dollars, one in zip(COSTS, told, strict=True) if one.get("response") == "Paid."]
    assert len(answered) >= AT_ONCE and len(answered) + len(refused) == len(COSTS)
    assert refused, "together they cost more than there is"
    (estimate,) = {float(found[2]) for found in refused if found is not None}
    assert 1 <= estimate * AT_ONCE <= BUDGET < estimate * (AT_ONCE + 1)
    assert model.most == AT_ONCE, "at both nodes together no more run than may be paid"
    assert (day["spent"], day["reserved"]) == (pytest.approx(sum(answered)), 0)
    assert day["spent"] <= BUDGET + sum(max(0.0, dollars - estimate) for dollars in answered)
    for found in refused:
        assert found is not None, [one["error"] for one in told if "error" in one]
        assert float(found[1]) + float(found[2]) > BUDGET, "it would have fitted with nothing under way"
