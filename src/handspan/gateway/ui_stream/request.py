"""A request of the AI SDK's client, and what it means for its chat (SPEC F3, F5)."""

import os
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, field

from handspan.core.agents import Agent
from handspan.core.errors import WireError
from handspan.core.messages import Media, Text, UserMessage
from handspan.core.results import Attachment, Failure, Success
from handspan.gateway.http.bodies import read_json
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.agents import allowed_agents, default_agent
from handspan.gateway.runs.attachments import AttachmentRefused, read_data_url, read_image
from handspan.gateway.runs.chats import ChatRequest, Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.entries import ChatEntry, EarlierCall, EarlierReply, with_id
from handspan.gateway.runs.lines import OpenStreams
from handspan.gateway.runs.question_lines import page_address
from handspan.gateway.runs.results import GivenResult
from handspan.gateway.runs.wishes import RunWishes
from handspan.net.guard import NetGuard
from handspan.wire.graph.requests import DEFAULT_NODE, OfferedTool
from handspan.wire.ui_stream import UiBody, UiMessage, UiPart, read_ui_body

_BODY_SECONDS: Final = 60.0
_LONGEST_KEY: Final = 256
_KEY: Final = "ui:{}"
"""Chats of this door are other ones than those of the same name at another door."""


class UiParts(Struct, frozen=True, kw_only=True):
    """What this door has beside the parts of the gateway. `door.py` makes it."""

    gateway: GatewayParts
    chats: Chats
    open_streams: OpenStreams = field(default_factory=OpenStreams)


class UiRequest(Struct, frozen=True):
    """One request that was let in."""

    door: UiParts
    client: RunClient
    asgi: AsgiRequest

    @property
    def parts(self) -> GatewayParts:
        """The parts of the gateway."""
        return self.door.gateway

    @property
    def token(self) -> str:
        """The hash of the client's token."""
        return str(self.asgi.scope["state"]["admitted"].token)

    @property
    def page(self) -> str:
        """The address of the gateway's page, as this client reaches the gateway."""
        return page_address(self.parts.settings.gateway, self.asgi)

    async def agent(self) -> Agent:
        """Return the agent that the path names, or the default one. Raises `Refusal` (404)."""
        agents, name = self.parts.app.agents, self.asgi.path_params.get("agent", "")
        allowed = await allowed_agents(agents, self.client)
        found = next((one for one in allowed if one.name == name), None)
        if not name:
            found = await default_agent(agents, self.client)
        if found is None:
            known = ", ".join(one.name for one in allowed[:10]) or "none"
            text = f"There is no agent {name[:80]!r}, or this token may not use it. It may use: {known}."
            raise Refusal(404, "agent_not_found", text)
        return found

    async def named_chat(self) -> ChatRequest:
        """Return the request that goes on with the chat of the path. Raises `Refusal`."""
        key = read_key(self.asgi.path_params["chat"])
        return ChatRequest(wishes=RunWishes(agent=(await self.agent()).name), entries=(), key=key)

    async def body(self) -> UiBody:
        """Return the body. Raises `Refusal` when it is too large, too slow, or can't be used."""
        limit = self.parts.app.settings.fronts.request_bytes
        try:
            return read_ui_body(await read_json(self.asgi, limit, _BODY_SECONDS, "fronts.request_bytes"))
        except WireError as error:
            raise Refusal(400, "invalid_request", str(error)) from None


class UiChat(Struct, frozen=True):
    """What a body asks for."""

    request: ChatRequest
    going_on: UiMessage | None = None
    """The client's message of the assistant that goes on, with results and approvals; None: a person has spoken."""
    is_last: bool = True
    """Whether that is the client's last message."""
    asked: str = ""
    """The stored id of the person's message that is answered; empty where a message goes on."""

    @property
    def message_id(self) -> str:
        """The id of the message that answers; empty: the one that goes on keeps its own."""
        return answer_id(self.asked)


async def read_chat(body: UiBody, agent: Agent, guard: NetGuard) -> UiChat:
    """Return what a body asks for. Raises `Refusal`."""
    messages = [body.message] if body.messages is None and body.message is not None else body.messages or []
    named = next((one for one in messages if body.messageId and one.id == body.messageId), None)
    last = messages[-1] if messages else None
    goes_on = body.trigger == "submit-message" and (named if named is not None and named.role == "assistant" else last)
    going_on = goes_on if goes_on and goes_on.role == "assistant" else None
    if going_on is None and (last is None or last.role != "user"):
        raise Refusal(400, "invalid_request", "There is no message of a person: end `messages` with one.")
    is_version = body.trigger == "regenerate-message"
    if is_version and body.messages is None:
        raise Refusal(400, "invalid_request", "To answer again, send all `messages` up to the one to answer.")
    is_edit = going_on is None and named is not None
    entries = results_of(going_on) if going_on is not None else await _read_entries(messages, guard)
    systems = [text_of(one) for one in messages if one.role == "system"]
    request_id = os.urandom(16).hex() if is_version or is_edit or last is None else last.id
    request = ChatRequest(
        wishes=RunWishes(
            agent=agent.name,
            tools=_read_tools(body, goes_on=going_on is not None),
            instructions="\n\n".join(filter(None, [body.system, *systems])),
        ),
        entries=entries,
        key=read_key(body.id),
        request_id=request_id,
        sends_all=is_edit or is_version,
        is_version=is_version or None,
        is_only_new=body.messages is None,
    )
    asked = entries[-1] if entries else None
    stored_id = with_id(asked, request_id).id if isinstance(asked, UserMessage) else ""
    return UiChat(request, going_on, going_on is last, stored_id)


def answer_id(asked: str) -> str:
    """Return the id of the message that answers the person's message of this id; empty for an empty one."""
    return f"answer-{asked}" if asked else ""


def read_key(chat: str) -> str:
    """Return the key of the chat that the client calls so. Raises `Refusal`."""
    if not chat or len(chat) > _LONGEST_KEY:
        raise Refusal(400, "invalid_request", f"The id of a chat has 1 to {_LONGEST_KEY} characters: choose another.")
    return _KEY.format(chat)


def text_of(message: UiMessage) -> str:
    """Return the text of a message."""
    return "\n".join(part.text for part in message.parts if part.type == "text" and part.text)


def results_of(message: UiMessage) -> list[GivenResult]:
    """Return the outcomes of calls that a message has. Those of calls that we did not ask for are ignored later."""
    found = []
    for part in message.parts:
        if not part.tool or not part.toolCallId or part.providerExecuted or part.preliminary:
            continue
        if part.state == "output-available":
            found.append(GivenResult(part.toolCallId, Success(part.output)))
        elif part.state == "output-error":
            found.append(GivenResult(part.toolCallId, Failure("execution_failed", part.errorText or "")))
    return found


async def _read_entries(messages: Sequence[UiMessage], guard: NetGuard) -> list[ChatEntry]:
    entries: list[ChatEntry] = []
    for message in messages:
        if message.role == "user":
            entries.append(UserMessage(tuple([part async for part in _read_parts(message, guard)]), ""))
        elif message.role == "assistant":
            tools = [part for part in message.parts if part.tool and part.toolCallId]
            calls = tuple(EarlierCall(part.toolCallId or "", part.tool, _arguments(part)) for part in tools)
            entries += [EarlierReply(text_of(message), calls), *results_of(message)]
    return entries


def _arguments(part: UiPart) -> str:
    return "{}" if part.input is UNSET else msgspec.json.encode(part.input).decode()


async def _read_parts(message: UiMessage, guard: NetGuard) -> AsyncIterator[Text | Media]:
    has_any = False
    for part in message.parts:
        if part.type == "text" and part.text:
            has_any = True
            yield Text(part.text)
        elif part.type == "file":
            has_any = True
            yield Media(await _read_file(part, guard))
    if not has_any:
        raise Refusal(400, "invalid_request", "A message of the person is empty: send some text, or a file.")


async def _read_file(part: UiPart, guard: NetGuard) -> Attachment:
    url, kind = part.url or "", (part.mediaType or "").lower()
    try:
        if kind.startswith("image"):
            return await read_image(guard, url)
        if kind.startswith("audio"):
            raise AttachmentRefused("Audio is not taken here: send its words as text.")
        if not url.startswith("data:"):
            raise AttachmentRefused("A file is taken as a data: address here.")
        kind, data = read_data_url(url)
    except AttachmentRefused as error:
        raise Refusal(400, "invalid_file", str(error)) from None
    return Attachment("file", kind, data, name=part.filename or "")


def _read_tools(body: UiBody, *, goes_on: bool) -> list[OfferedTool] | None:
    """Return the tools that the client offers; None: those with which its run began."""
    if body.tools is None:
        return None if goes_on else []
    tools = body.tools.items() if isinstance(body.tools, dict) else [(tool.name, tool) for tool in body.tools]
    return [
        OfferedTool(
            DEFAULT_NODE,
            name,
            tool.description or "",
            tool.inputSchema or tool.parameters or {},
            annotations=tool.annotations,
        )
        for name, tool in tools
    ]
