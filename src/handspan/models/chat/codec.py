"""OpenAI Chat Completions, and the many servers that speak it too (SPEC M1, M2)."""

import re
from collections.abc import Iterable, Sequence
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
from handspan.models.chat.decoder import ChatDecoder
from handspan.models.chat.servers import ANY_SERVER, ChatServer
from handspan.models.json_values import (
    encode_json,
    json_object,
    json_objects,
    json_text,
    make_wire_id,
    wire_arguments,
    wire_id_of,
    wire_name,
)
from handspan.models.model import Decoder, LoweredTool, ModelError
from handspan.models.openai.faults import fault_of_answer
from handspan.models.openai.media import (
    attachment_text,
    audio_format,
    base64_text,
    data_url,
    file_name,
    is_image,
    is_pdf,
    is_readable,
)

_BETWEEN: Final = "I have the results."
_NOTHING: Final = "(an empty message)"


class ChatCodec:
    """The chat format. `server` is what is known of the one that is spoken to (`chat_servers.server_at`).

    With a `model`, reasoning goes back only to that model: another one may refuse a field that it does not know.
    """

    api: Api = "openai-chat"

    def __init__(self, server: ChatServer = ANY_SERVER, model: str = "") -> None:
        self._server = server
        self._model = model
        self._id_pattern = re.compile(server.id_pattern)

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """The message as chat messages.

        Results alone do not know the model's ids of the calls. Who gives with every message the one `before` it has
        these ids sent back as they came; else all ids are made from ours, and match just as well.
        """
        match message:
            case UserMessage(parts=parts):
                items = [{"role": "user", "content": _user_content(parts)}]
                return self._encoded(self._after_results(items) if type(before) is ResultsMessage else items)
            case AssistantMessage():
                ids = self._ids(message.calls, before)
                return self._encoded(self._native(message, ids) or self._from_parts(message, ids))
            case ResultsMessage(results=results):
                calls = before.calls if type(before) is AssistantMessage else ()
                return self._encoded(self._results(results, self._ids(calls, before)))

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
        system = [encode_json({"role": "system", "content": instructions})] if instructions else []
        body: dict[str, object] = {"stream": stream}
        if stream and not self._server.sends_usage_unasked:
            body["stream_options"] = {"include_usage": True}
        body = {key: value for key, value in {**body, **options}.items() if value is not None}
        body |= {"model": model, "messages": msgspec.Raw(b"[%b]" % b",".join([*system, *items])), "stream": stream}
        if tools:  # an empty list is refused
            body["tools"] = [_tool(tool) for tool in tools]
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        """Where requests go, below the base URL."""
        return "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """The header with the key; none for a server that wants no key. The version stands in the base URL (/v1)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def decoder(self, names: dict[str, str], model: str) -> Decoder:
        """A reader for one streamed answer."""
        return ChatDecoder(names, model, self._server)

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """A whole answer; `ModelError` when it makes no sense, or is an error after all."""
        reader = ChatDecoder(names, model, self._server)
        reader.take(body)
        return reader.finish_whole()

    def fault(self, status: int, body: bytes) -> ModelError:
        """What an error answer means."""
        return fault_of_answer(status, body)

    def _encoded(self, items: Iterable[JsonObject]) -> list[bytes]:
        return [encode_json(item) for item in items]

    def _ids(self, calls: Sequence[CallPart], before: Message | UnsetType | None) -> dict[str, str]:
        """The ids on the wire by ours."""
        return {} if before is UNSET else {call.id: wire_id_of(call, self._id_pattern) for call in calls}

    def _after_results(self, items: list[JsonObject]) -> list[JsonObject]:
        """User messages that come straight after tool messages, as this server takes them."""
        between: JsonObject = {"role": "assistant", "content": _BETWEEN}
        return [between, *items] if self._server.answers_before_user else items

    def _native(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """The message as this model sent it; nothing where it came from elsewhere. Only ids that do not fit change."""
        native = message.native
        if native is None or native.api != self.api or (self._model and native.model != self._model):
            return []
        content = json_object(native.content)
        entries = json_objects(content.get("tool_calls"))
        if not entries or len(entries) != len(message.calls):
            return []
        calls: list[Json] = [
            {**entry, **_call(call, ids, entry)} for call, entry in zip(message.calls, entries, strict=True)
        ]
        return [self._with_reasoning({**content, "tool_calls": calls})]

    def _from_parts(self, message: AssistantMessage, ids: dict[str, str]) -> list[JsonObject]:
        """The message out of what every API has. Thinking is not sent: it would be taken for words."""
        texts = (
            attachment_text(part.attachment) if type(part) is Media else part.text if type(part) is Text else ""
            for part in message.parts
        )
        item: JsonObject = {"role": "assistant", "content": "\n\n".join(filter(None, texts)) or None}
        if message.calls:
            calls: list[Json] = [{"type": "function", **_call(call, ids)} for call in message.calls]
            return [self._with_reasoning({**item, "tool_calls": calls})]
        return [item] if item["content"] else []  # a message of nothing is refused, so it is left out

    def _with_reasoning(self, item: JsonObject) -> JsonObject:
        field = self._server.reasoning_field
        return item if not field or field in item else {**item, field: ""}

    def _results(self, results: Sequence[CallResult], ids: dict[str, str]) -> list[JsonObject]:
        """One tool message for each call; what only a user may show follows in one user message."""
        items: list[JsonObject] = []
        shown: list[Json] = []
        for result in results:
            call_id = ids.get(result.call_id) or make_wire_id(result.call_id)
            items.append({"role": "tool", "tool_call_id": call_id, "content": result.envelope})
            for attachment in filter(_can_be_shown, result.attachments):
                shown.append(
                    _text(f"This {attachment.kind} is from the result of {wire_name(result.name)} (call {call_id}):")
                )
                shown.append(_media(attachment))
        return items + (self._after_results([{"role": "user", "content": shown}]) if shown else [])


def _call(call: CallPart, ids: dict[str, str], entry: JsonObject | None = None) -> JsonObject:
    """The fields of a call that are the same in every message, over what its server wrote."""
    function = json_object((entry or {}).get("function"))
    name = json_text(function.get("name")) or call.name
    return {
        "id": ids.get(call.id) or make_wire_id(call.id),
        "function": {**function, "name": wire_name(name), "arguments": wire_arguments(call.arguments)},
    }


def _tool(tool: LoweredTool) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.spec.description, "parameters": tool.schema}
    if tool.strict:  # the default is false, and not every server knows the word
        function["strict"] = True
    return {"type": "function", "function": function}


def _user_content(parts: Sequence[Text | Media]) -> Json:
    """A string where there is only text: every server takes that."""
    content: list[JsonObject] = []
    for part in parts:
        if type(part) is Media:
            content.append(_media(part.attachment))
        elif part.text:
            content.append(_text(part.text))
    if all(item["type"] == "text" for item in content):
        return "\n\n".join(json_text(item["text"]) for item in content) or _NOTHING
    return [*content]


def _media(item: Attachment) -> JsonObject:
    if is_image(item):
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    if sound := audio_format(item):
        return {"type": "input_audio", "input_audio": {"data": base64_text(item), "format": sound}}
    if is_pdf(item):
        return {"type": "file", "file": {"filename": file_name(item), "file_data": data_url(item)}}
    return _text(attachment_text(item))


def _can_be_shown(item: Attachment) -> bool:
    """Whether a model sees more of it than the result's own text already says."""
    return is_image(item) or is_pdf(item) or is_readable(item) or audio_format(item) is not None


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
