"""A search among very many tools, as a model makes it: through the engine, with the index at hand."""

from collections.abc import Iterable
from pathlib import Path

from bench.figures import Figure, best_cpu
from bench.house import House
from handspan.core.context import ToolContext
from handspan.core.principals import Origin
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments, JsonObject
from handspan.tools.search_tools import SearchTools

MANY = 2000
_VERBS = ("create", "list", "update", "delete", "search", "send", "read", "merge", "close", "open")
_NOUNS = ("issue", "repository", "message", "calendar event", "invoice", "ticket", "file", "user", "branch", "photo")
_QUERY = b'{"query": "update the title of a calendar event for a user, then send a message"}'


class _NumberedTool:
    """One of many tools, described as MCP servers describe theirs."""

    def __init__(self, number: int) -> None:
        verb, noun, place = _VERBS[number % 10], _NOUNS[number // 10 % 10], number // 100
        text = f"{verb.title()} a {noun} in workspace {place}. Returns the {noun} with its id, title and state. " * 3
        properties: JsonObject = {
            name: {"type": "string", "description": f"The {name} of the {noun}, as text of at most 200 characters."}
            for name in ("title", "state", "owner", f"field_{number}")
        }
        name = f"server{place}__{verb}_{noun.replace(' ', '_')}_{number}"
        self.spec = ToolSpec(name, text, {"type": "object", "properties": properties})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> None:
        """Do nothing."""


async def measure(folder: Path) -> Iterable[Figure]:
    """`search_tools_2000`."""
    house = House(folder)
    house.registry.register(SearchTools())
    house.registry.replace(Origin("mcp", "many"), [_NumberedTool(number) for number in range(MANY)])

    async def ours() -> bytes:
        return await house.call("search_tools", _QUERY)

    assert b"update_calendar_event" in await ours()
    took = await best_cpu({"ours": ours})
    return [Figure("search_tools_2000", took["ours"] / 1000, f"ms CPU, {MANY} tools", target=5, line=5)]
