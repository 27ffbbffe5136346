"""Sessions: the conversations of the caller, in the words of ClawSeed's clients (origins.md 1.9)."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from handspan.core.messages import AssistantMessage, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.records import SessionRecord
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.agents import agent_called
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import SOMETHING, After, Limit

family: Final = Family("sessions")
_LONGEST_NAME: Final = 200


class SessionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list. Old clients want all of it."""

    limit: Limit = 1000
    after: After = ""


class ShownSession(Struct, frozen=True, omit_defaults=True):
    """A session without its messages."""

    session_id: str
    created_at: str
    last_activity: str
    message_count: int
    state: str
    name: str = ""
    persona: str = ""
    """The agent."""


class SessionList(Struct, frozen=True):
    """Sessions, the last active first."""

    sessions: list[ShownSession]
    next: str | None
    """Where the next page begins; null at the end."""


class RunningSession(Struct, frozen=True):
    """A session whose turn runs now."""

    session_id: str
    created_at: str
    last_activity: str
    message_count: int
    turn_id: str
    turn_started_at: str


class RunningList(Struct, frozen=True):
    """Sessions whose turn runs now."""

    sessions: list[RunningSession]


class NewSession(Struct, frozen=True):
    """A session to begin."""

    name: Annotated[str, Meta(max_length=_LONGEST_NAME)] = ""
    persona: Annotated[str, Meta(max_length=100)] = ""
    """The agent; empty: the default one."""


class MessagesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages, and how much of them."""

    after: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Those after this `seq`."""
    full: bool = False
    """Calls and their results too."""


class ShownCall(Struct, frozen=True):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""


class ShownMessage(Struct, frozen=True, omit_defaults=True):
    """One message, or with `full` one result of a call."""

    seq: int
    role: Literal["user", "assistant", "tool"]
    content: str
    attachments: int = 0
    """How many images, sounds and files come with it."""
    model: str = ""
    calls: tuple[ShownCall, ...] = ()
    call_id: str = ""
    name: str = ""
    """The tool, for a result."""


class MessageList(Struct, frozen=True):
    """The messages of a session, the first one first."""

    session_id: str
    messages: list[ShownMessage]
    session_persistence: bool = True


class ShownState(Struct, frozen=True, omit_defaults=True):
    """What a session does now."""

    session_id: str
    state: Literal["idle", "running", "waiting"]
    """`waiting`: for a person or a device that has the outcome of a call."""
    turn_id: str = ""
    turn_started_at: str = ""


class NewName(Struct, frozen=True):
    """What the session shall be called."""

    name: Annotated[str, Meta(pattern=SOMETHING, max_length=_LONGEST_NAME)]


class Renamed(Struct, frozen=True):
    """What it is called now."""

    session_id: str
    name: str


class DeletedSession(Struct, frozen=True):
    """It is gone, with all that belonged to it (SPEC S6)."""

    deleted: bool
    session_id: str


class AbortStatus(Struct, frozen=True):
    """What was stopped."""

    status: Literal["aborted", "no_active_response"]


@family.get("/api/sessions")
async def sessions(visit: Visit, query: SessionQuery) -> SessionList:
    """The caller's sessions, the last active first."""
    found = await visit.doors.store.conversations.page(owner=visit.owner, limit=query.limit, after=query.after or None)
    return SessionList([_shown(one) for one in found.sessions], found.next)


@family.post("/api/sessions", status=201, also_refuses=(404,))
async def create_session(visit: Visit, body: NewSession) -> ShownSession:
    """Begin a session."""
    agent = await agent_called(visit, body.persona)
    made = await visit.doors.store.conversations.create(owner=visit.owner, agent=agent.name, name=body.name)
    visit.tell("sessions", session_id=made.id, change="created")
    return _shown(made)


@family.get("/api/sessions/running")
async def running(visit: Visit) -> RunningList:
    """Sessions whose turn runs now."""
    shown = []
    for turn in visit.doors.sessions.running(visit.owner):
        one = await visit.doors.store.conversations.find(turn.session_id, owner=visit.owner)
        if one is None:  # its first turn has not come to the point where it is kept
            continue
        times = (moment(one.created), moment(one.active), one.length)
        shown.append(RunningSession(one.id, *times, turn.turn_id, moment(turn.wanted_at)))
    return RunningList(shown)


@family.get("/api/sessions/{session_id}")
async def session(visit: Visit, session_id: str) -> ShownSession:
    """One session, without its messages."""
    return _shown(await _find(visit, session_id))


@family.get("/api/sessions/{session_id}/messages")
async def messages(visit: Visit, session_id: str, query: MessagesQuery) -> MessageList:
    """What was said; with `full` also what was called and what came of it."""
    found = await visit.doors.store.conversations.load(session_id, owner=visit.owner, after=query.after)
    shown = [
        each
        for seq, message in enumerate(found, query.after + 1)
        for each in _messages(seq, message)
        if query.full or (each.role != "tool" and each.content)
    ]
    return MessageList(session_id, shown)


@family.get("/api/sessions/{session_id}/state")
async def state(visit: Visit, session_id: str) -> ShownState:
    """Whether a turn runs."""
    found = await _find(visit, session_id)
    turn = visit.doors.sessions.state(session_id, visit.owner)
    if turn is None:
        return ShownState(session_id, found.state)
    return ShownState(session_id, "running", turn.turn_id, moment(turn.wanted_at))


@family.put("/api/sessions/{session_id}", invalid=(400, "name_required", "name is required"))
async def rename(visit: Visit, session_id: str, body: NewName) -> Renamed:
    """Give a session another name."""
    await visit.doors.store.conversations.rename(session_id, body.name, owner=visit.owner)
    visit.tell("sessions", session_id=session_id, change="renamed")
    return Renamed(session_id, body.name)


@family.delete("/api/sessions/{session_id}", also_refuses=(409,))
async def delete(visit: Visit, session_id: str) -> DeletedSession:
    """Remove a session with all that belongs to it; not while its turn runs."""
    await visit.doors.store.conversations.delete(session_id, owner=visit.owner)
    visit.tell("sessions", session_id=session_id, change="deleted")
    return DeletedSession(True, session_id)


@family.post("/api/sessions/{session_id}/abort")
async def abort(visit: Visit, session_id: str) -> AbortStatus:
    """Stop the turn, if one runs. What arrived is kept."""
    await _find(visit, session_id)
    stopped = visit.doors.sessions.abort(session_id, visit.owner)
    return AbortStatus("aborted" if stopped else "no_active_response")


async def _find(visit: Visit, session_id: str) -> SessionRecord:
    return await visit.doors.store.conversations.get(session_id, owner=visit.owner)


def _shown(one: SessionRecord) -> ShownSession:
    created, active = moment(one.created), moment(one.active)
    return ShownSession(one.id, created, active, one.length, one.state, one.name, one.agent)


def _messages(seq: int, message: Message) -> list[ShownMessage]:
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
