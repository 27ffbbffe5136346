"""A session by what a person types, and as a document: what `handspan sessions show` and `/export` print."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final

import msgspec

from handspan.cli.chat.lines import describe_end
from handspan.cli.render import render_time
from handspan.cli.requests import RemoteRefused, Requests, find_id, segment
from handspan.core.errors import HandspanError
from handspan.core.events import Ended
from handspan.core.results import edited_arguments
from handspan.core.values import JsonObject, escape_invisible, strip_invisible
from handspan.wire.rest.sessions import (
    OF_PEOPLE,
    EndView,
    FileView,
    LeftVersion,
    MessageList,
    MessageView,
    SessionList,
    SessionView,
    SummaryView,
    VersionList,
)

LAST: Final = "last"
"""Stands for the id of the session that was active last."""
_MOST: Final = "1000"
"""Sessions among which the beginning of an id is looked for: the most that the gateway lists at once."""


class SessionDocument(msgspec.Struct, frozen=True):
    """A session with all its messages, as `--json` prints it."""

    session: SessionView
    messages: list[MessageView]
    texts: dict[str, str] = {}
    """The texts that were sent with messages, by `SEQ/INDEX` of their file."""
    ends: list[EndView] = []
    """How turns ended that did not end with a whole answer."""
    summaries: list[SummaryView] = []
    """What models have got in place of earlier messages, which are all here."""
    left: list[LeftVersion] = []
    """The versions that going back has left."""


async def find_session(requests: Requests, session_id: str) -> SessionView:
    """Return the session with this id, or whose id begins so; 'last' is the one that was active last.

    Raises `HandspanError` when there is none.
    """
    if session_id != LAST:
        try:
            return await requests.get(f"/api/sessions/{segment(session_id)}", SessionView)
        except RemoteRefused as refused:
            listed = (await requests.get("/api/sessions", SessionList, limit=_MOST)).sessions
            named = {one.session_id: one for one in listed}
            return named[find_id(session_id, named, refused)]
    found = (await requests.get("/api/sessions", SessionList, limit="1", kind=OF_PEOPLE)).sessions
    if not found:
        raise HandspanError("There is no session yet to go on with: begin one.")
    return found[0]


async def load_document(requests: Requests, session_id: str) -> SessionDocument:
    """Return the session with all its messages, without the versions that were left."""
    session = await find_session(requests, session_id)
    path = f"/api/sessions/{segment(session.session_id)}/messages"
    found = await requests.get(path, MessageList, full="true")
    messages = found.messages
    texts = {}
    for message in messages:
        for file in message.files:
            if message.role == "user" and file.media_type == "text/plain":
                answered = await requests.send("GET", f"{path}/{message.seq}/files/{file.index}")
                texts[f"{message.seq}/{file.index}"] = answered.body.decode(errors="replace")
    return SessionDocument(session, messages, texts, found.ends, summaries=found.summaries)


async def export_text(requests: Requests, session_id: str, *, as_json: bool) -> str:
    """Return the session as one text, Markdown or JSON, with the versions that were left."""
    document = await load_document(requests, session_id)
    path = f"/api/sessions/{segment(document.session.session_id)}/versions"
    versions = (await requests.get(path, VersionList)).versions
    left = [await requests.get(f"{path}/{one.branch}", LeftVersion) for one in versions if not one.is_current]
    document = msgspec.structs.replace(document, left=left)
    if as_json:
        return escape_invisible(msgspec.json.format(msgspec.json.encode(document)).decode()) + "\n"
    return render_markdown(document)


def render_markdown(document: SessionDocument) -> str:
    """Return the session as Markdown."""
    session = document.session
    head = f"# {strip_invisible(session.name) or 'A conversation'}\n\n"
    model = f", model {strip_invisible(session.model)!r}" if session.model else ""
    begun = render_time(session.created_at)
    facts = f"Session {session.session_id}, agent {session.persona!r}{model}, begun {begun}.\n"
    return head + facts + "".join(f"\n{part}" for part in _document_parts(document))


def _document_parts(document: SessionDocument) -> Iterator[str]:
    """Yield the messages, and after the last one of each turn how that turn ended, if not with a whole answer."""
    ends, summaries = {end.after: end for end in document.ends}, {one.after: one for one in document.summaries}
    for message, following in zip_longest(document.messages, document.messages[1:]):
        yield from _parts(message, document.texts)
        is_last = following is None or following.seq != message.seq  # a message of results is several entries
        if is_last and message.seq in ends:
            yield f"**{render_end(ends[message.seq])}**\n"
        if is_last and message.seq in summaries:
            yield _summary_part(summaries[message.seq])
    for version in document.left:
        yield f"# A version that was left ({version.branch})\n"
        for message in version.messages:
            yield from _parts(message, {})


def messages_with_ends(document: SessionDocument) -> list[JsonObject]:
    """Return the messages; the last one of a turn has its end as `ended`, if that is stored."""
    found: list[JsonObject] = [msgspec.to_builtins(message) for message in document.messages]
    last = {message.seq: entry for message, entry in zip(document.messages, found, strict=True)}
    for end in document.ends:
        last.get(end.after, {})["ended"] = msgspec.to_builtins(end)
    return found


async def describe_last_end(requests: Requests, session_id: str) -> str:
    """Return how the last turn of the session ended; empty after a whole answer."""
    session = await requests.get(f"/api/sessions/{segment(session_id)}", SessionView)
    return render_end(session.ended) if isinstance(session.ended, EndView) else ""


def render_end(end: EndView) -> str:
    """Return a line for people about a turn that did not end with a whole answer."""
    words = strip_invisible(describe_end(Ended(end.reason, end.text, end.fault))).strip("()")
    about = ", ".join(part for part in (render_time(end.at), strip_invisible(end.model)) if part)
    return f"{words[:1].upper()}{words[1:]} [{about}]"


def _parts(message: MessageView, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the paragraphs of one message. `texts`: those of its files, as far as they are text."""
    text = strip_invisible(message.content).strip()
    if message.role == "tool":
        if ran_with := edited_arguments(text):
            yield f"**{strip_invisible(message.name)} ran with edited arguments**\n\n{_fence(ran_with)}"
        yield f"**Result of {strip_invisible(message.name)}**\n\n{_fence(text)}"
        return
    model = f"{message.model} in place of {message.in_place_of}" if message.in_place_of else message.model
    who = "You" if message.role == "user" else f"Agent{f' ({model})' if model else ''}"
    files = "".join(_file_part(file, texts.get(f"{message.seq}/{file.index}")) for file in message.files)
    if text or files:
        yield f"## {who}\n\n{text}\n{files}"
    for call in message.calls:
        yield f"**Call of {strip_invisible(call.name)}**\n\n{_fence(strip_invisible(call.arguments))}"


def _summary_part(summary: SummaryView) -> str:
    """Return a note about what the model got in place of what stands above."""
    lines = "".join(f"> {line}\n" for line in strip_invisible(summary.text).splitlines())
    return f"**Note: from {render_time(summary.at)} on, the model got this in place of what stands above**\n\n{lines}"


def _file_part(file: FileView, text: str | None) -> str:
    """Return what stands for a file: its name, and under it a text that was sent with the message."""
    name = f"\n[{file.kind}: {strip_invisible(file.name) or file.media_type}]\n"
    return name if text is None else f"{name}\n{_fence(strip_invisible(text).rstrip())}"


def _fence(text: str) -> str:
    """Return a block of code. Its fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}\n"
