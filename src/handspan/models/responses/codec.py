"""OpenAI Responses, used without its memory: every request carries the whole conversation (SPEC M1, M2)."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    ResultsMessage,
    Text,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import (
    encode_json,
    json_objects,
    json_text,
    make_wire_id,
    wire_arguments,
    wire_id_of,
    wire_name,
)
from handspan.models.model import Decoder, LoweredTool, ModelError
from handspan.models.openai.faults import fault_of_answer
from handspan.models.openai.media import attachment_text, data_url, file_name, is_image, is_pdf, is_readable
from handspan.models.responses.decoder import ResponsesDecoder, decode_answer

_NOTHING: Final = "(an empty message)"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DOES_NOT_REASON: Final = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-3|gpt-4|chatgpt-)", re.IGNORECASE)
"""Models that refuse a request for encrypted reasoning."""


class ResponsesCodec:
    """The Responses format. With a `model`, reasoning items go back only to that model: no other can read them."""

    api: Api = "openai-responses"

    def __init__(self, model: str = "") -> None:
        self._model = model

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """The message as input items.

        Results alone do not know the model's ids of the calls. Who gives with every message the one `before` it has
        these ids sent back as they came; else all ids are made from ours, and match just as well.
        """
        match message:
            case UserMessage(parts=parts):
                items: list[JsonObject] = [{"type": "message", "role": "user", "content": _user_content(parts)}]
            case AssistantMessage():
                ids = _ids(message.calls, before)
                items = self._native(message, ids) or _from_parts(message, ids)
            case ResultsMessage(results=results):
                calls = before.calls if type(before) is AssistantMessage else ()
                ids = _ids(calls, before)
                items = [_result(result, ids.get(result.call_id) or make_wire_id(result.call_id)) for result in results]
        return [encode_json(item) for item in items]

    def request(
        self,
        model: str,
        instructions: str,
        items: Sequence[bytes],
        tools: Sequence[LoweredTool],
        *,
        stream: bool,
        options: JsonObject,
    ) -> bytes:
        """The body. An option that is null is left out, also where we would send it ourselves."""
        body: dict[str, object] = {"store": False}  # nothing is kept there: the conversation is ours
        if not _DOES_NOT_REASON.match(model):
            body["include"] = ["reasoning.encrypted_content"]
        body = {key: value for key, value in {**body, **options}.items() if value is not None}
        if instructions:
            body["instructions"] = instructions
        body |= {"model": model, "input": msgspec.Raw(b"[%b]" % b",".join(items)), "stream": stream}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        """Where requests go, below the base URL."""
        return "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """The header with the key; none for a server that wants no key. The version stands in the base URL (/v1)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def decoder(self, names: dict[str, str], model: str) -> Decoder:
        """A reader for one streamed answer."""
        return ResponsesDecoder(names, model)

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """A whole answer; `ModelError` when it makes no sense, or is an error after all."""
        return decode_answer(body, names, model)

    def fault(self, status: int, body: bytes) -> ModelError:
        """What an error answer means."""
        return fault_of_answer(status, body)

    def _native(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """The items as this model sent them; nothing where they came from elsewhere."""
        native = message.native
        if native is None or native.api != self.api or (self._model and native.model != self._model):
            return []
        items = json_objects(native.content)
        calls = list(message.calls)
        if sum(item.get("type") == "function_call" for item in items) != len(calls):
            return []
        return [_with_call(item, calls.pop(0), ids) if item.get("type") == "function_call" else item for item in items]


def _ids(calls: Sequence[CallPart], before: Message | UnsetType | None) -> dict[str, str]:
    """The ids on the wire by ours."""
    return {} if before is UNSET else {call.id: wire_id_of(call, _ID) for call in calls}


def _with_call(item: JsonObject, call: CallPart, ids: dict[str, str]) -> JsonObject:
    """The item as it came; only what the API would refuse is changed."""
    name, arguments = wire_name(json_text(item.get("name"))), wire_arguments(call.arguments)
    return {**item, "call_id": ids.get(call.id) or make_wire_id(call.id), "name": name, "arguments": arguments}


def _from_parts(message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
    """The items out of what every API has. Thinking is not sent: only the one who thought it could read it."""
    items: list[JsonObject] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                items.append({"type": "message", "role": "assistant", "content": text})
            case Media(attachment=attachment):
                items.append({"type": "message", "role": "assistant", "content": attachment_text(attachment)})
            case CallPart(name=name, arguments=arguments):
                call: JsonObject = {"name": wire_name(name), "arguments": wire_arguments(arguments)}
                items.append({"type": "function_call", "call_id": ids.get(part.id) or make_wire_id(part.id), **call})
    return items


def _result(result: CallResult, call_id: str) -> JsonObject:
    shown = [_media(item) for item in result.attachments if is_image(item) or is_pdf(item) or is_readable(item)]
    output: Json = [_text(result.envelope), *shown] if shown else result.envelope
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _tool(tool: LoweredTool) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.spec.description,
        "parameters": tool.schema,
        "strict": tool.strict,  # left out it may count as true
    }


def _user_content(parts: Sequence[Text | Media]) -> Json:
    content: list[JsonObject] = []
    for part in parts:
        if type(part) is Media:
            content.append(_media(part.attachment))
        elif part.text:
            content.append(_text(part.text))
    return [*content] or _NOTHING


def _media(item: Attachment) -> JsonObject:
    if is_image(item):
        return {"type": "input_image", "image_url": data_url(item), "detail": "auto"}
    if is_pdf(item):
        return {"type": "input_file", "filename": file_name(item), "file_data": data_url(item)}
    return _text(attachment_text(item))


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}
