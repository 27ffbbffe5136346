"""The codec of OpenAI Chat Completions, for OpenAI and the many servers that speak it (SPEC M1, M2)."""

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
from handspan.models.chat.calls import read_failed_reply
from handspan.models.chat.decoder import ChatDecoder
from handspan.models.chat.servers import ANY_SERVER, OPENAI, ChatServer
from handspan.models.json_values import (
    encode_json,
    json_object,
    json_objects,
    json_text,
    make_wire_id,
    native_content,
    wire_arguments,
    wire_ids,
)
from handspan.models.model import Decoder, LoweredTool, Prompt
from handspan.models.openai.faults import fault_of_answer
from handspan.models.openai.media import (
    IMAGES,
    attachment_text,
    audio_format,
    base64_text,
    data_url,
    is_image,
    is_pdf,
    is_readable,
)

_FILLER_ANSWER: Final = "I have the results."


class ChatCodec:
    """The chat format. `server` says what is special about the server (`servers.server_at`).

    With a `model`, reasoning goes back only to that model: another one may refuse an unknown field.
    """

    api: Api = "openai-chat"
    images = IMAGES
    failed_reply = staticmethod(read_failed_reply)
    fault = staticmethod(fault_of_answer)

    def __init__(self, server: ChatServer = ANY_SERVER, model: str = "") -> None:
        self._server = server
        self._model = model
        self._id_pattern = re.compile(server.id_pattern)
        self._strict_id_pattern = re.compile(server.id_pattern if server is not ANY_SERVER else OPENAI.id_pattern)

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the message as chat messages."""
        match message:
            case UserMessage(parts=parts):
                items: list[JsonObject] = [{"role": "user", "content": _user_content(parts)}]
                items = self._after_results(items) if type(before) is ResultsMessage else items
            case AssistantMessage():
                ids = {} if before is UNSET else self._wire_ids(message)
                items = self._native(message, ids) or self._items_from_parts(message, ids)
            case ResultsMessage(results=results):
                items = self._results(results, self._wire_ids(before))
        return [encode_json(item) for item in items]

    def request(self, prompt: Prompt) -> bytes:
        """Return the body. An option that is null is left out, even one that we would send ourselves."""
        system = [encode_json({"role": "system", "content": prompt.instructions})] if prompt.instructions else []
        body: dict[str, object] = {"stream": prompt.stream}
        if prompt.stream and not self._server.sends_usage_unasked:
            body["stream_options"] = {"include_usage": True}
        body = {key: value for key, value in {**body, **prompt.options}.items() if value is not None}
        messages = msgspec.Raw(b"[%b]" % b",".join([*system, *prompt.items]))
        body |= {"model": prompt.model, "messages": messages, "stream": prompt.stream}
        if prompt.tools:  # an empty list is refused
            body["tools"] = [_tool(tool) for tool in prompt.tools]
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        return "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return the header with the key; none when there is no key. The version stands in the base URL (/v1)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def decoder(self, names: dict[str, str], model: str) -> Decoder:
        return ChatDecoder(names, model, self._server)

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """Return the message of a whole answer. Raises `ModelError` when it makes no sense or holds an error."""
        reader = ChatDecoder(names, model, self._server)
        reader.take(body)
        return reader.finish_whole()

    def _wire_ids(self, message: Message | UnsetType | None) -> dict[str, str]:
        """Return the ids of calls that go back as they came, by our ids. Another model's have to fit every server."""
        sent_by = message.model if type(message) is AssistantMessage else ""
        is_own = not self._model or sent_by == self._model
        return wire_ids(message, self._id_pattern if is_own else self._strict_id_pattern)

    def _after_results(self, items: list[JsonObject]) -> list[JsonObject]:
        """Return user messages that follow tool messages; some servers need an assistant message between them."""
        filler: JsonObject = {"role": "assistant", "content": _FILLER_ANSWER}
        return [filler, *items] if self._server.answers_before_user else items

    def _native(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """Return the message as this model sent it, with valid ids; nothing for another model's, or without calls."""
        content = json_object(native_content(message, self.api, self._model))
        entries = json_objects(content.get("tool_calls"))
        if not entries or len(entries) != len(message.calls):
            return []
        calls: list[Json] = [
            {**entry, **_call_fields(call, ids, entry)} for call, entry in zip(message.calls, entries, strict=True)
        ]
        return [self._add_reasoning_field(_rename_details({**content, "tool_calls": calls}, entries))]

    def _items_from_parts(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """Return the message made from its parts. Thinking is left out: the server would take it for text."""
        texts = (
            attachment_text(part.attachment) if type(part) is Media else part.text if type(part) is Text else ""
            for part in message.parts
        )
        item: JsonObject = {"role": "assistant", "content": "\n\n".join(filter(None, texts)) or None}
        if message.calls:
            calls: list[Json] = [{"type": "function", **_call_fields(call, ids)} for call in message.calls]
            return [self._add_reasoning_field({**item, "tool_calls": calls})]
        return [item] if item["content"] else []  # servers refuse an empty message

    def _add_reasoning_field(self, item: JsonObject) -> JsonObject:
        """Return the message with the field for reasoning that its server requires, if it requires one."""
        field = self._server.reasoning_field
        return item if not field or field in item else {**item, field: ""}

    def _results(self, results: Sequence[CallResult], ids: dict[str, str]) -> list[JsonObject]:
        """Return one tool message for each call. Media follow in a user message, since a tool message holds text."""
        items: list[JsonObject] = []
        shown: list[Json] = []
        for result in results:
            call_id = ids.get(result.call_id) or make_wire_id(result.call_id)
            items.append({"role": "tool", "tool_call_id": call_id, "content": result.envelope})
            for attachment in filter(_adds_content, result.attachments):
                source = f"the result of {outside_name(result.name)} (call {call_id})"
                shown += [_text(f"This {attachment.kind} is from {source}:"), _media(attachment)]
        return items + (self._after_results([{"role": "user", "content": shown}]) if shown else [])


def _call_fields(call: CallPart, ids: dict[str, str], entry: JsonObject | None = None) -> JsonObject:
    """Return the id and the function of a call; `entry` is the call as its server sent it."""
    function = json_object((entry or {}).get("function"))
    name = json_text(function.get("name")) or call.name
    return {
        "id": ids.get(call.id) or make_wire_id(call.id),
        "function": {**function, "name": outside_name(name), "arguments": wire_arguments(call.arguments)},
    }


def _rename_details(item: JsonObject, entries: Sequence[JsonObject]) -> JsonObject:
    """Return the message with the new ids of its calls in `reasoning_details`, too (OpenRouter)."""
    details = json_objects(item.get("reasoning_details"))
    old, new = (list(map(_id_of, calls)) for calls in (entries, json_objects(item.get("tool_calls"))))
    renamed = {before: after for before, after in zip(old, new, strict=True) if before and before != after}
    if not renamed or not details:
        return item
    changed: list[Json] = [{**one, "id": renamed[_id_of(one)]} if _id_of(one) in renamed else one for one in details]
    return {**item, "reasoning_details": changed}


def _id_of(item: JsonObject) -> str:
    return json_text(item.get("id"))


def _tool(tool: LoweredTool) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.spec.description, "parameters": tool.schema}
    if tool.strict:  # the default is false, and not every server knows the word
        function["strict"] = True
    return {"type": "function", "function": function}


def _user_content(parts: Sequence[Text | Media]) -> Json:
    """Return the content of a user message. Text alone is a string, which every server takes."""
    content = [
        _media(part.attachment) if type(part) is Media else _text(part.text) for part in parts if part != Text("")
    ]
    if all(item["type"] == "text" for item in content):
        return "\n\n".join(json_text(item["text"]) for item in content) or "(an empty message)"
    return [*content]


def _media(item: Attachment) -> JsonObject:
    if is_image(item):
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    if sound := audio_format(item):
        return {"type": "input_audio", "input_audio": {"data": base64_text(item), "format": sound}}
    if is_pdf(item):
        return {"type": "file", "file": {"filename": item.name or "document.pdf", "file_data": data_url(item)}}
    return _text(attachment_text(item))


def _adds_content(item: Attachment) -> bool:
    """Return whether the attachment shows a model more than the result's own text."""
    return is_image(item) or is_pdf(item) or is_readable(item) or audio_format(item) is not None


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
