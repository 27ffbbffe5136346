"""A request of the responses API as a request of a chat (SPEC F2, F3)."""

from collections.abc import Sequence

import msgspec

from handspan.core.messages import UserMessage
from handspan.core.results import Success
from handspan.core.values import Json, JsonObject
from handspan.gateway.openai.chat_request import read_answer_form
from handspan.gateway.openai.content import ContentReader
from handspan.gateway.openai.request import OpenAiRequest
from handspan.gateway.openai.response_events import MCP
from handspan.gateway.runs.entries import ChatEntry, EarlierCall, EarlierReply
from handspan.gateway.runs.results import GivenResult
from handspan.gateway.runs.wishes import RunWishes
from handspan.models.wishes import ANY_TOOL, ReplyWishes
from handspan.wire.graph.requests import DEFAULT_NODE, OfferedTool
from handspan.wire.openai.chat import ContentPart, FileData, ImageUrl, JsonSchemaForm, ResponseFormat
from handspan.wire.openai.reading import WrongParameter, convert
from handspan.wire.openai.responses import FlatChoice, ResponsesBody


class ItemReader:
    """Reads the input items of a request: instructions apart from what was said."""

    def __init__(self, request: OpenAiRequest) -> None:
        self._request = request
        self._content = ContentReader(request.parts.app.guard)
        self.instructions: list[str] = []
        self.entries: list[ChatEntry] = []

    async def read(self, given: str | Sequence[JsonObject]) -> None:
        """Read the input. Raises `WrongParameter`."""
        items: Sequence[JsonObject] = [{"role": "user", "content": given}] if isinstance(given, str) else given
        for number, item in enumerate(items):
            await self._read_item(item, f"input[{number}]")

    async def _read_item(self, item: JsonObject, place: str) -> None:
        """Add an item of the input to what was read. Raises `WrongParameter` for one that is not taken here."""
        match item.get("type", "message"):
            case "message":
                await self._read_message(item, place)
            case "function_call":
                call = EarlierCall(_text(item, "call_id"), _text(item, "name"), _text(item, "arguments"))
                self.entries.append(EarlierReply("", (call,)))
            case "function_call_output":
                output = item.get("output")
                words = output if isinstance(output, str) else _words(output)
                self.entries.append(GivenResult(_text(item, "call_id"), Success(words)))
            case "mcp_call":
                await self._read_own_call(item)
            case "reasoning" | "item_reference" | "mcp_list_tools":
                pass
            case other:
                text = f"An item of the type {str(other)[:40]!r} is not taken here."
                raise WrongParameter(text, place, "unsupported_value")

    async def _read_message(self, item: JsonObject, place: str) -> None:
        """Add a message of the input. Raises `WrongParameter` for one without text or with an unknown role."""
        role, content = item.get("role"), item.get("content", "")
        if role in ("system", "developer"):
            self.instructions.append(_words(content))
        elif role == "assistant":
            self.entries.append(EarlierReply(_words(content)))
        elif role == "user":
            parts = await self._content.read(_parts(content, place), f"{place}.content")
            if not parts:
                raise WrongParameter("The message is empty: send some text.", place, "invalid_value")
            self.entries.append(UserMessage(tuple(parts)))
        else:
            raise WrongParameter(f"The role {str(role)[:40]!r} is not known.", f"{place}.role", "invalid_value")

    async def _read_own_call(self, item: JsonObject) -> None:
        """Read a call of ours that the client repeats. Some leave its output out: the ledger has it."""
        call_id, output = _text(item, "id").removeprefix(MCP), item.get("output")
        if not isinstance(output, str):
            record = await self._request.parts.store.ledger.find(call_id)
            is_own = record is not None and record.owner == self._request.client.owner
            result = record.result if record is not None and is_own else None
            output = result.value if isinstance(result, Success) else None
        self.entries.append(EarlierReply("", (EarlierCall(call_id, _text(item, "name"), _text(item, "arguments")),)))
        self.entries.append(GivenResult(call_id, Success(output)))


def read_wishes(request: OpenAiRequest, body: ResponsesBody, agent: str, instructions: Sequence[str]) -> RunWishes:
    """Return what the client wants of the run. Raises `WrongParameter`."""
    wanted, form = body.text.format, body.text.format.as_chat
    if form is not None and wanted.type == "json_schema":
        form = ResponseFormat("json_schema", JsonSchemaForm(wanted.schema, wanted.name))
    return RunWishes(
        agent=agent,
        tools=_tools(body),
        instructions="\n\n".join(filter(None, (body.instructions, *instructions))),
        answer=None if form is None else read_answer_form(form, request.parts.offer_rules),
        reply=ReplyWishes(
            temperature=body.temperature,
            top_p=body.top_p,
            max_tokens=body.max_output_tokens,
            effort=body.reasoning.effort,
            tool=_choice(body),
            parallel=body.parallel_tool_calls,
        ),
    )


def _tools(body: ResponsesBody) -> Sequence[OfferedTool] | None:
    """Return the client's tools; None when it has named none. Raises `WrongParameter` for one that is no function."""
    if body.tool_choice == "none":
        return ()
    if body.tools is None:
        return None
    for number, tool in enumerate(body.tools):
        if tool.type != "function":
            text = f"A tool of the type {tool.type[:40]!r} is not taken here: offer functions."
            raise WrongParameter(text, f"tools[{number}]", "unsupported_value")
    return [OfferedTool(DEFAULT_NODE, tool.name, tool.description, tool.parameters) for tool in body.tools]


def _choice(body: ResponsesBody) -> str:
    if isinstance(body.tool_choice, FlatChoice):
        return body.tool_choice.name
    return ANY_TOOL if body.tool_choice == "required" else ""


def _parts(content: Json, place: str) -> str | list[ContentPart]:
    """Return the parts of a message with the words of Chat Completions."""
    if isinstance(content, str):
        return content
    found: list[ContentPart] = []
    for part in content if isinstance(content, list) else []:
        given = part if isinstance(part, dict) else {}
        match given.get("type"):
            case "input_image":
                found.append(ContentPart("image_url", image_url=ImageUrl(_text(given, "image_url"))))
            case "input_file":
                file = FileData(_text(given, "file_data"), _text(given, "filename"))
                found.append(ContentPart("file", file=file))
            case _:
                found.append(convert(part, ContentPart, place))
    return found


def _words(content: Json) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [_text(part, "text") or _text(part, "refusal") for part in content if isinstance(part, dict)]
        return "\n".join(filter(None, texts))
    return msgspec.json.encode(content).decode()


def _text(item: JsonObject, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""
