"""Sessions: the conversations of the caller, in the form that ClawSeed's clients know (origins.md 1.9)."""

from typing import Final

from handspan.core.messages import AssistantMessage, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.records import SessionRecord
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.sessions import (
    AbortStatus,
    DeletedSession,
    MessageList,
    MessagesQuery,
    NewName,
    NewSession,
    Renamed,
    RunningList,
    RunningSession,
    SessionList,
    SessionQuery,
    ShownCall,
    ShownMessage,
    ShownSession,
    ShownState,
)

family: Final = Family("sessions")


@family.get("/api/sessions")
async def sessions(visit: Visit, query: SessionQuery) -> SessionList:
    """The caller's sessions, the last active first. Those without a message yet come first of all."""
    found = await visit.parts.store.conversations.page(owner=visit.owner, limit=query.limit, after=query.after or None)
    unstored = () if query.after else await visit.parts.sessions.unstored(visit.owner)
    return SessionList([_render_session(one) for one in (*unstored, *found.sessions)], found.next)


@family.post("/api/sessions", status=201, also_refuses=(404,))
async def create_session(visit: Visit, body: NewSession) -> ShownSession:
    """Begin a session."""
    agent = await find_agent(visit, body.persona)
    made = await visit.parts.store.conversations.create(owner=visit.owner, agent=agent.name, name=body.name)
    visit.publish("sessions", session_id=made.id, change="created")
    return _render_session(made)


@family.get("/api/sessions/running")
async def running(visit: Visit) -> RunningList:
    """Sessions whose turn runs now."""
    running_sessions = []
    for turn in visit.parts.sessions.running(visit.owner):
        one = await visit.parts.store.conversations.find(turn.session_id, owner=visit.owner)
        if one is None:  # its first turn is not stored yet
            continue
        times = (moment(one.created), moment(one.active), one.length)
        running_sessions.append(RunningSession(one.id, *times, turn.turn_id, moment(turn.wanted_at)))
    return RunningList(running_sessions)


@family.get("/api/sessions/{session_id}")
async def session(visit: Visit, session_id: str) -> ShownSession:
    """One session, without its messages."""
    return _render_session(await _find(visit, session_id))


@family.get("/api/sessions/{session_id}/messages")
async def messages(visit: Visit, session_id: str, query: MessagesQuery) -> MessageList:
    """The messages of a session; with `full` also calls and their results."""
    is_empty = (await _find(visit, session_id)).length == 0  # then it may not be stored yet
    conversations = visit.parts.store.conversations
    found = [] if is_empty else await conversations.load(session_id, owner=visit.owner, after=query.after)
    listed = [
        each
        for seq, message in enumerate(found, query.after + 1)
        for each in _render_message(seq, message)
        if query.full or (each.role != "tool" and each.content)
    ]
    return MessageList(session_id, listed)


@family.get("/api/sessions/{session_id}/state")
async def state(visit: Visit, session_id: str) -> ShownState:
    """Whether a turn of the session runs or waits."""
    found = await _find(visit, session_id)
    turn = visit.parts.sessions.state(session_id, visit.owner)
    if turn is None:
        return ShownState(session_id, found.state)
    return ShownState(session_id, "running", turn.turn_id, moment(turn.wanted_at))


@family.put("/api/sessions/{session_id}", invalid=(400, "name_required", "name is required"))
async def rename(visit: Visit, session_id: str, body: NewName) -> Renamed:
    """Give a session another name."""
    if not visit.parts.sessions.change_unstored(session_id, visit.owner, name=body.name):
        await visit.parts.store.conversations.rename(session_id, body.name, owner=visit.owner)
    visit.publish("sessions", session_id=session_id, change="renamed")
    return Renamed(session_id, body.name)


@family.delete("/api/sessions/{session_id}", also_refuses=(409,))
async def delete(visit: Visit, session_id: str) -> DeletedSession:
    """Remove a session with everything that belongs to it. Refused (409) while its turn runs."""
    if not visit.parts.sessions.change_unstored(session_id, visit.owner, name=None):
        await visit.parts.store.conversations.delete(session_id, owner=visit.owner)
    visit.publish("sessions", session_id=session_id, change="deleted")
    return DeletedSession(True, session_id)


@family.post("/api/sessions/{session_id}/abort")
async def abort(visit: Visit, session_id: str) -> AbortStatus:
    """Stop the turn, if one runs. The text that has arrived stays."""
    await _find(visit, session_id)
    stopped = visit.parts.sessions.abort(session_id, visit.owner)
    return AbortStatus("aborted" if stopped else "no_active_response")


async def _find(visit: Visit, session_id: str) -> SessionRecord:
    return await visit.parts.sessions.record(session_id, visit.owner)


def _render_session(one: SessionRecord) -> ShownSession:
    created, active = moment(one.created), moment(one.active)
    return ShownSession(one.id, created, active, one.length, one.state, one.name, one.agent)


def _render_message(seq: int, message: Message) -> list[ShownMessage]:
    match message:
        case UserMessage(parts=parts):
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            media = sum(1 for part in parts if isinstance(part, Media))
            return [ShownMessage(seq, "user", text, media)]
        case AssistantMessage():
            calls = tuple(ShownCall(call.id, call.name, call.arguments) for call in message.calls)
            return [ShownMessage(seq, "assistant", message.text, model=message.model, calls=calls)]
        case ResultsMessage(results=results):
            return [
                ShownMessage(seq, "tool", one.envelope, len(one.attachments), call_id=one.call_id, name=one.name)
                for one in results
            ]
