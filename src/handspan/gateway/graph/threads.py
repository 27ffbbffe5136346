"""Threads of the owner and their states: listed, shown, changed, removed (graph.md 8.1, 8.2)."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.records import SessionRecord
from handspan.gateway.graph.listener import INTERRUPTED, MODEL, TOOLS
from handspan.gateway.graph.messages import (
    append_messages,
    called_tool_names,
    check_not_running,
    forget_title,
    render_entry,
)
from handspan.gateway.graph.renderer import MessageRenderer
from handspan.gateway.graph.request import GraphParts, GraphRequest
from handspan.gateway.http.routing import moment
from handspan.gateway.runs.asked import arguments_of
from handspan.gateway.runs.client import RunClient
from handspan.wire.graph import answers as wire
from handspan.wire.graph import reading as graph

_WAITS_FOR_OTHERS: Final = "The run waits for a person or for another client"


async def threads(request: GraphRequest) -> wire.ThreadsAnswer:
    """Return the owner's threads, the last active first."""
    part, owner = request.paging(), request.owner
    found = await request.store.threads.page(owner=owner, search=part.search, offset=part.offset, limit=part.limit)
    runs = {turn.session_id: turn.turn_id for turn in request.parts.sessions.running(owner)}
    return wire.ThreadsAnswer([_render_thread(one, runs.get(one.id)) for one in found])


async def thread(request: GraphRequest) -> wire.ThreadAnswer:
    """Return one thread, without its messages."""
    thread_id, owner = request.path_id("thread_id"), request.owner
    found = await request.store.conversations.get(thread_id, owner=owner)
    turn = request.parts.sessions.state(thread_id, owner)
    return wire.ThreadAnswer(wire.ThreadData(_render_thread(found, None if turn is None else turn.turn_id)))


async def delete_thread(request: GraphRequest) -> wire.DoneAnswer:
    """Remove a thread with everything that belongs to it. Refused (409) while a run is at work in it."""
    thread_id = request.path_id("thread_id")
    await request.body()  # graph.md 1.5: the body is ignored
    check_not_running(request, thread_id)
    await request.store.conversations.delete(thread_id, owner=request.owner)
    request.parts.live.publish(request.owner, "sessions", {"session_id": thread_id, "change": "deleted"})
    return wire.DoneAnswer(message="Thread deleted successfully")


async def state(request: GraphRequest) -> wire.StateAnswer:
    """Return the state of a thread. A page that was reloaded finds its open calls here."""
    return wire.StateAnswer(await state_of(request.graph, request.client, request.path_id("thread_id")))


async def put_state(request: GraphRequest) -> wire.StateAnswer:
    """Append the messages of the state that the client sends. Return the new state."""
    thread_id = request.path_id("thread_id")
    added = graph.read_state(await request.body())
    await append_messages(request, thread_id, added, ["body", "state", "context"])
    return wire.StateAnswer(await state_of(request.graph, request.client, thread_id))


async def clear_state(request: GraphRequest) -> wire.DoneAnswer:
    """Remove all messages and give up a suspended run. Refused (409) while a run is at work."""
    thread_id, owner = request.path_id("thread_id"), request.owner
    await request.body()  # graph.md 1.5: the body is ignored
    check_not_running(request, thread_id)
    known = await request.store.conversations.get(thread_id, owner=owner)
    if known.state == "waiting":
        await request.parts.sessions.get(thread_id, owner).give_up(request.client.who).wait_for_end()
    before = await request.store.conversations.load(thread_id, owner=owner)
    await request.store.threads.clear(thread_id, owner=owner)
    await forget_title(request, known, before)
    return wire.DoneAnswer(message="State cleared successfully")


async def state_of(parts: GraphParts, client: RunClient, thread_id: str) -> wire.GraphState:
    """Return the messages of a thread, and whether its run is at work, waits or has ended."""
    owner, store = client.owner, parts.gateway.store
    await parts.gateway.sessions.until_stored(thread_id, owner)
    known = await store.conversations.get(thread_id, owner=owner)
    names = await called_tool_names(parts, thread_id, owner)
    entries = await store.threads.entries(thread_id, owner=owner)
    renderer = MessageRenderer(thread_id, names)
    meta = wire.ExecutionMeta(
        current_node=MODEL,
        step=_count_replies([entry.message for entry in entries]),
        status="completed",
        thread_id=thread_id,
    )
    end = entries[-1].ended if entries else None
    if known.state == "running" or parts.gateway.sessions.state(thread_id, owner) is not None:
        meta = structs.replace(meta, status="running")
    elif known.state == "waiting":
        calls = await parts.runs.open_calls(client, thread_id)
        shown = [
            wire.OpenCall(one.id, renderer.own_name(one.name), arguments_of(one), one.expires_at or 0.0)
            for one in calls
        ]
        meta = _interrupt(meta, shown)
    elif end is not None and end.reason == "error":
        meta = structs.replace(meta, status="error")
    return wire.GraphState(context=[render_entry(renderer, entry) for entry in entries], execution_meta=meta)


def _interrupt(meta: wire.ExecutionMeta, calls: Sequence[wire.OpenCall]) -> wire.ExecutionMeta:
    """Return the state of a run that waits: for these calls of the client, or for others."""
    return structs.replace(
        meta,
        current_node=TOOLS,
        status="interrupted_after",
        interrupted_node=TOOLS,
        interrupt_reason=INTERRUPTED if calls else _WAITS_FOR_OTHERS,
        interrupt_data=wire.InterruptData(calls),
    )


def _count_replies(messages: Sequence[Message]) -> int:
    """Return how many replies the model has given since the person's last message."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            break
        count += isinstance(message, AssistantMessage)
    return count


def _render_thread(one: SessionRecord, run_id: str | None) -> wire.ThreadView:
    """Return the thread as the graph API lists it."""
    return wire.ThreadView(
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
