"""The codec of Gemini's generateContent: what to send (SPEC M1, M2).

`decoder.py` reads answers, `faults.py` explains errors. The generations of Gemini differ in signatures and in media
inside results; the name of the model tells the generation.

What Gemini sent goes back part by part as it came, except for the ids of calls. Calls and results always get our ids:
Gemini often gives none, and so the two match without the message before.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, UnsetType

from handspan.core.images import ImageLimits
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
from handspan.models.gemini.faults import fault_of_answer
from handspan.models.json_values import encode_json, json_object, mend_text, native_content
from handspan.models.model import LoweredTool, Prompt

_Fields: TypeAlias = dict[str, object]
"""An object on its way to JSON; some of its values are JSON already (`Raw`)."""

_VERSION: Final = "/v1beta"
_NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's word for a call without a signature, because another model made it. Its base64 form is refused."""

_GENERATION: Final = re.compile(r"gemini-(?:[a-z]+-)*(\d{1,2})(?!\d)")
_REFERENCE: Final = re.compile(r'"(?:\$|\\u0024)(?:ref|defs)"')
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_NESTED_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"))
_INLINE_TYPES: Final = re.compile(r"image/(png|jpeg|webp|heic|heif)|audio/.+|video/.+|text/.+|application/pdf")

_IMAGES: Final = ImageLimits(
    frozenset(("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")), 4_000_000, 12_000_000
)
"""A whole request may have 20 MB."""
_TOP_FIELDS: Final = frozenset(("generationConfig", "safetySettings", "cachedContent", "toolConfig", "serviceTier"))
_CONFIG_NAMES: Final = {"max_tokens": "maxOutputTokens", "stop": "stopSequences"}


@final
class GeminiCodec:
    """The wire format of Gemini."""

    api: Api = "gemini"
    images = _IMAGES
    decode = staticmethod(decode_answer)
    decoder = staticmethod(GeminiDecoder)
    fault = staticmethod(fault_of_answer)

    def __init__(self, model: str = "") -> None:
        found = _GENERATION.search(model)
        generation = int(found[1]) if found else None
        # A name without a number ("gemini-flash-latest") is most likely new. It gets what every generation takes.
        self._needs_signature = generation is None or generation >= 3
        self._nests_media = generation is not None and generation >= 3

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the contents for this message: two for results with media beside them, none for an empty message."""
        match message:
            case UserMessage(parts=parts):
                contents = [_content("user", _parts_from(parts) or [{"text": " "}])]  # an empty text may be refused
            case AssistantMessage():
                contents = [_content("model", self._model_parts(message))]
            case ResultsMessage(results=results):
                contents = self._result_contents(results)
        return [encode_json(content) for content in contents if content["parts"]]

    def request(self, prompt: Prompt) -> bytes:
        """Return the body. Options that are no field of the request go into `generationConfig`."""
        body: _Fields = {"contents": Raw(b"[%b]" % b",".join(prompt.items))}
        if prompt.instructions:
            body["systemInstruction"] = {"parts": [{"text": mend_text(prompt.instructions)}]}
        if prompt.tools:
            body["tools"] = [{"functionDeclarations": [_declare_tool(tool) for tool in prompt.tools]}]
            body["toolConfig"] = {"functionCallingConfig": {"mode": "AUTO"}}
        _add_options(body, prompt.options)
        return encode_json(body)

    def path(self, model: str, *, stream: bool) -> str:
        name = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"{_VERSION}/{quote(name)}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"

    def headers(self, key: str) -> dict[str, str]:
        """Return the header with the key; the version is in the path."""
        return {"x-goog-api-key": key} if key else {}

    def _model_parts(self, message: AssistantMessage) -> Sequence[_Fields]:
        parts = _native_parts(message) or _parts_from(message.parts)
        return _add_signature(parts) if self._needs_signature else parts

    def _result_contents(self, results: Sequence[CallResult]) -> list[_Fields]:
        """Return one content with exactly one part for each call, and if needed one more content with media.

        Media beside function responses break the rule "as many parts as calls", so they get a separate content.
        """
        responses: list[_Fields] = []
        beside: list[_Fields] = []
        for result in results:
            inside = [item for item in result.attachments if self._can_nest(item)]
            responses.append(_response(result, inside))
            outside = [_media_part(item) for item in result.attachments if item not in inside]
            if outside:
                beside += [{"text": f"What came with the result of {result.name!r}:"}, *outside]
        return [_content("user", responses), _content("user", beside)]

    def _can_nest(self, attachment: Attachment) -> bool:
        """Return whether a function response can hold this attachment."""
        return self._nests_media and bool(attachment.data) and _media_type(attachment) in _NESTED_TYPES


def _declare_tool(tool: LoweredTool) -> _Fields:
    return {"name": tool.name, "description": mend_text(tool.spec.description), "parametersJsonSchema": tool.schema}


def _content(role: str, parts: Sequence[_Fields]) -> _Fields:
    return {"role": role, "parts": parts}


def _parts_from(parts: Iterable[Part]) -> list[_Fields]:
    """Return our parts as parts of this API. Thinking is left out: it came from another model."""
    written: list[_Fields] = []
    for part in parts:
        match part:
            case Text(text=text) if text:
                written.append({"text": mend_text(text)})
            case Media(attachment=attachment):
                written.append(_media_part(attachment))
            case CallPart():
                call = {"id": part.id, "name": _wire_name(part.name), "args": _arguments(part.arguments)}
                written.append({"functionCall": call})
            case Text() | Thinking():
                pass
    return written


def _arguments(text: str) -> JsonObject:
    """Return the arguments as an object, which Gemini requires. Text that is no object is shown as it is."""
    try:
        return msgspec.json.decode(text or "{}", type=JsonObject)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"arguments": mend_text(text)}


def _wire_name(name: str) -> str:
    """Return the name in a form that Gemini takes: another model may have invented a name."""
    return name if _NAME.fullmatch(name) else outside_name(name)


def _native_parts(message: AssistantMessage) -> list[_Fields] | None:
    """Return the parts as Gemini sent them; None when another API sent them, or when the message has other calls."""
    parts = json_object(native_content(message, GeminiCodec.api)).get("parts")
    if not isinstance(parts, list):
        return None
    kept: list[_Fields] = [{**part} for part in parts if isinstance(part, dict)]
    call_parts = [part for part in kept if "functionCall" in part]
    if len(call_parts) != len(message.calls):
        return None
    for part, call in zip(call_parts, message.calls, strict=True):
        given = part["functionCall"]
        known = given if isinstance(given, dict) else {}
        part["functionCall"] = {"args": {}, **known, "id": call.id, "name": _wire_name(call.name)}
    return kept


def _add_signature(parts: list[_Fields]) -> list[_Fields]:
    """Mark the first call when no part is signed, and return the parts. Marks on more calls make answers worse."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and not any("thoughtSignature" in part for part in parts):
        first["thoughtSignature"] = _NO_SIGNATURE
    return parts


def _response(result: CallResult, media: Sequence[Attachment]) -> _Fields:
    response: _Fields = {"id": result.call_id, "name": _wire_name(result.name), "response": _response_body(result)}
    if media:
        response["parts"] = [_inline_data(item) for item in media]
    return {"functionResponse": response}


def _response_body(result: CallResult) -> _Fields:
    """Return our envelope (SPEC X1) under the keys that Gemini knows: `output` or `error`."""
    envelope = mend_text(result.envelope)
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


def _media_part(attachment: Attachment) -> _Fields:
    """Return the attachment as a part of a content, or a description when Gemini would refuse it."""
    if attachment.data and _INLINE_TYPES.fullmatch(_media_type(attachment)):
        return _inline_data(attachment)
    name = f" {attachment.name!r}" if attachment.name else ""
    if attachment.artifact is not None:
        where = f"{attachment.artifact.size} bytes, kept as artifact {attachment.artifact.id!r}"
    else:
        where = f"{len(attachment.data)} bytes; Gemini can't take this type"
    return {"text": f"[{attachment.kind}{name}: {attachment.media_type}, {where}]"}


def _inline_data(attachment: Attachment) -> _Fields:
    data = base64.b64encode(attachment.data).decode()
    return {"inlineData": {"mimeType": _media_type(attachment), "data": data}}


def _media_type(attachment: Attachment) -> str:
    """Return the type to send: without parameters, and `text/plain` for text of a type that Gemini does not know."""
    media_type = attachment.media_type.partition(";")[0].strip().lower()
    if media_type == "image/jpg":
        return "image/jpeg"
    if not attachment.data or _INLINE_TYPES.fullmatch(media_type):
        return media_type
    return "text/plain" if _is_text(attachment.data) else media_type


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _add_options(body: _Fields, options: JsonObject) -> None:
    """Add the options to the body: tools and fields of the request at the top, all others in `generationConfig`."""
    config: _Fields = {}
    for key, value in options.items():
        if key == "tools":
            body["tools"] = [*_as_list(body.get("tools")), *_as_list(value)]
        elif key in _TOP_FIELDS:
            body[key] = _merge(body.get(key), value)
        elif value is not None:
            config[_CONFIG_NAMES.get(key) or _to_camel_case(key)] = (
                [value] if key == "stop" and type(value) is str else value
            )
    if config:
        body["generationConfig"] = _merge(config, body.get("generationConfig", {}))


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _merge(under: object, over: object) -> object:
    """Return `over`; when both are objects, they are joined field by field and `over` wins."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return {**under, **{key: _merge(under.get(key), value) for key, value in over.items()}}


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
