"""The codec of OpenAI Responses. Every request holds the whole conversation; the server stores none (SPEC M1, M2)."""

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
    wire_ids,
    wire_name,
)
from handspan.models.model import Decoder, LoweredTool
from handspan.models.openai.faults import fault_of_answer
from handspan.models.openai.media import IMAGES, attachment_text, data_url, file_name, is_image, is_pdf, is_readable
from handspan.models.responses.decoder import ResponsesDecoder, decode_answer

_EMPTY_MESSAGE: Final = "(an empty message)"
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WITHOUT_REASONING: Final = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-3|gpt-4|chatgpt-)", re.IGNORECASE)
"""Models that refuse a request for encrypted reasoning."""


class ResponsesCodec:
    """The Responses format. With a `model`, reasoning items go back only to that model: no other can read them."""

    api: Api = "openai-responses"
    images = IMAGES
    decode = staticmethod(decode_answer)
    fault = staticmethod(fault_of_answer)

    def __init__(self, model: str = "") -> None:
        self._model = model

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the message as input items.

        Results do not hold the model's ids of their calls: these ids are taken from `before`. When `before` is unset,
        all ids are made from ours, and match too.
        """
        match message:
            case UserMessage(parts=parts):
                items: list[JsonObject] = [{"type": "message", "role": "user", "content": _user_content(parts)}]
            case AssistantMessage():
                ids = {} if before is UNSET else wire_ids(message, _CALL_ID)
                items = self._native(message, ids) or _items_from_parts(message, ids)
            case ResultsMessage(results=results):
                ids = wire_ids(before, _CALL_ID)
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
        """Return the body. An option that is null is left out, even one that we would send ourselves."""
        body: dict[str, object] = {"store": False}  # the server stores nothing: we keep the conversation
        if not _WITHOUT_REASONING.match(model):
            body["include"] = ["reasoning.encrypted_content"]
        body = {key: value for key, value in {**body, **options}.items() if value is not None}
        if instructions:
            body["instructions"] = instructions
        body |= {"model": model, "input": msgspec.Raw(b"[%b]" % b",".join(items)), "stream": stream}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path below the base URL."""
        return "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """Return the header with the key; none when there is no key. The version stands in the base URL (/v1)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def decoder(self, names: dict[str, str], model: str) -> Decoder:
        """Return a reader for one streamed answer."""
        return ResponsesDecoder(names, model)

    def _native(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """Return the items as this model sent them; nothing when another model or API sent the message."""
        native = message.native
        if native is None or native.api != self.api or (self._model and native.model != self._model):
            return []
        items = json_objects(native.content)
        calls = list(message.calls)
        if sum(item.get("type") == "function_call" for item in items) != len(calls):
            return []
        return [
            _native_call(item, calls.pop(0), ids) if item.get("type") == "function_call" else item for item in items
        ]


def _native_call(item: JsonObject, call: CallPart, ids: dict[str, str]) -> JsonObject:
    """Return the call's item as it came, with a valid id, name and arguments."""
    name, arguments = wire_name(json_text(item.get("name"))), wire_arguments(call.arguments)
    return {**item, "call_id": ids.get(call.id) or make_wire_id(call.id), "name": name, "arguments": arguments}


def _items_from_parts(message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
    """Return the items made from the message's parts. Thinking is left out: only its own model can read it."""
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
    media = [_media(item) for item in result.attachments if is_image(item) or is_pdf(item) or is_readable(item)]
    output: Json = [_text(result.envelope), *media] if media else result.envelope
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _tool(tool: LoweredTool) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.spec.description,
        "parameters": tool.schema,
        "strict": tool.strict,  # always sent: some servers take true for the default
    }


def _user_content(parts: Sequence[Text | Media]) -> Json:
    content: list[JsonObject] = []
    for part in parts:
        if type(part) is Media:
            content.append(_media(part.attachment))
        elif part.text:
            content.append(_text(part.text))
    return [*content] or _EMPTY_MESSAGE


def _media(item: Attachment) -> JsonObject:
    if is_image(item):
        return {"type": "input_image", "image_url": data_url(item), "detail": "auto"}
    if is_pdf(item):
        return {"type": "input_file", "filename": file_name(item), "file_data": data_url(item)}
    return _text(attachment_text(item))


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}
