"""Threads of the owner and their states: listed, shown, changed, removed (graph.md 8.1, 8.2)."""

from collections.abc import Sequence
from typing import Final

from handspan.core.calls import CallRecord
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.records import SessionRecord
from handspan.gateway.graph.envelope import path_id, read_body_bytes, read_paging
from handspan.gateway.graph.listener import INTERRUPTED, MODEL, TOOLS
from handspan.gateway.graph.messages import (
    append_messages,
    called_tool_names,
    check_not_running,
    forget_title,
    render_entries,
)
from handspan.gateway.graph.parts import GraphParts
from handspan.gateway.graph.renderer import MessageRenderer, arguments_of
from handspan.gateway.graph.requests import is_call_of
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.routing import moment
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import (
    DoneAnswer,
    ExecutionMeta,
    GraphState,
    InterruptData,
    OpenCall,
    StateAnswer,
    ThreadAnswer,
    ThreadData,
    ThreadsAnswer,
    ThreadView,
)

_WAITS_FOR_OTHERS: Final = "The run waits for a person or for another client"


async def threads(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ThreadsAnswer:
    """Return the owner's threads, the last active first."""
    part, owner = read_paging(request), client.who.owner
    found = await parts.gateway.store.threads.page(
        owner=owner, search=part.search, offset=part.offset, limit=part.limit
    )
    runs = {turn.session_id: turn.turn_id for turn in parts.gateway.sessions.running(owner)}
    return ThreadsAnswer([_render_thread(one, runs.get(one.id)) for one in found])


async def thread(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ThreadAnswer:
    """Return one thread, without its messages."""
    thread_id, owner = path_id(request, "thread_id"), client.who.owner
    found = await parts.gateway.store.conversations.get(thread_id, owner=owner)
    turn = parts.gateway.sessions.state(thread_id, owner)
    return ThreadAnswer(ThreadData(_render_thread(found, None if turn is None else turn.turn_id)))


async def delete_thread(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Remove a thread with everything that belongs to it. Refused (409) while a run is at work in it."""
    thread_id = path_id(request, "thread_id")
    await read_body_bytes(request)  # graph.md 1.5: the body is ignored
    check_not_running(parts, client, thread_id)
    await parts.gateway.store.conversations.delete(thread_id, owner=client.who.owner)
    parts.gateway.live.publish(client.who.owner, "sessions", {"session_id": thread_id, "change": "deleted"})
    return DoneAnswer(message="Thread deleted successfully")


async def state(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> StateAnswer:
    """Return the state of a thread. A page that was reloaded finds its open calls here."""
    return StateAnswer(await state_of(parts, client, path_id(request, "thread_id")))


async def put_state(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> StateAnswer:
    """Append the messages of the state that the client sends. Return the new state."""
    thread_id = path_id(request, "thread_id")
    added = graph.read_state(await read_body_bytes(request))
    await append_messages(parts, client, thread_id, added, ["body", "state", "context"])
    return StateAnswer(await state_of(parts, client, thread_id))


async def clear_state(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Remove all messages and give up a suspended run. Refused (409) while a run is at work."""
    thread_id, owner = path_id(request, "thread_id"), client.who.owner
    await read_body_bytes(request)  # graph.md 1.5: the body is ignored
    check_not_running(parts, client, thread_id)
    known = await parts.gateway.store.conversations.get(thread_id, owner=owner)
    if known.state == "waiting":
        await parts.gateway.sessions.get(thread_id, owner).give_up(client.who).end()
    before = await parts.gateway.store.conversations.load(thread_id, owner=owner)
    await parts.gateway.store.threads.clear(thread_id, owner=owner)
    await forget_title(parts, known, before)
    return DoneAnswer(message="State cleared successfully")


async def state_of(parts: GraphParts, client: GraphClient, thread_id: str) -> GraphState:
    """Return the messages of a thread, and whether its run is at work, waits or has ended."""
    owner = client.who.owner
    known = await parts.gateway.store.conversations.get(thread_id, owner=owner)
    names = await called_tool_names(parts, thread_id, owner)
    entries = await parts.gateway.store.threads.entries(thread_id, owner=owner)
    step = _count_replies([entry.message for entry in entries])
    context = list(render_entries(MessageRenderer(thread_id, names), entries))
    if known.state == "running" or parts.gateway.sessions.state(thread_id, owner) is not None:
        meta = ExecutionMeta(current_node=MODEL, step=step, status="running", thread_id=thread_id)
    elif known.state == "waiting":
        records = await parts.gateway.store.ledger.open_calls(owner=owner, session=thread_id)
        mine = [one for one in records if one.state == "pending" and is_call_of(one, client.id)]
        calls = [_open_call(one, names.get(one.name, one.name)) for one in mine]
        meta = _interrupted_meta(thread_id, step, calls)
    else:
        end = entries[-1].ended if entries else None
        has_failed = end is not None and end.reason == "error"
        meta = ExecutionMeta(
            current_node=MODEL, step=step, status="error" if has_failed else "completed", thread_id=thread_id
        )
    return GraphState(context=context, execution_meta=meta)


def _interrupted_meta(thread_id: str, step: int, calls: Sequence[OpenCall]) -> ExecutionMeta:
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


def _count_replies(messages: Sequence[Message]) -> int:
    """Return how many replies the model has given since the person's last message."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        count += isinstance(message, AssistantMessage)
    return count


def _render_thread(one: SessionRecord, run_id: str | None) -> ThreadView:
    return ThreadView(
        thread_id=one.id,
        thread_name=one.name or None,
        user_id=one.owner,
        metadata={
            "agent": one.agent,
            "state": "running" if run_id else one.state,
            "message_count": one.length,
            "created_at": moment(one.created),
        },
        updated_at=moment(one.active),
        run_id=run_id,
    )
