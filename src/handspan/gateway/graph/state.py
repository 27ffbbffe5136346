"""The state of a thread, as graph.md 8.2 shows it: what was said, and how its run stands."""

from collections.abc import Sequence

from handspan.core.calls import CallRecord
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.gateway.graph.asking import body_of, id_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.following import INTERRUPTED, MODEL, TOOLS
from handspan.gateway.graph.messages import own_names, put, shown
from handspan.gateway.graph.results import is_of
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.shown import Shower, arguments_of
from handspan.gateway.graph.threads import forget_name, refuse_at_work
from handspan.gateway.http.message import AsgiRequest
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import (
    DoneAnswer,
    ExecutionMeta,
    GraphState,
    InterruptData,
    OpenCall,
    StateAnswer,
)

_WAITS_FOR_OTHERS = "The run waits for a person or for another client"


async def state(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> StateAnswer:
    """How the thread stands: a page that was reloaded finds its open calls here."""
    return StateAnswer(await state_of(doors, client, id_of(request, "thread_id")))


async def put_state(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> StateAnswer:
    """Append the messages of the state that is sent; the state as it is then."""
    thread_id = id_of(request, "thread_id")
    added = graph.read_state(await body_of(request))
    await put(doors, client, thread_id, added, ["body", "state", "context"])
    return StateAnswer(await state_of(doors, client, thread_id))


async def clear_state(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Remove all messages; what is suspended is given up, what runs is in the way."""
    thread_id, owner = id_of(request, "thread_id"), client.who.owner
    await body_of(request)  # graph.md 1.5: nothing in it counts
    refuse_at_work(doors, client, thread_id)
    known = await doors.store.conversations.get(thread_id, owner=owner)
    if known.state == "waiting":
        await doors.sessions.get(thread_id, owner).give_up(client.who).end()
    before = await doors.store.conversations.load(thread_id, owner=owner)
    await doors.store.threads.clear(thread_id, owner=owner)
    await forget_name(doors, known, before)
    return DoneAnswer(message="State cleared successfully")


async def state_of(doors: GraphDoors, client: GraphClient, thread_id: str) -> GraphState:
    """How the thread stands now."""
    owner = client.who.owner
    known = await doors.store.conversations.get(thread_id, owner=owner)
    names = await own_names(doors, thread_id, owner)
    entries = await doors.store.threads.entries(thread_id, owner=owner)
    step = _rounds([entry.message for entry in entries if not entry.place])
    context = list(shown(Shower(thread_id, names), entries))
    if known.state == "running" or doors.sessions.state(thread_id, owner) is not None:
        meta = ExecutionMeta(current_node=MODEL, step=step, status="running", thread_id=thread_id)
    elif known.state == "waiting":
        records = await doors.store.ledger.open_calls(owner=owner, session=thread_id)
        mine = [one for one in records if one.state == "pending" and is_of(one, client.id)]
        calls = [_open_call(one, names.get(one.name, one.name)) for one in mine]
        meta = _interrupted(thread_id, step, calls)
    else:
        meta = ExecutionMeta(current_node=MODEL, step=step, status="completed", thread_id=thread_id)
    return GraphState(context=context, execution_meta=meta)


def _interrupted(thread_id: str, step: int, calls: Sequence[OpenCall]) -> ExecutionMeta:
    return ExecutionMeta(
        current_node=TOOLS,
        step=step,
        status="interrupted_after",
        interrupted_node=TOOLS,
        interrupt_reason=INTERRUPTED if calls else _WAITS_FOR_OTHERS,
        interrupt_data=InterruptData(calls),
        thread_id=thread_id,
    )


def _open_call(record: CallRecord, name: str) -> OpenCall:
    return OpenCall(record.id, name, arguments_of(record), record.expires_at or 0.0)


def _rounds(messages: Sequence[Message]) -> int:
    """How often the model was asked since a person last spoke."""
    count = 0
    for message in reversed(messages):
        if type(message) is UserMessage:
            break
        count += type(message) is AssistantMessage
    return count
