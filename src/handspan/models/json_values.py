"""JSON as model APIs send and take it: values of uncertain type, broken characters, ids and arguments of calls."""

import hashlib
import json
import re
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from handspan.core.messages import Api, AssistantMessage, Message
from handspan.core.values import Json, JsonObject
from handspan.models.model import ModelError

_SURROGATE: Final = "[\ud800-\udfff]"
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MAX_QUOTED: Final = 80
_LONGEST_QUOTE: Final = 300

_encode: Final = msgspec.json.Encoder().encode


# Reading


def read_object(data: str | bytes) -> JsonObject:
    """Return the JSON object in this text. Raises `ModelError` for anything else."""
    value = read_json(data)
    if not isinstance(value, dict):
        quoted = data[:_MAX_QUOTED].decode("utf-8", "replace") if isinstance(data, bytes) else data[:_MAX_QUOTED]
        raise unreadable_error(f"it has {quoted!r} where a JSON object belongs")
    return value


def parse_json(data: str | bytes) -> Json | UnsetType:
    """Return the value of this JSON text; `UNSET` when it is no JSON."""
    try:
        value: Json = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return UNSET
    return value


def read_json(data: str | bytes, *, allow_nan: bool = True) -> Json:
    """Return the value of this JSON text; None when it is no JSON.

    Half a surrogate pair is accepted, because its other half may come with the next event.
    """
    value = parse_json(data)
    if value is not UNSET:
        return value
    try:  # servers that cut text by UTF-16 units send halves, which msgspec refuses
        halves: Json = json.loads(data, parse_constant=None if allow_nan else _refuse_constant)
    except (ValueError, RecursionError):
        return None
    return halves


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def unreadable_error(reason: str) -> ModelError:
    """Return the error for an answer that makes no sense."""
    return ModelError(
        "unreadable", f"The model's answer can't be read: {reason}. Check base_url and api of this model."
    )


def json_object(value: Json | UnsetType) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def json_objects(value: Json) -> list[JsonObject]:
    """Return the objects in a list; nothing when the value is no list."""
    return [item for item in json_list(value) if isinstance(item, dict)]


def json_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def json_text(value: Json) -> str:
    """Return the value if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def json_count(value: Json) -> int | None:
    """Return the value if it is a whole number, else None: unknown is not 0 (SPEC M6)."""
    return value if type(value) is int and value >= 0 else None


def is_json_object(text: str) -> bool:
    """Return whether this is one whole JSON object; arguments that were cut off are not."""
    return type(parse_json(text)) is dict


# Writing


def encode_json(value: object) -> bytes:
    """Return the value as JSON; text that has no UTF-8 form is mended."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(mend_value(value))


def mend_text(text: str) -> str:
    """Return the text with surrogate pairs joined, and U+FFFD for a half that stands alone."""
    if text.isascii() or re.search(_SURROGATE, text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def quote_message(message: str, secret: re.Pattern[str]) -> str:
    """Return a server's message on one line, short, and without anything that looks like a key (SPEC S5)."""
    line = secret.sub("…", " ".join(mend_text(message).split()))
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]}…"


def mend_value(value: Any) -> Any:
    """Return the value with every text in it mended."""
    match value:
        case str():
            return mend_text(value)
        case dict():
            return {mend_value(key): mend_value(item) for key, item in value.items()}
        case list():
            return [mend_value(item) for item in value]
        case _:
            return value


class SurrogateJoiner:
    """Joins a character whose two UTF-16 halves come in two pieces of a stream."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """Return the half that was kept, and this piece. A half at the end of the piece is kept for the next one."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mend_text(text[: len(text) - len(self._half)])

    def close(self) -> str:
        """Return the replacement for a half that stayed alone; else an empty text."""
        lost, self._half = self._half, ""
        return mend_text(lost)


# Messages and their calls


def native_content(message: AssistantMessage, api: Api, model: str = "") -> Json:
    """Return the message as this API sent it; None when another API sent it, or another model than `model`."""
    native = message.native
    return native.content if native and native.api == api and model in ("", native.model) else None


def wire_ids(message: Message | UnsetType | None, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the model's own ids of the message's calls, by our ids; only ids that match the pattern."""
    calls = message.calls if type(message) is AssistantMessage else ()
    return {call.id: call.wire_id for call in calls if pattern.fullmatch(call.wire_id)}


def make_wire_id(own_id: str) -> str:
    """Return an id that every server takes: nine letters and digits (Mistral's rule), always the same for `own_id`."""
    number = int.from_bytes(hashlib.sha256(own_id.encode("utf-8", "surrogatepass")).digest()[:8])
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def wire_arguments(arguments: str) -> str:
    """Return arguments as the text of a JSON object, whatever the model wrote. Broken JSON is wrapped, not repaired.

    Many servers parse the arguments of old turns again. One broken call would make every later request fail.
    """
    text = arguments.strip()
    if not text:
        return "{}"
    return arguments if is_json_object(text) else encode_json({"not_valid_json": arguments}).decode()


def arguments_text(value: Json) -> str:
    """Return a call's arguments as text: some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else encode_json(value).decode()
