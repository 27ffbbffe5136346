"""`setup`, `stop` and `fix` (graph.md 3.2, 6)."""

from handspan.core.errors import ToolError
from handspan.gateway.graph.asking import body_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.state import state_of
from handspan.gateway.http.message import AsgiRequest
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import FixAnswer, GraphState, SetupAnswer, StopAnswer


async def set_up(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> SetupAnswer:
    """Keep the client's tools."""
    offered = graph.read_setup(await body_of(request))
    has = await doors.book.set_up(client.id, offered)
    nodes = sorted({tool.node_name for tool in offered})
    text = f"Added tools to nodes: {nodes}"
    return SetupAnswer(message=text, registered_tools=len({(tool.node_name, tool.name) for tool in has}), details=text)


async def stop(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> StopAnswer:
    """End what runs or waits in a thread."""
    thread = graph.read_stop(await body_of(request))
    was_running = await doors.runs.stop(client, thread)
    reason = "stopped" if was_running else "not-running"
    text = "The run was stopped." if was_running else "Nothing runs in this thread."
    return StopAnswer(message=text, thread_id=thread, running=was_running, reason=reason)


async def fix(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> FixAnswer:
    """Close the calls that nobody will answer any more."""
    thread = graph.read_stop(await body_of(request))
    if doors.sessions.state(thread, client.who.owner) is not None:
        text = "A run is at work in this thread: stop it, or wait for its end."
        return FixAnswer(message=text, removed_count=0, state=await _state(doors, client, thread))
    waiting = await doors.store.ledger.open_calls(owner=client.who.owner, session=thread)  # whichever client's
    count = sum(record.tool.answered_by == "request" for record in waiting)
    closed = count if await doors.runs.stop(client, thread) else 0
    state = await _state(doors, client, thread)
    return FixAnswer(message=f"Closed {closed} open calls.", removed_count=closed, state=state)


async def _state(doors: GraphDoors, client: GraphClient, thread: str) -> GraphState | None:
    """How the thread stands now; None where the owner has no such thread."""
    try:
        return await state_of(doors, client, thread)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise
