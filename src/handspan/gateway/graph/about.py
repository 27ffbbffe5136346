"""The agent as a graph, the schema of its state, and the tools that it may use (graph.md 9.1 to 9.3)."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from handspan.core.agents import Agent
from handspan.core.calls import new_call_id
from handspan.core.principals import Origin, OriginKind
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.gateway.graph.listener import MODEL, TOOLS
from handspan.gateway.graph.request import GraphRequest
from handspan.registry.toolbox import Toolbox
from handspan.sources.graph import GraphTool
from handspan.wire.graph import answers as wire

_START: Final = "__start__"
_END: Final = "__end__"
_NODES: Final = tuple(wire.NodeView(name, name) for name in (_START, MODEL, TOOLS, _END))
_EDGES: Final = tuple(
    wire.EdgeView(f"{source}-{target}", source, target)
    for source, target in ((_START, MODEL), (MODEL, TOOLS), (TOOLS, MODEL), (MODEL, _END))
)
_SOURCES: Final[Mapping[OriginKind, str]] = {"builtin": "local", "plugin": "local", "mcp": "mcp"}
"""Tools of other origins are "remote"."""


async def about(request: GraphRequest) -> wire.GraphAnswer:
    """Return the agent as a graph: a node for the model, and one for its tools."""
    agent = await _agent(request)
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
        "state_type": wire.GraphState.__name__,
        "state_fields": list(wire.GraphState.__struct_fields__),
        "agent": agent.name,
    }
    return wire.GraphAnswer(info, _NODES, _EDGES)


async def state_schema(request: GraphRequest) -> JsonObject:
    """Return the JSON Schema of a thread's state, with the state at its root: clients look for the fields there."""
    schema: JsonObject = msgspec.json.schema(wire.GraphState)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict), "a class that has others in it is defined beside them"
    root = definitions.pop(wire.GraphState.__name__)
    assert isinstance(root, dict), "it is an object"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


async def tools(request: GraphRequest) -> wire.ToolsAnswer:
    """Return the tools that the agent may use, by node: those of the gateway, and those that this client has set up."""
    agent = await _agent(request)
    nodes = _tools(request, agent, await request.graph.tool_sets.of_client(request.client.id))
    listed = [wire.NodeTools(name, len(nodes[name]), nodes[name]) for name in nodes]
    return wire.ToolsAnswer(len(listed), sum(node.tool_count for node in listed), listed)


async def _agent(request: GraphRequest) -> Agent:
    named = request.asgi.query_params.get("agent")
    return (await request.parts.app.agents.find(named, owner=request.owner)).agent


def _tools(request: GraphRequest, agent: Agent, offered: Sequence[GraphTool]) -> dict[str, list[wire.GraphToolView]]:
    """Return the tools by node, as a run would have them.

    Meanwhile the client's tools are registered for a thread that has no run.
    """
    client, thread = request.client, new_call_id()
    origin = Origin("browser", client.id, thread)
    nodes: dict[str, list[wire.GraphToolView]] = {TOOLS: []}
    with request.graph.tools.register(offered, agent.nodes, origin, thread) as registered:
        box = request.parts.app.registry.toolbox(agent, client.who, thread, in_turn=True)
        for spec in box.specs():
            own = registered.get(spec.name)
            if own is None:
                nodes[TOOLS].append(_render_tool(spec, spec.name, _source(box, spec)))
            else:
                nodes.setdefault(own.node, []).append(_render_tool(spec, own.own_name, "remote"))
    return nodes


def _source(box: Toolbox, spec: ToolSpec) -> str:
    entry = box.find(spec.name)
    return "local" if entry is None else _SOURCES.get(entry.origin.kind, "remote")


def _render_tool(spec: ToolSpec, name: str, source: str) -> wire.GraphToolView:
    return wire.GraphToolView(name, spec.description, source, spec.parameters)
