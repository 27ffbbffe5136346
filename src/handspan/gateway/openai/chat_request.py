"""A request of Chat Completions as a request of a chat: what each field means (SPEC F2, F3)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from handspan.core.errors import DefinitionError
from handspan.core.messages import UserMessage
from handspan.core.results import Success
from handspan.gateway.openai.content import ContentReader
from handspan.gateway.openai.models import find_agent
from handspan.gateway.openai.request import OpenAiRequest
from handspan.gateway.openai.teller import without_activity
from handspan.gateway.runs.chats import ChatRequest
from handspan.gateway.runs.entries import ChatEntry, EarlierCall, EarlierReply
from handspan.gateway.runs.json_answers import JsonAnswer
from handspan.gateway.runs.results import GivenResult
from handspan.gateway.runs.wishes import RunWishes
from handspan.models.wishes import ANY_TOOL, ReplyWishes
from handspan.sources.offers import OfferRules
from handspan.wire.graph.requests import DEFAULT_NODE, OfferedTool
from handspan.wire.openai.chat import ChatBody, ChatMessage, ContentPart, ResponseFormat, ToolChoice, ToolEntry
from handspan.wire.openai.reading import WrongParameter

_TASK: Final = "### Task:"
"""How the tasks of Open WebUI begin: title, tags, follow-ups. They come under the id of their chat."""
_ANY_OBJECT: Final = {"type": "object"}


class ReadMessages(Struct, frozen=True):
    """The messages of a request: instructions apart from what was said."""

    instructions: str
    entries: Sequence[ChatEntry]


async def read_chat_request(request: OpenAiRequest, body: ChatBody) -> ChatRequest:
    """Return the chat's request that this body makes. Raises `WrongParameter` or `OpenAiRefusal`."""
    _check_limits(body)
    agent = await find_agent(request.parts, request.client, body.model)
    read = await read_messages(body.messages, ContentReader(request.parts.app.guard))
    if is_task(request, body.messages):
        bare = RunWishes(agent=agent.name, tools=(), instructions=read.instructions, is_bare=True, reply=_reply(body))
        return ChatRequest(wishes=bare, entries=read.entries)
    wishes = RunWishes(
        agent=agent.name,
        tools=read_tools(body),
        instructions=read.instructions,
        reply=_reply(body),
        answer=read_answer_form(body.response_format, request.parts.offer_rules),
    )
    return ChatRequest(
        wishes=wishes,
        entries=read.entries,
        key=request.chat_key(body.user),
        request_id=request.request_id,
        sends_all=request.sends_all,
    )


def is_task(request: OpenAiRequest, messages: Sequence[ChatMessage]) -> bool:
    """Whether the request is a task of Open WebUI, which the model answers alone (SPEC F3)."""
    said = [message for message in messages if message.role == "user"]
    if request.task:
        return True
    return len(said) == len(messages) == 1 and _plain_text(said[0].content).lstrip().startswith(_TASK)


async def read_messages(messages: Sequence[ChatMessage], content: ContentReader) -> ReadMessages:
    """Return the instructions of the client, and the entries of its history. Raises `WrongParameter`."""
    instructions: list[str] = []
    entries: list[ChatEntry] = []
    for number, message in enumerate(messages):
        place = f"messages[{number}].content"
        match message.role:
            case "system" | "developer":
                instructions.append(_plain_text(message.content))
            case "user":
                parts = await content.read(message.content, place)
                if not parts:
                    raise WrongParameter("The message is empty: send some text.", place, "invalid_value")
                entries.append(UserMessage(tuple(parts)))
            case "assistant":
                entries.append(_earlier_reply(message))
            case "tool" | "function":
                entries.append(GivenResult(message.tool_call_id, Success(_plain_text(message.content))))
    return ReadMessages("\n\n".join(filter(None, instructions)), entries)


def _earlier_reply(message: ChatMessage) -> EarlierReply:
    called = [(one.id, one.function) for one in message.tool_calls]
    calls = tuple(EarlierCall(call_id, one.name, one.arguments) for call_id, one in called if one is not None)
    return EarlierReply(without_activity(_plain_text(message.content)), calls)


def read_tools(body: ChatBody) -> Sequence[OfferedTool] | None:
    """Return the tools that the client offers for this request; None: those with which its run began."""
    if body.tool_choice == "none":
        return ()
    if body.tools is None:
        return None if any(message.role == "tool" for message in body.messages) else ()
    return [_offer(entry, f"tools[{number}]") for number, entry in enumerate(body.tools)]


def _offer(entry: ToolEntry, place: str) -> OfferedTool:
    if entry.type != "function" or entry.function is None:
        text = f"A tool of the type {entry.type[:40]!r} is not taken here: offer functions."
        raise WrongParameter(text, place, "unsupported_value")
    function = entry.function
    return OfferedTool(DEFAULT_NODE, function.name, function.description, function.parameters)


def read_answer_form(wanted: ResponseFormat, rules: OfferRules) -> JsonAnswer | None:
    """Return the form that the answer has to have; None: text. Raises `WrongParameter`."""
    if wanted.type == "text":
        return None
    if wanted.type == "json_schema" and wanted.json_schema is None:
        raise WrongParameter("The schema is missing: send json_schema.", "response_format.json_schema")
    schema = wanted.json_schema.schema_ if wanted.json_schema is not None else {}
    try:
        return JsonAnswer(schema or {**_ANY_OBJECT}, rules)
    except DefinitionError as error:
        raise WrongParameter(f"The schema can't be used. {error}", "response_format", "invalid_json_schema") from None


def _reply(body: ChatBody) -> ReplyWishes:
    """Return what the client wishes of the replies. Their forms were checked when the body was read."""
    choice, tool = body.tool_choice, ""
    if choice == "required":
        tool = ANY_TOOL
    elif isinstance(choice, ToolChoice):
        tool = choice.function.name if choice.function is not None else ""
    return ReplyWishes(
        temperature=body.temperature,
        top_p=body.top_p,
        seed=body.seed,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        effort=body.reasoning_effort,
        tool=tool,
        parallel=body.parallel_tool_calls,
    )


def _check_limits(body: ChatBody) -> None:
    if body.n != 1:
        raise WrongParameter("One answer at a time is given here: leave n out.", "n", "unsupported_value")
    if "audio" in body.modalities or body.audio is not None:
        raise WrongParameter("Answers are text here: leave audio out.", "audio", "unsupported_value")


def _plain_text(content: str | Sequence[ContentPart]) -> str:
    """Return the text of a content, without what is no text."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (part.text or part.refusal for part in content)))
