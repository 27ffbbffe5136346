"""Gemini's generateContent: a conversation in its words (SPEC M1, M2). No sockets, no clock.

`GeminiCodec` says what to send; `answer.py` reads what comes back, `faults.py` what went wrong. Where the
generations of Gemini differ (signatures, media in results), the name of the model decides, so the codec is told it.

What Gemini sent goes back part by part as it came, but for the ids of calls: there, and in the results, ours are sent.
Gemini often gives none, and a result is encoded without sight of its call; so the two always agree.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, UnsetType

from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    Part,
    ResultsMessage,
    Text,
    Thinking,
    UserMessage,
)
from handspan.core.names import outside_name
from handspan.core.results import Attachment
from handspan.core.values import JsonObject
from handspan.models.gemini.decoder import GeminiDecoder, decode_answer
from handspan.models.gemini.faults import fault_of_answer, retry_after
from handspan.models.model import LoweredTool, ModelError

_Fields: TypeAlias = dict[str, object]
"""An object on its way to JSON; some of its values are JSON already (`Raw`)."""

_VERSION: Final = "/v1beta"
_UNSIGNED: Final = "skip_thought_signature_validator"
"""Google's own word for a call that another model made. As it is, never in base64: that form is refused."""

_GENERATION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,2})(?!\d)")
_REFERENCE: Final = re.compile(r'"(?:\$|\\u0024)(?:ref|defs)"')
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_NESTED: Final = frozenset(("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"))
_INLINE: Final = re.compile(r"image/(png|jpeg|webp|heic|heif)|audio/.+|video/.+|text/.+|application/pdf")

_TOP_FIELDS: Final = frozenset(("generationConfig", "safetySettings", "cachedContent", "toolConfig", "serviceTier"))
_CONFIG_NAMES: Final = {"max_tokens": "maxOutputTokens", "stop": "stopSequences"}

_encode: Final = msgspec.json.Encoder().encode


@final
class GeminiCodec:
    """The wire format of Gemini; `subset` says that tools come lowered to the OpenAPI subset, not as JSON Schema."""

    api: Api = "gemini"

    def __init__(self, model: str = "", *, subset: bool = False) -> None:
        found = _GENERATION.search(model)
        generation = int(found[1]) if found else None
        # A name without a number ("gemini-flash-latest") is most likely new: it gets what every generation takes.
        self._signs = generation is None or generation >= 3
        self._nests_media = generation is not None and generation >= 3
        self._subset = subset

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """The contents for this message: mostly one, two for results with media beside them, none when it is empty."""
        match message:
            case UserMessage(parts=parts):
                contents = [_content("user", _said(parts) or [{"text": " "}])]  # an empty text may be refused
            case AssistantMessage():
                contents = [_content("model", self._answered(message))]
            case ResultsMessage(results=results):
                contents = self._resulted(results)
        return [_encode(content) for content in contents if content["parts"]]

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
        """The body of the request. Options that are no field of the request itself go into `generationConfig`."""
        body: _Fields = {"contents": Raw(b"[%b]" % b",".join(items))}
        if instructions:
            body["systemInstruction"] = {"parts": [{"text": _sound(instructions)}]}
        if tools:
            body["tools"] = [{"functionDeclarations": [self._declared(tool) for tool in tools]}]
            body["toolConfig"] = {"functionCallingConfig": {"mode": "AUTO"}}
        _add_options(body, options)
        return _encode(body)

    def base(self, url: str) -> str:
        """The base URL as `path` expects it: without the version, which people like to paste along."""
        return url.rstrip("/").removesuffix(_VERSION)

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL, with its query."""
        name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"{_VERSION}/{quote(name)}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def headers(self, key: str) -> dict[str, str]:
        """The header that carries the key; the version is in the path."""
        return {"x-goog-api-key": key} if key else {}

    def decoder(self, names: dict[str, str], model: str) -> GeminiDecoder:
        """A reader for one streamed answer."""
        return GeminiDecoder(names, model)

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """A whole answer; `ModelError` when it makes no sense."""
        return decode_answer(body, names, model)

    def fault(self, status: int, body: bytes) -> ModelError:
        """What an error answer means, in words for a person."""
        return fault_of_answer(status, body)

    def retry_after(self, body: bytes) -> float | None:
        """The seconds that an error answer asks to wait: Gemini says it in the body, not in a header."""
        return retry_after(body)

    def _declared(self, tool: LoweredTool) -> _Fields:
        declared: _Fields = {"name": tool.name, "description": _sound(tool.spec.description)}
        if not self._subset:
            declared["parametersJsonSchema"] = tool.schema
        elif tool.schema.get("properties"):  # the subset refuses an object without properties
            declared["parameters"] = tool.schema
        return declared

    def _answered(self, message: AssistantMessage) -> Sequence[_Fields]:
        parts = _verbatim(message)
        if parts is None:
            parts = _said(message.parts)
        return _with_signature(parts) if self._signs else parts

    def _resulted(self, results: Sequence[CallResult]) -> list[_Fields]:
        """One content with exactly one part for each call, and where needed one more with media.

        Media beside function responses break the rule "as many parts as calls", so they get a content of their own.
        """
        responses: list[_Fields] = []
        beside: list[_Fields] = []
        for result in results:
            inside = [item for item in result.attachments if self._nests(item)]
            responses.append(_response(result, inside))
            outside = [_shown(item) for item in result.attachments if item not in inside]
            if outside:
                beside += [{"text": f"What came with the result of {result.name!r}:"}, *outside]
        return [_content("user", responses), _content("user", beside)]

    def _nests(self, attachment: Attachment) -> bool:
        """Whether a function response can hold it."""
        return self._nests_media and bool(attachment.data) and _media_type(attachment) in _NESTED


def _content(role: str, parts: Sequence[_Fields]) -> _Fields:
    return {"role": role, "parts": parts}


def _said(parts: Iterable[Part]) -> list[_Fields]:
    """Parts of no API as parts of this one; thinking of another model is not for this one."""
    said: list[_Fields] = []
    for part in parts:
        match part:
            case Text(text=text) if text:
                said.append({"text": _sound(text)})
            case Media(attachment=attachment):
                said.append(_shown(attachment))
            case CallPart():
                said.append({"functionCall": _called(part)})
            case Text() | Thinking():
                pass
    return said


def _called(call: CallPart) -> _Fields:
    return {"id": call.id, "name": _wire_name(call.name), "args": _arguments(call.arguments)}


def _arguments(text: str) -> JsonObject:
    """The arguments as the object that Gemini insists on; what can't be read is shown as it was written."""
    try:
        return msgspec.json.decode(text or "{}", type=JsonObject)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"arguments": _sound(text)}


def _wire_name(name: str) -> str:
    """The name as Gemini takes it, also for a tool that never existed: another model may have made it up."""
    return name if _NAME.fullmatch(name) else outside_name(name)


def _verbatim(message: AssistantMessage) -> list[_Fields] | None:
    """The parts as Gemini sent them; None when it did not, or when they ask for other calls than the message."""
    native = message.native
    if native is None or native.api != GeminiCodec.api or not isinstance(native.content, dict):
        return None
    parts = native.content.get("parts")
    if not isinstance(parts, list):
        return None
    kept: list[_Fields] = [{**part} for part in parts if isinstance(part, dict)]
    calling = [part for part in kept if "functionCall" in part]
    if len(calling) != len(message.calls):
        return None
    for part, call in zip(calling, message.calls, strict=True):
        native_call = part["functionCall"]
        known = native_call if isinstance(native_call, dict) else {}
        part["functionCall"] = {"args": {}, **known, "id": call.id, "name": _wire_name(call.name)}
    return kept


def _with_signature(parts: list[_Fields]) -> list[_Fields]:
    """The same parts; when none is signed, the first call says so. Never its siblings: that degrades answers."""
    if not any("thoughtSignature" in part for part in parts):
        for part in parts:
            if "functionCall" in part:
                part["thoughtSignature"] = _UNSIGNED
                break
    return parts


def _response(result: CallResult, media: Sequence[Attachment]) -> _Fields:
    response: _Fields = {"id": result.call_id, "name": _wire_name(result.name), "response": _outcome(result)}
    if media:
        response["parts"] = [_inline(item) for item in media]
    return {"functionResponse": response}


def _outcome(result: CallResult) -> _Fields:
    """Our envelope (SPEC X1) with the keys that Gemini knows, `output` and `error`."""
    envelope = _sound(result.envelope)
    # Gemini 3 takes "$ref" inside a result for the name of a media part and refuses the request (vercel/ai#14369).
    if _REFERENCE.search(envelope):
        return {"error" if result.is_error else "output": envelope}
    try:
        fields = msgspec.json.decode(envelope, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return {"error" if result.is_error else "output": envelope}
    status = fields.pop("status", Raw(b""))
    if result.is_error or bytes(status) == b'"error"':
        return {"error": fields}
    return {"output": fields.pop("result", None), **fields}


def _shown(attachment: Attachment) -> _Fields:
    """The attachment as a part of a content; one that Gemini would refuse is told in words instead."""
    if attachment.data and _INLINE.fullmatch(_media_type(attachment)):
        return _inline(attachment)
    name = f" {attachment.name!r}" if attachment.name else ""
    if attachment.artifact is not None:
        where = f"{attachment.artifact.size} bytes, kept as artifact {attachment.artifact.id!r}"
    else:
        where = f"{len(attachment.data)} bytes; Gemini can't take this type"
    return {"text": f"[{attachment.kind}{name}: {attachment.media_type}, {where}]"}


def _inline(attachment: Attachment) -> _Fields:
    data = base64.b64encode(attachment.data).decode()
    return {"inlineData": {"mimeType": _media_type(attachment), "data": data}}


def _media_type(attachment: Attachment) -> str:
    """The type to send it as: without parameters, and `text/plain` for text of a type that Gemini does not know."""
    media_type = attachment.media_type.partition(";")[0].strip().lower()
    if media_type == "image/jpg":
        return "image/jpeg"
    if not attachment.data or _INLINE.fullmatch(media_type):
        return media_type
    return "text/plain" if _is_text(attachment.data) else media_type


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _sound(text: str) -> str:
    """The text with surrogate pairs joined; a half alone, which has no UTF-8, is replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _add_options(body: _Fields, options: JsonObject) -> None:
    config: _Fields = {}
    for key, value in options.items():
        if key == "tools":
            body["tools"] = [*_listed(body.get("tools")), *_listed(value)]
        elif key in _TOP_FIELDS:
            body[key] = _merged(body.get(key), value)
        elif value is not None:
            config[_CONFIG_NAMES.get(key) or _camel(key)] = [value] if key == "stop" and type(value) is str else value
    if config:
        body["generationConfig"] = _merged(config, body.get("generationConfig", {}))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _merged(under: object, over: object) -> object:
    """Two settings of one field; where both are objects, field by field."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
