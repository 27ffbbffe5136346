"""The messages of a thread: read, put there, taken away (graph.md 8.3)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Part, ResultsMessage, Thinking, UserMessage
from handspan.core.names import is_outside_name, outside_name
from handspan.core.records import ThreadEntry
from handspan.gateway.graph.asking import body_of, id_of, paging_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.graph.saying import message_of
from handspan.gateway.graph.shown import Shower
from handspan.gateway.graph.threads import forget_name, refuse_at_work
from handspan.gateway.graph.toolbook import set_of
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.sources.graph import GraphTool
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import DoneAnswer, GraphMessage, MessagesAnswer
from handspan.wire.graph.blocks import Block, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.requests import AddedMessage

_NUMBERS: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")


async def messages(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> MessagesAnswer:
    """What was said, the first one first."""
    thread_id, part, owner = id_of(request, "thread_id"), paging_of(request), client.who.owner
    shower = Shower(thread_id, await own_names(doors, thread_id, owner))
    if not part.search:
        entries = await doors.store.threads.entries(thread_id, owner=owner, offset=part.offset, limit=part.limit)
        return MessagesAnswer(list(shown(shower, entries)))
    wanted = part.search.casefold()
    entries = await doors.store.threads.entries(thread_id, owner=owner)
    found = [message for message in shown(shower, entries) if wanted in _words(message).casefold()]
    return MessagesAnswer(found[part.offset : part.offset + part.limit])


async def message(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> GraphMessage:
    """One message."""
    return (await _found(doors, client, request))[1]


async def add_messages(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Put messages at the end of a thread; nobody answers them."""
    thread_id = id_of(request, "thread_id")
    added = graph.read_added(await body_of(request))
    await put(doors, client, thread_id, added, ["body", "messages"])
    return DoneAnswer(message="Messages put successfully")


async def delete_message(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> DoneAnswer:
    """Take a message away, with those that can't stand without it; not while the thread is at work."""
    await body_of(request)  # graph.md 1.5: nothing in it counts
    entry, _ = await _found(doors, client, request)
    thread_id, owner = id_of(request, "thread_id"), client.who.owner
    refuse_at_work(doors, client, thread_id)
    known = await doors.store.conversations.get(thread_id, owner=owner)
    if not await doors.store.threads.remove(thread_id, entry.number, owner=owner):  # gone meanwhile
        raise _none(thread_id, id_of(request, "message_id"))
    await forget_name(doors, known, [entry.message])
    return DoneAnswer(message="Message deleted successfully")


async def put(
    doors: GraphDoors, client: GraphClient, thread_id: str, added: Sequence[AddedMessage], place: list[str]
) -> None:
    """Let these be part of the thread, all or none. `BodyError` names the place, `Refusal` (409) is for later."""
    owner = client.who.owner
    await doors.store.conversations.get(thread_id, owner=owner)  # before anything of it is read: it may be another's
    refuse_at_work(doors, client, thread_id)
    said = [await _said(one, doors.artifacts, owner) for one in added]
    try:
        await doors.store.threads.add(thread_id, said, owner=owner)
    except ToolError as error:
        if error.code != "invalid_arguments":
            raise
        raise BodyError([Detail(place, error.message, "value_error")]) from None


def shown(shower: Shower, entries: Iterable[ThreadEntry]) -> Iterable[GraphMessage]:
    """Entries of a thread in the words of the wire."""
    return (_shown(shower, entry) for entry in entries)


def _shown(shower: Shower, entry: ThreadEntry) -> GraphMessage:
    match entry.message:
        case UserMessage() as said:
            return shower.said(entry.number, said, entry.at)
        case AssistantMessage() as reply:
            return shower.replied(entry.number, reply, entry.at)
        case ResultsMessage(results=results):
            assert entry.place is not None and entry.call is not None, "an entry of results is one of them"
            return shower.result(entry.number, entry.place, entry.call, results[entry.place], entry.at)


async def _found(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> tuple[ThreadEntry, GraphMessage]:
    """The message that the path names; `Refusal` (404) when there is none."""
    thread_id, message_id = id_of(request, "thread_id"), id_of(request, "message_id")
    thread, _, numbers = message_id.rpartition(":")
    known = _NUMBERS.fullmatch(numbers)
    number = int(known[1]) if known is not None and thread == thread_id else 0
    entries = await doors.store.threads.find(thread_id, number, owner=client.who.owner)
    shower = Shower(thread_id, await own_names(doors, thread_id, client.who.owner))
    for entry, one in zip(entries, shown(shower, entries), strict=True):
        if one.message_id == message_id:
            return entry, one
    raise _none(thread_id, message_id)


def _none(thread_id: str, message_id: str) -> Refusal:
    text = f"There is no message {message_id[:160]!r} in the thread {thread_id!r}: read its messages again."
    return Refusal(404, "RESOURCE_NOT_FOUND", text)


async def _said(added: AddedMessage, artifacts: Artifacts, owner: str) -> UserMessage | AssistantMessage:
    if added.role == "user":
        return await message_of(added.content, artifacts, owner)
    parts: list[Part] = []
    for block in added.content:
        if type(block) is ReasoningBlock:
            parts.append(Thinking(block.summary))
        else:
            parts += (await message_of([block], artifacts, owner)).parts
    return AssistantMessage(tuple(parts))


def _words(message: GraphMessage) -> str:
    """All that a person could look for in it."""
    return "\n".join(_words_of(block) for block in message.content)


def _words_of(block: Block) -> str:
    match block:
        case TextBlock(text=text) | ReasoningBlock(summary=text):
            return text
        case ToolCallBlock(name=name, args=args):
            return f"{name} {msgspec.json.encode(args).decode()}"
        case ToolResultBlock(output=output):
            return output if isinstance(output, str) else msgspec.json.encode(output).decode()
        case _:
            return ""


async def own_names(doors: GraphDoors, thread: str, owner: str) -> Mapping[str, str]:
    """The names of the tools of clients that were called in this thread; of one name on two, the one called last."""
    names: dict[str, str] = {}
    for facts in await doors.store.threads.tools_called(thread, owner=owner):
        if facts.answered_by == "request" and facts.origin is not None:
            names |= names_of((await doors.book.of_run(facts.origin.name, None, set_of(facts.origin))).tools)
    return names


def names_of(tools: Sequence[GraphTool]) -> dict[str, str]:
    """Own names by every name that a model may know a tool by; its first one counts most (graph.md 3.6)."""
    names: dict[str, str] = {}
    prefixed = [(tool, f"{tool.node}__{tool.own_name}") for tool in tools]
    names |= {outside_name(name, taken=(name,)): tool.own_name for tool, name in prefixed}
    names |= {name: tool.own_name for tool, name in prefixed if is_outside_name(name)}
    names |= {tool.spec.name: tool.own_name for tool in tools}
    return names
