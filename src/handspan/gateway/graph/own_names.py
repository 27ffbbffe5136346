"""What clients call their tools, by the names that models know: for threads in which no run is at work."""

from collections.abc import Mapping, Sequence

from handspan.core.names import is_outside_name, outside_name
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.toolbook import set_of
from handspan.sources.browser import BrowserTool


async def own_names(doors: GraphDoors, thread: str, owner: str) -> Mapping[str, str]:
    """The names of the tools of clients that were called in this thread; of one name on two, the one called last."""
    names: dict[str, str] = {}
    for facts in await doors.store.threads.tools_called(thread, owner=owner):
        if facts.answered_by == "request" and facts.origin is not None:
            names |= names_of((await doors.book.of_run(facts.origin.name, None, set_of(facts.origin))).tools)
    return names


def names_of(tools: Sequence[BrowserTool]) -> dict[str, str]:
    """Own names by every name that a model may know a tool by; its first one counts most (http.md 3.6)."""
    names: dict[str, str] = {}
    prefixed = [(tool, f"{tool.node}__{tool.own_name}") for tool in tools]
    names |= {outside_name(name, taken=(name,)): tool.own_name for tool, name in prefixed}
    names |= {name: tool.own_name for tool, name in prefixed if is_outside_name(name)}
    names |= {tool.spec.name: tool.own_name for tool in tools}
    return names
