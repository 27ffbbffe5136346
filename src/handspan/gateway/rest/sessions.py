"""Sessions: the conversations of the caller, in the form that ClawSeed's clients know."""

import asyncio
from collections.abc import Sequence
from typing import Final, get_args

from msgspec import UNSET, UnsetType, structs

from handspan.agent.turn_events import SessionEvent
from handspan.core.agents import GENERAL
from handspan.core.children import asking_call
from handspan.core.errors import SessionDeleted, ToolError
from handspan.core.events import Compacted
from handspan.core.messages import AssistantMessage, Media, Message, ResultsMessage, Text, Thinking, UserMessage
from handspan.core.records import (
    DatedMessage,
    FoundText,
    SessionEdit,
    SessionFilter,
    SessionKind,
    SessionRecord,
    Version,
)
from handspan.core.results import Attachment
from handspan.core.values import strip_invisible
from handspan.core.words import find_excerpt, searched_words
from handspan.gateway.http.files import BINARY
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.artifacts import respond_attachment
from handspan.gateway.rest.models import choose_model
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import sessions as wire

family: Final = Family("sessions")
_LONGEST_NUMBER: Final = 16
_NAME_REQUIRED: Final = "name is required"
"""The words that ClawSeed's clients know. Anything else to change is as good as a name."""


@family.get("/api/sessions")
async def sessions(request: RestRequest, query: wire.SessionQuery) -> wire.SessionList:
    """The caller's sessions, the last active first. Those without a message yet come first of all."""
    wanted = SessionFilter(_read_kinds(query.kind), _or_none(query.pinned), _or_none(query.archived))
    found = await request.store.conversations.page(
        wanted, owner=request.owner, limit=query.limit, after=query.after or None
    )
    unstored = () if query.after else await request.sessions.unstored.all(request.owner)
    fitting = (one for one in unstored if wanted.fits(one))
    return wire.SessionList([_render_session(one) for one in (*fitting, *found.sessions)], found.next)


@family.post("/api/sessions", status=201, also_refuses=(404,))
async def create_session(request: RestRequest, body: wire.NewSession) -> wire.SessionView:
    """Begin a session."""
    agent = await find_agent(request, body.persona)
    if body.model:
        await choose_model(request, body.model)  # a wrong name is refused here
    conversations = request.store.conversations
    made = await conversations.create(owner=request.owner, agent=agent.name, name=body.name, kind=body.kind)
    if body.model:
        await conversations.edit(made.id, SessionEdit(model=body.model), owner=request.owner)
    request.publish("sessions", session_id=made.id, change="created")
    return _render_session(structs.replace(made, model=body.model))


@family.get("/api/sessions/running")
async def running(request: RestRequest) -> wire.RunningList:
    """Sessions whose turn runs now."""
    running_sessions = []
    for turn in request.sessions.running(request.owner):
        try:
            one = await request.store.conversations.find(turn.session_id, owner=request.owner)
        except SessionDeleted:
            continue
        if one is None:  # its first turn is not stored yet
            continue
        times = (moment(one.created), moment(one.active), one.length)
        running_sessions.append(wire.RunningSession(one.id, *times, turn.turn_id, moment(turn.wanted_at)))
    return wire.RunningList(running_sessions)


@family.get("/api/sessions/search")
async def search_sessions(request: RestRequest, query: wire.SearchQuery) -> wire.FoundSessions:
    """The sessions that have all these words in one message, or in their name."""
    wanted = SessionFilter(_read_kinds(query.kind), archived=_or_none(query.archived))
    texts = await request.store.search.find(
        query.query, wanted, owner=request.owner, limit=query.limit, left=query.left, results=query.results
    )
    words = searched_words(query.query)
    found = await asyncio.to_thread(lambda: [_render_found(one, words) for one in texts.found])
    return wire.FoundSessions(found, texts.unindexed)


@family.get("/api/sessions/{session_id}")
async def session(request: RestRequest, session_id: str) -> wire.SessionView:
    """One session, without its messages; with the end of its last turn, unless that was a whole answer."""
    found = await request.find_session(session_id)
    ends = await _ends(request, found, after=found.length)
    context = await request.sessions.context_of(found)
    return structs.replace(_render_session(found), ended=ends[-1] if ends else UNSET, context=context or UNSET)


@family.get("/api/sessions/{session_id}/messages")
async def messages(request: RestRequest, session_id: str, query: wire.MessagesQuery) -> wire.MessageList:
    """The messages of a session, and how its turns ended; with `full` also calls and their results."""
    record = await request.find_session(session_id)
    conversations = request.store.conversations
    # A session without messages may not be stored yet: then `load` does not find it.
    found = (
        [] if not record.length else await conversations.load_dated(session_id, owner=request.owner, after=query.after)
    )
    listed = [
        each
        for seq, dated in enumerate(found, query.after + 1)
        for each in _render_message(seq, dated)
        if query.full or (each.role != "tool" and each.content)
    ]
    marks = await request.store.contexts.summaries(session_id, owner=request.owner) if record.compacted else ()
    summaries = [
        wire.SummaryView(one.summarized, moment(one.at), strip_invisible(one.summary))
        for one in marks
        if one.summarized >= query.after
    ]
    return wire.MessageList(
        session_id, listed, ends=await _ends(request, record, after=query.after), summaries=summaries
    )


@family.get("/api/sessions/{session_id}/messages/{seq}/files/{index}", media_type=BINARY)
async def message_file(request: RestRequest, session_id: str, seq: str, index: str) -> AsgiResponse:
    """An image, a sound or a file of a message or of the results of its calls."""
    await request.find_session(session_id)
    place = int(seq) if seq.isdecimal() and len(seq) < 10 else 0
    found = await request.store.conversations.load(session_id, owner=request.owner, after=max(0, place - 1))
    return await respond_attachment(request, _attachments(found[0]) if found and place > 0 else [], index)


@family.get("/api/sessions/{session_id}/state")
async def state(request: RestRequest, session_id: str) -> wire.SessionStateView:
    """Whether a turn of the session runs or waits."""
    await request.sessions.until_stored(session_id, request.owner)
    turn = request.sessions.state(session_id, request.owner)
    found = await request.find_session(session_id)  # read after: a turn that has ended is not found as running
    if turn is None:
        return wire.SessionStateView(session_id, found.state)
    return wire.SessionStateView(session_id, "running", turn.turn_id, moment(turn.wanted_at))


@family.put("/api/sessions/{session_id}", also_refuses=(404,), invalid=(400, "name_required", _NAME_REQUIRED))
async def change(request: RestRequest, session_id: str, body: wire.SessionUpdate) -> wire.ChangedSession:
    """Give a session another name or another model, pin it, archive it, or make it another kind."""
    given = {field: value for field, value in structs.asdict(body).items() if value is not UNSET}
    if not given:
        raise Refusal(400, "name_required", _NAME_REQUIRED)
    if body.model:
        await choose_model(request, body.model)  # a wrong name is refused here
    changed = await request.sessions.edit(session_id, SessionEdit(**given), request.owner)
    request.publish("sessions", session_id=session_id, change="renamed" if "name" in given else "changed")
    return wire.ChangedSession(
        session_id,
        changed.name,
        changed.kind,
        changed.pinned,
        archived=changed.archived,
        model=changed.model,
    )


@family.delete("/api/sessions/{session_id}", also_refuses=(409,))
async def delete(request: RestRequest, session_id: str, query: wire.DeleteQuery) -> wire.DeletedSession:
    """Remove a session with everything that belongs to it. Refused (409) while its turn runs.

    With `undo` it is hidden at once, and removed after `store.undo_seconds`; until then it can be restored.
    """
    sessions = request.sessions
    if sessions.state(session_id, request.owner) is not None:  # its turn may not have begun in the store yet
        raise ToolError("busy", f"The session {session_id!r} is running: wait for its turn to end, or stop it.")
    until = None
    if await sessions.unstored.find(session_id, request.owner) is not None:
        sessions.unstored.forget(session_id)
    else:
        until = await request.store.conversations.delete(session_id, owner=request.owner, undo=query.undo)
    request.publish("sessions", session_id=session_id, change="deleted")
    return wire.DeletedSession(deleted=True, session_id=session_id, until=UNSET if until is None else moment(until))


@family.post("/api/sessions/{session_id}/restore")
async def restore(request: RestRequest, session_id: str) -> wire.SessionView:
    """Bring back a session that was deleted with `undo`. 404 when it is removed already."""
    restored = await request.store.conversations.restore(session_id, owner=request.owner)
    request.publish("sessions", session_id=session_id, change="restored")
    if restored.state == "waiting":  # its calls may have got their results meanwhile
        request.sessions.tasks.start(request.sessions.resume_turn(session_id, request.owner))
    return _render_session(restored)


@family.post("/api/sessions/{session_id}/undo", also_refuses=(409,))
async def undo(request: RestRequest, session_id: str) -> wire.UndoneTurn:
    """Leave the person's last message and all that follows it as a version. What its calls did stays done."""
    before = (await request.find_session(session_id)).length
    await request.sessions.get(session_id, request.owner).undo(request.who).wait_for_end()
    request.publish("sessions", session_id=session_id, change="undone")
    return wire.UndoneTurn(session_id, before - (await request.find_session(session_id)).length)


@family.get("/api/sessions/{session_id}/context", also_refuses=(409,))
async def context(request: RestRequest, session_id: str) -> wire.ContextView:
    """How full the context of the session's model is, and with what."""
    await request.find_session(session_id)
    parts = await request.sessions.describe_context(session_id, request.who)
    return wire.ContextView(session_id, **structs.asdict(parts))


@family.post("/api/sessions/{session_id}/compact", also_refuses=(409,))
async def compact(request: RestRequest, session_id: str, body: wire.CompactBody) -> wire.CompactedSession:
    """Let the model see a summary in place of all before the last turn. Returns when it is there. No message goes."""
    await request.find_session(session_id)
    told: list[Compacted] = []

    def listen(event: SessionEvent, turn: str) -> None:
        if isinstance(event, Compacted):
            told.append(event)

    await request.sessions.get(session_id, request.owner).compact(request.who, body.keep, listen).wait_for_end()
    done = told[-1]
    request.publish("sessions", session_id=session_id, change="compacted")
    return wire.CompactedSession(
        session_id, done.before, done.after, done.summarized, summary=done.summary, note=done.note
    )


@family.get("/api/sessions/{session_id}/versions")
async def versions(request: RestRequest, session_id: str) -> wire.VersionList:
    """The versions of a session: what going back has left, and what stands in its place."""
    record, conversations = await request.find_session(session_id), request.store.conversations
    is_stored = record.length or record.removed
    found = await conversations.versions(session_id, owner=request.owner) if is_stored else ()
    return wire.VersionList(session_id, [_render_version(one) for one in found])


@family.get("/api/sessions/{session_id}/versions/{branch}")
async def version(request: RestRequest, session_id: str, branch: str) -> wire.LeftVersion:
    """The messages of a version that was left, with calls and their results."""
    record, conversations = await request.find_session(session_id), request.store.conversations
    number = _read_branch(branch)
    found = await conversations.left_messages(session_id, owner=request.owner, branch=number) if record.removed else {}
    if number not in found:
        raise ToolError("file_not_found", f"The session has left no version {branch[:20]!r}: list its versions.")
    messages = [each for seq, dated in enumerate(found[number], 1) for each in _render_message(seq, dated)]
    return wire.LeftVersion(session_id, number, messages)


@family.post("/api/sessions/{session_id}/versions/{branch}", also_refuses=(409,))
async def choose_version(request: RestRequest, session_id: str, branch: str) -> wire.ChosenVersion:
    """Go on with this version of the conversation; what stood in its place becomes a version. What calls did stays."""
    await request.find_session(session_id)
    number = _read_branch(branch)
    await request.sessions.get(session_id, request.owner).choose_version(request.who, number).wait_for_end()
    request.publish("sessions", session_id=session_id, change="version")
    return wire.ChosenVersion(session_id, number, (await request.find_session(session_id)).length)


@family.post("/api/sessions/{session_id}/retry", also_refuses=(409,))
async def retry(request: RestRequest, session_id: str) -> wire.RetriedTurn:
    """Answer the person's last message again, in place of its answer or its failed end. Returns when the turn ends."""
    await request.find_session(session_id)
    handle = request.sessions.get(session_id, request.owner).regenerate(request.who, lambda *_: None)
    ended = await handle.wait_for_end()
    return wire.RetriedTurn(session_id, ended.reason, ended.text, ended.fault)


@family.post("/api/sessions/{session_id}/abort")
async def abort(request: RestRequest, session_id: str) -> wire.AbortStatus:
    """Stop the turn, if one runs. The text that has arrived stays."""
    await request.find_session(session_id)
    stopped = await request.sessions.abort_anywhere(session_id, request.owner)
    return wire.AbortStatus("aborted" if stopped else "no_active_response")


def _read_branch(text: str) -> int:
    """Return the number of a version; 0, which none has, for anything else."""
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 0


async def _ends(request: RestRequest, session: SessionRecord, after: int) -> list[wire.EndView]:
    """Return how turns of this session ended, from the message `after` on."""
    if not session.length:
        return []
    ends = await request.store.conversations.ends(session.id, owner=request.owner, after=after)
    return [
        wire.EndView(seq, end.reason, moment(end.at), end.model, text=strip_invisible(end.text), fault=end.fault)
        for seq, end in ends.items()
    ]


def _read_kinds(text: str) -> tuple[SessionKind, ...] | None:
    """Return the kinds that a query names; None if it names none."""
    return tuple(kind for kind in get_args(SessionKind) if kind in text.split(",")) if text else None


def _or_none(value: bool | UnsetType) -> bool | None:
    return None if isinstance(value, UnsetType) else value


def _render_session(one: SessionRecord) -> wire.SessionView:
    """Return the session as clients see it."""
    created, active = moment(one.created), moment(one.active)
    return wire.SessionView(
        one.id,
        created,
        active,
        one.length,
        state=one.state,
        kind=one.kind,
        name=one.name,
        persona=one.agent,
        parent=asking_call(one.id),
        pinned=one.pinned,
        archived=one.archived,
        model=one.model,
    )


def _render_found(one: FoundText, words: Sequence[str]) -> wire.FoundSession:
    """Return what a search has found as clients see it, with the words marked in an excerpt."""
    marked = [wire.ExcerptPart(strip_invisible(part.text), part.is_found) for part in find_excerpt(one.text, words)]
    return wire.FoundSession(
        _render_session(one.session),
        one.seq,
        "".join(part.text for part in marked) if one.seq else "",
        marked,
        branch=UNSET if one.branch is None else one.branch,
        in_result=True if one.is_result else UNSET,
    )


def _render_version(one: Version) -> wire.VersionView:
    """Return the version as clients see it."""
    left_at = None if one.left_at is None else moment(one.left_at)
    return wire.VersionView(
        one.branch,
        one.fork,
        one.seq,
        one.length,
        text=one.text,
        at=moment(one.at),
        is_current=one.left_at is None,
        left_at=left_at,
    )


def _render_message(seq: int, dated: DatedMessage) -> list[wire.MessageView]:
    """Return one message as clients see it; of results one message each."""
    at = moment(dated.at)
    match dated.message:
        case UserMessage(parts=parts, id=sent_id, turn=turn):
            text = "\n".join(part.text for part in parts if isinstance(part, Text))
            files = _render_files([part.attachment for part in parts if isinstance(part, Media)])
            return [wire.MessageView(seq, "user", text, at, attachments=len(files), files=files, id=sent_id, turn=turn)]
        case AssistantMessage() as message:
            calls = tuple(wire.CallView(call.id, call.name, call.arguments) for call in message.calls)
            thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
            by = message.substitution
            meant, why = ("", "") if isinstance(by, UnsetType) else (by.of, strip_invisible(by.reason))
            agent = message.agent or GENERAL.name
            view = wire.MessageView(seq, "assistant", message.text, at, agent=agent, thinking=thinking, calls=calls)
            return [structs.replace(view, model=message.model, in_place_of=meant, reason=why)]
        case ResultsMessage(results=results):
            shown: list[wire.MessageView] = []
            first = 0
            for one in results:
                files = _render_files(one.attachments, first)
                first += len(files)
                view = wire.MessageView(seq, "tool", one.envelope, at, attachments=len(files), files=files)
                shown.append(structs.replace(view, call_id=one.call_id, name=one.name))
            return shown


def _render_files(attachments: Sequence[Attachment], first: int = 0) -> tuple[wire.FileView, ...]:
    return tuple(
        wire.FileView(index, one.kind, one.media_type, one.name or (one.artifact.name if one.artifact else ""))
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
