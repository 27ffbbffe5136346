"""Threads: the list, one of them, and its end (graph.md 8.1)."""

from collections.abc import Iterable

from handspan.agent.titles import title_of
from handspan.core.messages import Message
from handspan.core.records import SessionRecord
from handspan.gateway.graph.asking import body_of, id_of, paging_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.wire.graph.answers import DoneAnswer, ThreadAnswer, ThreadData, ThreadsAnswer, ThreadShown


async def threads(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ThreadsAnswer:
    """The owner's threads, the last active first."""
    part, owner = paging_of(request), client.who.owner
    found = await doors.store.threads.page(owner=owner, search=part.search, offset=part.offset, limit=part.limit)
    runs = {turn.session_id: turn.turn_id for turn in doors.sessions.running(owner)}
    return ThreadsAnswer([_shown(one, runs.get(one.id)) for one in found])


async def thread(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ThreadAnswer:
    """One thread, without its messages."""
    thread_id, owner = id_of(request, "thread_id"), client.who.owner
    found = await doors.store.conversations.get(thread_id, owner=owner)
    turn = doors.sessions.state(thread_id, owner)
    return ThreadAnswer(ThreadData(_shown(found, None if turn is None else turn.turn_id)))


async def delete_thread(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Remove a thread with all that belongs to it; not while it is at work."""
    thread_id = id_of(request, "thread_id")
    await body_of(request)  # graph.md 1.5: nothing in it counts
    refuse_at_work(doors, client, thread_id)
    await doors.store.conversations.delete(thread_id, owner=client.who.owner)
    doors.live.publish(client.who.owner, "sessions", {"session_id": thread_id, "change": "deleted"})
    return DoneAnswer(message="Thread deleted successfully")


async def forget_name(doors: GraphDoors, known: SessionRecord, removed: Iterable[Message]) -> None:
    """Take back a name that was made of words which are gone now (graph.md 8.3); the next run makes another."""
    if known.name and known.name == title_of(removed):
        await doors.store.conversations.rename(known.id, "", owner=known.owner)
        doors.live.publish(known.owner, "sessions", {"session_id": known.id, "change": "renamed"})


def refuse_at_work(doors: GraphDoors, client: GraphClient, thread_id: str) -> None:
    """`Refusal` (409) while a run of this gateway is at work in the thread, or stands in line for it."""
    if doors.sessions.state(thread_id, client.who.owner) is not None:
        text = f"The thread {thread_id!r} is at work: wait for its run to end, or stop it (POST /v1/graph/stop)."
        raise Refusal(409, "GRAPH_BUSY", text)


def _shown(one: SessionRecord, run_id: str | None) -> ThreadShown:
    return ThreadShown(
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
