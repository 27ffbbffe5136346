"""Sessions: the conversations of the caller, in the form that ClawSeed's clients know."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, structs

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Media, Message, Part, ResultsMessage, Text, Thinking, UserMessage
from handspan.core.records import SessionRecord
from handspan.core.results import Attachment
from handspan.core.values import strip_invisible
from handspan.gateway.http.files import BINARY
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.artifacts import respond_attachment
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.sessions import (
    AbortStatus,
    CallView,
    DeletedSession,
    EndView,
    FileView,
    FoundSession,
    FoundSessions,
    MessageList,
    MessagesQuery,
    MessageView,
    NewName,
    NewSession,
    Renamed,
    RetriedTurn,
    RunningList,
    RunningSession,
    SearchQuery,
    SessionList,
    SessionQuery,
    SessionStateView,
    SessionView,
    UndoneTurn,
)

family: Final = Family("sessions")
_MOST_SEARCHED: Final = 200
_AROUND: Final = 60
"""Characters of an excerpt before and after the words."""


@family.get("/api/sessions")
async def sessions(request: RestRequest, query: SessionQuery) -> SessionList:
    """The caller's sessions, the last active first. Those without a message yet come first of all."""
    found = await request.parts.store.conversations.page(
        owner=request.owner, limit=query.limit, after=query.after or None
    )
    unstored = () if query.after else await request.parts.sessions.unstored_sessions(request.owner)
    return SessionList([_render_session(one) for one in (*unstored, *found.sessions)], found.next)


@family.post("/api/sessions", status=201, also_refuses=(404,))
async def create_session(request: RestRequest, body: NewSession) -> SessionView:
    """Begin a session."""
    agent = await find_agent(request, body.persona)
    made = await request.parts.store.conversations.create(owner=request.owner, agent=agent.name, name=body.name)
    request.publish("sessions", session_id=made.id, change="created")
    return _render_session(made)


@family.get("/api/sessions/running")
async def running(request: RestRequest) -> RunningList:
    """Sessions whose turn runs now."""
    running_sessions = []
    for turn in request.parts.sessions.running(request.owner):
        one = await request.parts.store.conversations.find(turn.session_id, owner=request.owner)
        if one is None:  # its first turn is not stored yet
            continue
        times = (moment(one.created), moment(one.active), one.length)
        running_sessions.append(RunningSession(one.id, *times, turn.turn_id, moment(turn.wanted_at)))
    return RunningList(running_sessions)


@family.get("/api/sessions/search")
async def search_sessions(request: RestRequest, query: SearchQuery) -> FoundSessions:
    """The sessions of which the name or a message has these words. The last active ones are searched."""
    conversations, words = request.parts.store.conversations, query.query.casefold()
    searched = (await conversations.page(owner=request.owner, limit=_MOST_SEARCHED)).sessions
    found: list[FoundSession] = []
    for one in searched:
        seq, excerpt = _find_words(words, await conversations.load(one.id, owner=request.owner))
        if seq or words in one.name.casefold():
            found.append(FoundSession(_render_session(one), seq, excerpt))
        if len(found) == query.limit:
            break
    return FoundSessions(found, len(searched))


@family.get("/api/sessions/{session_id}")
async def session(request: RestRequest, session_id: str) -> SessionView:
    """One session, without its messages; with the end of its last turn, unless that was a whole answer."""
    found = await _find(request, session_id)
    ends = await _ends(request, found, after=found.length)
    return structs.replace(_render_session(found), ended=ends[-1] if ends else UNSET)


@family.get("/api/sessions/{session_id}/messages")
async def messages(request: RestRequest, session_id: str, query: MessagesQuery) -> MessageList:
    """The messages of a session, and how its turns ended; with `full` also calls and their results."""
    record = await _find(request, session_id)
    conversations = request.parts.store.conversations
    # A session without messages may not be stored yet: then `load` does not find it.
    found = [] if not record.length else await conversations.load(session_id, owner=request.owner, after=query.after)
    listed = [
        each
        for seq, message in enumerate(found, query.after + 1)
        for each in _render_message(seq, message)
        if query.full or (each.role != "tool" and each.content)
    ]
    return MessageList(session_id, listed, ends=await _ends(request, record, after=query.after))


@family.get("/api/sessions/{session_id}/messages/{seq}/files/{index}", media_type=BINARY)
async def message_file(request: RestRequest, session_id: str, seq: str, index: str) -> AsgiResponse:
    """An image, a sound or a file of a message or of the results of its calls."""
    await _find(request, session_id)
    place = int(seq) if seq.isdecimal() and len(seq) < 10 else 0
    found = await request.parts.store.conversations.load(session_id, owner=request.owner, after=max(0, place - 1))
    return await respond_attachment(request, _attachments(found[0]) if found and place > 0 else [], index)


@family.get("/api/sessions/{session_id}/state")
async def state(request: RestRequest, session_id: str) -> SessionStateView:
    """Whether a turn of the session runs or waits."""
    found = await _find(request, session_id)
    turn = request.parts.sessions.state(session_id, request.owner)
    if turn is None:
        return SessionStateView(session_id, found.state)
    return SessionStateView(session_id, "running", turn.turn_id, moment(turn.wanted_at))


@family.put("/api/sessions/{session_id}", invalid=(400, "name_required", "name is required"))
async def rename(request: RestRequest, session_id: str, body: NewName) -> Renamed:
    """Give a session another name."""
    if not await request.parts.sessions.change_unstored(session_id, request.owner, name=body.name):
        await request.parts.store.conversations.rename(session_id, body.name, owner=request.owner)
    request.publish("sessions", session_id=session_id, change="renamed")
    return Renamed(session_id, body.name)


@family.delete("/api/sessions/{session_id}", also_refuses=(409,))
async def delete(request: RestRequest, session_id: str) -> DeletedSession:
    """Remove a session with everything that belongs to it. Refused (409) while its turn runs."""
    sessions = request.parts.sessions
    if sessions.state(session_id, request.owner) is not None:  # its turn may not have begun in the store yet
        raise ToolError("busy", f"The session {session_id!r} is running: wait for its turn to end, or stop it.")
    if not await sessions.change_unstored(session_id, request.owner, name=None):
        await request.parts.store.conversations.delete(session_id, owner=request.owner)
    request.publish("sessions", session_id=session_id, change="deleted")
    return DeletedSession(True, session_id)


@family.post("/api/sessions/{session_id}/undo", also_refuses=(409,))
async def undo(request: RestRequest, session_id: str) -> UndoneTurn:
    """Remove the person's last message and all that follows it. What its calls did stays done."""
    before = (await _find(request, session_id)).length
    await request.parts.sessions.get(session_id, request.owner).undo(request.who).end()
    request.publish("sessions", session_id=session_id, change="undone")
    return UndoneTurn(session_id, before - (await _find(request, session_id)).length)


@family.post("/api/sessions/{session_id}/retry", also_refuses=(409,))
async def retry(request: RestRequest, session_id: str) -> RetriedTurn:
    """Answer the person's last message again, in place of its answer or its failed end. Returns when the turn ends."""
    await _find(request, session_id)
    ended = await request.parts.sessions.get(session_id, request.owner).regenerate(request.who, lambda *_: None).end()
    return RetriedTurn(session_id, ended.reason, ended.text, ended.fault)


@family.post("/api/sessions/{session_id}/abort")
async def abort(request: RestRequest, session_id: str) -> AbortStatus:
    """Stop the turn, if one runs. The text that has arrived stays."""
    await _find(request, session_id)
    stopped = await request.parts.sessions.abort_anywhere(session_id, request.owner)
    return AbortStatus("aborted" if stopped else "no_active_response")


async def _find(request: RestRequest, session_id: str) -> SessionRecord:
    return await request.parts.sessions.find_record(session_id, request.owner)


async def _ends(request: RestRequest, session: SessionRecord, after: int) -> list[EndView]:
    """Return how turns of this session ended, from the message `after` on."""
    if not session.length:
        return []
    ends = await request.parts.store.conversations.ends(session.id, owner=request.owner, after=after)
    return [
        EndView(seq, end.reason, moment(end.at), end.model, strip_invisible(end.text), end.fault)
        for seq, end in ends.items()
    ]


def _render_session(one: SessionRecord) -> SessionView:
    created, active = moment(one.created), moment(one.active)
    return SessionView(one.id, created, active, one.length, one.state, one.name, one.agent)


def _render_message(seq: int, message: Message) -> list[MessageView]:
    match message:
        case UserMessage(parts=parts, id=sent_id, turn=turn):
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            files = _render_files([part.attachment for part in parts if isinstance(part, Media)])
            return [MessageView(seq, "user", text, len(files), files, sent_id, turn)]
        case AssistantMessage():
            calls = tuple(CallView(call.id, call.name, call.arguments) for call in message.calls)
            thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
            return [
                MessageView(seq, "assistant", message.text, model=message.model, thinking=thinking, calls=calls),
            ]
        case ResultsMessage(results=results):
            shown: list[MessageView] = []
            first = 0
            for one in results:
                files = _render_files(one.attachments, first)
                first += len(files)
                shown.append(
                    MessageView(seq, "tool", one.envelope, len(files), files, call_id=one.call_id, name=one.name)
                )
            return shown


def _render_files(attachments: Sequence[Attachment], first: int = 0) -> tuple[FileView, ...]:
    return tuple(
        FileView(index, one.kind, one.media_type, one.name or (one.artifact.name if one.artifact else ""))
        for index, one in enumerate(attachments, first)
    )


def _attachments(message: Message) -> list[Attachment]:
    match message:
        case UserMessage(parts=parts):
            return [part.attachment for part in parts if isinstance(part, Media)]
        case ResultsMessage(results=results):
            return [attachment for one in results for attachment in one.attachments]
        case _:
            return []


def _find_words(words: str, messages: Sequence[Message]) -> tuple[int, str]:
    """Return the number of the first message with these words, and the text around them; 0 and no text without one.

    Results of calls are not searched.
    """
    for seq, message in enumerate(messages, 1):
        parts: Sequence[Part] = () if isinstance(message, ResultsMessage) else message.parts
        text = " ".join(" ".join(part.text for part in parts if isinstance(part, Text)).split())
        place = text.casefold().find(words)
        if place >= 0:
            begin = max(0, place - _AROUND)
            return seq, f"{'…' if begin else ''}{text[begin : place + len(words) + _AROUND]}"
    return 0, ""
