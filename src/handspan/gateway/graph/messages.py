"""The messages of a thread: listed, appended, removed (graph.md 8.3)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage
from handspan.core.records import SessionRecord, ThreadEntry
from handspan.core.titles import make_title
from handspan.core.values import Json, strip_all
from handspan.gateway.graph.renderer import MessageRenderer
from handspan.gateway.graph.request import GraphParts, GraphRequest
from handspan.gateway.graph.requests import read_added_message
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.runs.tool_sets import tool_names, tool_set_id
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import DoneAnswer, GraphMessage, MessagesAnswer
from handspan.wire.graph.blocks import Block, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.requests import AddedMessage

_NUMBERS: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")


async def messages(request: GraphRequest) -> MessagesAnswer:
    """Return the messages of a thread, the oldest first."""
    thread_id, part, owner = request.path_id("thread_id"), request.paging(), request.owner
    renderer, threads = await _renderer(request, thread_id), request.store.threads
    if not part.search:
        entries = await threads.entries(thread_id, owner=owner, offset=part.offset, limit=part.limit)
        return MessagesAnswer([render_entry(renderer, entry) for entry in entries])
    wanted = part.search.casefold()
    shown = [render_entry(renderer, entry) for entry in await threads.entries(thread_id, owner=owner)]
    found = [one for one in shown if wanted in "\n".join(map(_block_text, one.content)).casefold()]
    return MessagesAnswer(found[part.offset : part.offset + part.limit])


async def message(request: GraphRequest) -> GraphMessage:
    """Return one message."""
    return (await _find_message(request))[1]


async def add_messages(request: GraphRequest) -> DoneAnswer:
    """Append messages to a thread. The model does not answer them."""
    thread_id = request.path_id("thread_id")
    added = graph.read_added(await request.body())
    await append_messages(request, thread_id, added, ["body", "messages"])
    return DoneAnswer(message="Messages put successfully")


async def delete_message(request: GraphRequest) -> DoneAnswer:
    """Remove a message, with those that depend on it. Refused (409) while a run is at work in the thread."""
    await request.body()  # graph.md 1.5: the body is ignored
    entry, _ = await _find_message(request)
    thread_id, owner = request.path_id("thread_id"), request.owner
    check_not_running(request, thread_id)
    known = await request.store.conversations.get(thread_id, owner=owner)
    if not await request.store.threads.remove(thread_id, entry.number, owner=owner):  # gone meanwhile
        raise _missing(thread_id, request.path_id("message_id"))
    await forget_title(request, known, [entry.message])
    return DoneAnswer(message="Message deleted successfully")


async def append_messages(
    request: GraphRequest, thread_id: str, added: Sequence[AddedMessage], place: list[str]
) -> None:
    """Append all messages to the thread, or none.

    Raises `BodyError`, which names the place, and `Refusal` (409) while a run is at work.
    """
    owner = request.owner
    await request.store.conversations.get(thread_id, owner=owner)  # first: the thread may belong to another owner
    check_not_running(request, thread_id)
    added_messages = [await read_added_message(one, request.parts.artifacts, owner) for one in added]
    try:
        await request.store.threads.add(thread_id, added_messages, owner=owner)
    except ToolError as error:
        if error.code != "invalid_arguments":
            raise
        raise BodyError([Detail(place, error.message, "value_error")]) from None


async def _renderer(request: GraphRequest, thread_id: str) -> MessageRenderer:
    return MessageRenderer(thread_id, await called_tool_names(request.graph, thread_id, request.owner))


def render_entry(renderer: MessageRenderer, entry: ThreadEntry) -> GraphMessage:
    """Return a stored entry of a thread as a message of the graph API."""
    message = _render_message(renderer, entry)
    if entry.ended is None:
        return message
    ended: Json = strip_all(msgspec.to_builtins(entry.ended))
    return msgspec.structs.replace(message, metadata={**message.metadata, "ended": ended})


def _render_message(renderer: MessageRenderer, entry: ThreadEntry) -> GraphMessage:
    """Return the entry of a thread as a message."""
    match entry.message:
        case UserMessage() as message:
            return renderer.user_message(entry.number, message, entry.at)
        case AssistantMessage() as reply:
            return renderer.reply(entry.number, reply, entry.at)
        case ResultsMessage(results=results):
            assert entry.place is not None and entry.call is not None, "an entry of results is one of them"
            return renderer.result(entry.number, entry.place, entry.call, results[entry.place], at=entry.at)


async def _find_message(request: GraphRequest) -> tuple[ThreadEntry, GraphMessage]:
    """Return the message that the path names. Raises `Refusal` (404) when there is none."""
    thread_id, message_id = request.path_id("thread_id"), request.path_id("message_id")
    thread, _, numbers = message_id.rpartition(":")  # an id is THREAD:NUMBER, or THREAD:NUMBER.PART
    known = _NUMBERS.fullmatch(numbers)
    number = int(known[1]) if known is not None and thread == thread_id else 0
    entries = await request.store.threads.find(thread_id, number, owner=request.owner)
    renderer = await _renderer(request, thread_id)
    for entry in entries:
        shown = render_entry(renderer, entry)
        if shown.message_id == message_id:
            return entry, shown
    raise _missing(thread_id, message_id)


def _missing(thread_id: str, message_id: str) -> Refusal:
    text = f"There is no message {message_id[:160]!r} in the thread {thread_id!r}: read its messages again."
    return Refusal(404, "RESOURCE_NOT_FOUND", text)


def _block_text(block: Block) -> str:
    """Return the text of a block in which a search looks."""
    match block:
        case TextBlock(text=text) | ReasoningBlock(summary=text):
            return text
        case ToolCallBlock(name=name, args=args):
            return f"{name} {msgspec.json.encode(args).decode()}"
        case ToolResultBlock(output=output):
            return output if isinstance(output, str) else msgspec.json.encode(output).decode()
        case _:
            return ""


async def called_tool_names(parts: GraphParts, thread: str, owner: str) -> Mapping[str, str]:
    """Return the clients' names of the tools called in this thread. Of two tools with one name the last counts."""
    names: dict[str, str] = {}
    for facts in await parts.gateway.store.threads.tools_called(thread, owner=owner):
        if facts.answered_by == "request" and facts.origin is not None:
            called = await parts.tool_sets.of_run(facts.origin.name, None, tool_set_id(facts.origin))
            names |= tool_names(called.tools)
    return names


async def forget_title(request: GraphRequest, known: SessionRecord, removed: Iterable[Message]) -> None:
    """Remove a thread's name that was made from removed messages (graph.md 8.3). The next run makes a new one."""
    if known.name and known.name == make_title(removed):
        await request.store.conversations.rename(known.id, "", owner=known.owner)
        request.parts.live.publish(known.owner, "sessions", {"session_id": known.id, "change": "renamed"})


def check_not_running(request: GraphRequest, thread_id: str) -> None:
    """Raise `Refusal` (409) while a run is at work in the thread, or waits in the queue for it."""
    if request.parts.sessions.state(thread_id, request.owner) is not None:
        text = f"The thread {thread_id!r} is at work: wait for its run to end, or stop it (POST /v1/graph/stop)."
        raise Refusal(409, "GRAPH_BUSY", text)
