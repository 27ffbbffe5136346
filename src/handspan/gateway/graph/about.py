"""What there is: the agent as a graph, the form of its state, the tools that it may use (graph.md 9.1 to 9.3)."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from handspan.core.agents import Agent
from handspan.core.calls import new_call_id
from handspan.core.principals import Origin, OriginKind
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.following import MODEL, TOOLS
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.message import AsgiRequest
from handspan.registry.toolbox import Toolbox
from handspan.sources.graph import GraphTool
from handspan.wire.graph.answers import (
    EdgeShown,
    GraphAnswer,
    GraphState,
    NodeShown,
    NodeTools,
    ToolsAnswer,
    ToolShown,
)

_START: Final = "__start__"
_END: Final = "__end__"
_NODES: Final = tuple(NodeShown(name, name) for name in (_START, MODEL, TOOLS, _END))
_EDGES: Final = tuple(
    EdgeShown(f"{source}-{target}", source, target)
    for source, target in ((_START, MODEL), (MODEL, TOOLS), (TOOLS, MODEL), (MODEL, _END))
)
_SOURCES: Final[Mapping[OriginKind, str]] = {"builtin": "local", "plugin": "local", "mcp": "mcp"}
"""All others run elsewhere."""


async def about(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> GraphAnswer:
    """The agent as a graph: the model, and its tools."""
    agent = await _agent(doors, client, request)
    info: JsonObject = {
        "node_count": len(_NODES),
        "edge_count": len(_EDGES),
        "is_realtime": False,
        "checkpointer": True,
        "checkpointer_type": "sqlite",
        "publisher": False,
        "store": True,
        "interrupt_before": [],
        "interrupt_after": [TOOLS],
        "context_type": None,
        "id_generator": "number in the thread",
        "id_type": "string",
        "state_type": GraphState.__name__,
        "state_fields": list(GraphState.__struct_fields__),
        "agent": agent.name,
    }
    return GraphAnswer(info, _NODES, _EDGES)


async def state_schema(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> JsonObject:
    """The JSON Schema of a thread's state."""
    return _state_schema()


async def tools(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ToolsAnswer:
    """What the agent may use: what the gateway has, and what this client has set up, by its nodes."""
    agent = await _agent(doors, client, request)
    offered = await doors.book.of_client(client.id)
    nodes = _tools(doors, client, agent, offered)
    listed = [NodeTools(name, len(nodes[name]), nodes[name]) for name in nodes]
    return ToolsAnswer(len(listed), sum(node.tool_count for node in listed), listed)


async def _agent(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> Agent:
    named = request.query_params.get("agent")
    return (await doors.agents.find(named, owner=client.who.owner)).agent


def _tools(
    doors: GraphDoors, client: GraphClient, agent: Agent, offered: Sequence[GraphTool]
) -> dict[str, list[ToolShown]]:
    """The tools by node, exactly as a run would have them: they are lent to a thread that nobody else knows."""
    thread = new_call_id()
    nodes: dict[str, list[ToolShown]] = {TOOLS: []}
    with doors.tools.register(offered, agent.nodes, Origin("browser", client.id, thread), thread) as lent:
        box = doors.registry.toolbox(agent, client.who, thread, in_turn=True)
        for spec in box.specs():
            own = lent.get(spec.name)
            if own is None:
                nodes[TOOLS].append(_shown(spec, spec.name, _source(box, spec)))
            else:
                nodes.setdefault(own.node, []).append(_shown(spec, own.own_name, "remote"))
    return nodes


def _source(box: Toolbox, spec: ToolSpec) -> str:
    entry = box.find(spec.name)
    return "local" if entry is None else _SOURCES.get(entry.origin.kind, "remote")


def _shown(spec: ToolSpec, name: str, source: str) -> ToolShown:
    return ToolShown(name, spec.description, source, spec.parameters)


@cache
def _state_schema() -> JsonObject:
    """With the state itself at the root, where clients look for its fields."""
    schema: JsonObject = msgspec.json.schema(GraphState)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict), "a class that has others in it is defined beside them"
    root = definitions.pop(GraphState.__name__)
    assert isinstance(root, dict), "it is an object"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}
