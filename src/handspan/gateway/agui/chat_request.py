"""The input of a run as a request of a chat: what each field means (SPEC F3, F4)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.core.agents import Agent
from handspan.core.errors import WireError
from handspan.core.messages import Media, Text, UserMessage
from handspan.core.results import Attachment, AttachmentKind, Failure, Success, ToolResult
from handspan.core.values import Json, strip_invisible
from handspan.gateway.agui.request import AguiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.runs.agents import allowed_agents, default_agent
from handspan.gateway.runs.attachments import read_data_url, read_image
from handspan.gateway.runs.chats import ChatRequest
from handspan.gateway.runs.entries import ChatEntry, EarlierCall, EarlierReply
from handspan.gateway.runs.results import GivenResult
from handspan.gateway.runs.wishes import RunWishes
from handspan.net.guard import NetGuard
from handspan.wire.agui.messages import InputMessage, InputPart, PartSource
from handspan.wire.agui.run_input import RunInput, convert
from handspan.wire.graph.requests import DEFAULT_NODE, OfferedTool

_KINDS: Final[dict[str, AttachmentKind]] = {"audio": "audio", "video": "file", "document": "file"}
_OWN_FILES: Final = "A file of a provider can't be read here: send its bytes, or the address of an image."


async def read_chat_request(request: AguiRequest, given: RunInput) -> ChatRequest:
    """Return the request of the thread's chat. Raises `Refusal`, `WireError` or `AttachmentRefused`."""
    agent = await _find_agent(request)
    entries: list[ChatEntry] = []
    for number, message in enumerate(given.messages):
        entries += await _read_message(message, request.parts.app.guard, f"messages[{number}]")
    return ChatRequest(
        wishes=RunWishes(agent=agent.name, tools=_read_tools(given), instructions=_read_instructions(given)),
        entries=entries,
        key=f"thread:{given.thread_id}",
        request_id=given.run_id,
        is_version=False if given.resume else None,  # it goes on with a run that may be over meanwhile
    )


async def _find_agent(request: AguiRequest) -> Agent:
    agents, client, name = request.parts.app.agents, request.client, request.agent
    allowed = await allowed_agents(agents, client)
    found = next((agent for agent in allowed if agent.name == name), None)
    found = found if name else await default_agent(agents, client)
    if found is None:
        known = ", ".join(agent.name for agent in allowed[:10]) or "none"
        text = f"There is no agent {name[:80]!r}, or this token may not use it. It may use: {known}."
        raise Refusal(404, "unknown_agent", text)
    return found


def _read_tools(given: RunInput) -> Sequence[OfferedTool] | None:
    """Return the tools that the client offers; None, in a run that goes on: those with which it began."""
    goes_on = bool(given.resume) or (bool(given.messages) and given.messages[-1].role == "tool")
    if not given.tools and goes_on:
        return None
    return [OfferedTool(DEFAULT_NODE, tool.name, tool.description, tool.parameters or {}) for tool in given.tools or ()]


def _read_instructions(given: RunInput) -> str:
    """Return what the application tells the agent: instructions, and what it knows."""
    said = [message.content for message in given.messages if message.role in ("system", "developer")]
    known = [f"{entry.description}: {entry.value}" for entry in given.context or ()]
    return "\n\n".join([text for text in said if isinstance(text, str) and text] + known)


async def _read_message(message: InputMessage, guard: NetGuard, place: str) -> list[ChatEntry]:
    """Return what a message says; nothing for instructions, and for what only a person sees."""
    match message.role:
        case "user":
            parts = await _read_parts(message.content, guard, place)
            if not parts:
                raise WireError(f"{place}: the message is empty. Send some text.")
            return [UserMessage(tuple(parts))]
        case "assistant":
            called = (EarlierCall(call.id, call.function.name, call.function.arguments) for call in message.calls)
            text = message.content if isinstance(message.content, str) else ""
            return [EarlierReply(text, tuple(called))]
        case "tool":
            return [GivenResult(message.tool_call_id or "", await _read_outcome(message, guard, place))]
        case _:
            return []


async def _read_outcome(message: InputMessage, guard: NetGuard, place: str) -> ToolResult:
    if message.error:
        return Failure("execution_failed", strip_invisible(message.error))
    parts = await _read_parts(message.content, guard, place)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Success(text, tuple(part.attachment for part in parts if isinstance(part, Media)))


async def _read_parts(content: Json, guard: NetGuard, place: str) -> list[Text | Media]:
    """Return the parts of a content. Raises `WireError` or `AttachmentRefused`."""
    if isinstance(content, list):
        return [await _read_part(part, guard) for part in convert(content, list[InputPart], place)]
    text = content if isinstance(content, str) else "" if content is None else msgspec.json.encode(content).decode()
    return [Text(text)] if text else []


async def _read_part(part: InputPart, guard: NetGuard) -> Text | Media:
    match part:
        case InputPart(type="text"):
            return Text(part.text or "")
        case InputPart(type="image", source=PartSource() as source):
            return Media(await read_image(guard, _address(source)))
        case InputPart(type="binary", mime_type=str(kind)):  # before version 1.0
            address = part.url or f"data:{kind};base64,{part.data or ''}"
            if kind.startswith("image/"):
                return Media(await read_image(guard, address))
            return _read_file("file", address, part.filename or "")
        case InputPart(source=PartSource() as source) if part.type in _KINDS:
            return _read_file(_KINDS[part.type], _address(source), "")
    raise WireError(f"A part of the type {part.type[:40]!r} is not taken here.")


def _address(source: PartSource) -> str:
    if source.type == "file":
        raise WireError(_OWN_FILES)
    return source.value if source.type == "url" else f"data:{source.mime_type or ''};base64,{source.value}"


def _read_file(kind: AttachmentKind, address: str, name: str) -> Text | Media:
    if not address.startswith("data:"):  # the model may fetch it with a tool, under its rules
        return Text(f"[{kind} at {address}]")
    media_type, data = read_data_url(address)
    return Media(Attachment(kind, media_type, data, name=name))
