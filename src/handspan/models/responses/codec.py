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
from handspan.core.names import outside_name
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import (
    encode_json,
    json_objects,
    json_text,
    make_wire_id,
    native_content,
    wire_arguments,
    wire_ids,
)
from handspan.models.model import LoweredTool, Prompt
from handspan.models.openai.faults import fault_of_answer
from handspan.models.openai.media import IMAGES, attachment_text, data_url, is_image, is_pdf, is_readable
from handspan.models.responses.decoder import ResponsesDecoder, decode_answer

_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WITHOUT_REASONING: Final = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-3|gpt-4|chatgpt-)", re.IGNORECASE)
"""Models that refuse a request for encrypted reasoning."""


class ResponsesCodec:
    """The Responses format. With a `model`, reasoning items go back only to that model: no other can read them."""

    api: Api = "openai-responses"
    images = IMAGES
    decode = staticmethod(decode_answer)
    decoder = staticmethod(ResponsesDecoder)
    fault = staticmethod(fault_of_answer)

    def __init__(self, model: str = "") -> None:
        self._model = model

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the message as input items."""
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

    def request(self, prompt: Prompt) -> bytes:
        """Return the body. An option that is null is left out, even one that we would send ourselves."""
        body: dict[str, object] = {"store": False}  # the server stores nothing: we keep the conversation
        if not _WITHOUT_REASONING.match(prompt.model):
            body["include"] = ["reasoning.encrypted_content"]
        body = {key: value for key, value in {**body, **prompt.options}.items() if value is not None}
        if prompt.instructions:
            body["instructions"] = prompt.instructions
        items = msgspec.Raw(b"[%b]" % b",".join(prompt.items))
        body |= {"model": prompt.model, "input": items, "stream": prompt.stream}
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        return "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """Return the header with the key; none when there is no key. The version stands in the base URL (/v1)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def _native(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """Return the items as this model sent them; nothing when another model or API sent the message."""
        items = [{**item} for item in json_objects(native_content(message, self.api, self._model))]
        calls = [item for item in items if item.get("type") == "function_call"]
        if len(calls) != len(message.calls):
            return []
        for item, call in zip(calls, message.calls, strict=True):
            item.update(_call_fields(call, ids, json_text(item.get("name"))))
        return items


def _call_fields(call: CallPart, ids: dict[str, str], name: str) -> JsonObject:
    call_id = ids.get(call.id) or make_wire_id(call.id)
    return {"call_id": call_id, "name": outside_name(name), "arguments": wire_arguments(call.arguments)}


def _items_from_parts(message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
    """Return the items made from the message's parts. Thinking is left out: only its own model can read it."""
    items: list[JsonObject] = []
    for part in message.parts:
        match part:
            case Text(text=text) if text:
                items.append({"type": "message", "role": "assistant", "content": text})
            case Media(attachment=attachment):
                items.append({"type": "message", "role": "assistant", "content": attachment_text(attachment)})
            case CallPart(name=name):
                items.append({"type": "function_call", **_call_fields(part, ids, name)})
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
    content = [
        _media(part.attachment) if type(part) is Media else _text(part.text) for part in parts if part != Text("")
    ]
    return [*content] or "(an empty message)"


def _media(item: Attachment) -> JsonObject:
    if is_image(item):
        return {"type": "input_image", "image_url": data_url(item), "detail": "auto"}
    if is_pdf(item):
        return {"type": "input_file", "filename": item.name or "document.pdf", "file_data": data_url(item)}
    return _text(attachment_text(item))


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}
