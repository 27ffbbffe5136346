"""What both OpenAI formats share on the wire: JSON in and out, text with broken characters, ids and names of calls."""

import hashlib
import json
import re
from typing import Final

import msgspec

from handspan.core.messages import CallPart
from handspan.core.names import is_outside_name, outside_name
from handspan.core.values import Json, JsonObject
from handspan.models.model import ModelError

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHOWN: Final = 80


def read_object(data: str | bytes) -> JsonObject:
    """The JSON object in this text; `ModelError` for anything else."""
    value = read_json(data)
    if not isinstance(value, dict):
        shown = data[:_SHOWN].decode("utf-8", "replace") if isinstance(data, bytes) else data[:_SHOWN]
        raise unreadable_error(f"it has {shown!r} where a JSON object belongs")
    return value


def read_json(data: str | bytes) -> Json:
    """The value of this JSON text, or None. Half a surrogate pair is let through: its other half comes next."""
    try:
        value: Json = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data)  # servers that cut text by UTF-16 units send halves; msgspec takes none
        except (ValueError, RecursionError):
            return None
    return value


def unreadable_error(reason: str) -> ModelError:
    """The error for an answer that makes no sense."""
    return ModelError(
        "unreadable", f"The model's answer can't be read: {reason}. Check base_url and api of this model."
    )


def encode_json(value: object) -> bytes:
    """The value as JSON; text that has no UTF-8 form is mended."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(mend_value(value))


def mend_text(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD where half of one is lost for good."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend_value(value: object) -> object:
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
    """Joins a character whose two halves (UTF-16) came in two pieces of a stream."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The text that can be shown by now."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mend_text(text[: len(text) - len(self._half)])

    def close(self) -> str:
        """What stands for a half that stayed alone."""
        lost, self._half = self._half, ""
        return mend_text(lost)


def wire_id_of(call: CallPart, fits: re.Pattern[str]) -> str:
    """The id under which a call goes over the wire: the model's own where it fits, else one made from ours."""
    return call.wire_id if fits.fullmatch(call.wire_id) else make_wire_id(call.id)


def make_wire_id(own_id: str) -> str:
    """An id that every server takes, always the same for the same call: nine letters and digits (Mistral's rule)."""
    number = int.from_bytes(hashlib.sha256(own_id.encode("utf-8", "surrogatepass")).digest()[:8])
    digits = []
    for _ in range(9):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def wire_name(name: str) -> str:
    """The name under which a call goes over the wire: a model may have invented one that its own API would refuse."""
    return name if is_outside_name(name) else outside_name(name)


def wire_arguments(arguments: str) -> str:
    """Arguments as the text of a JSON object, whatever the model wrote: many servers parse those of old turns again,
    and one broken call would make the whole conversation unanswerable for ever."""
    text = arguments.strip()
    if not text:
        return "{}"
    return arguments if is_json_object(text) else encode_json({"not_valid_json": arguments}).decode()


def is_json_object(text: str) -> bool:
    """Whether this is one whole JSON object; arguments that were cut off are not."""
    try:
        return type(msgspec.json.decode(text)) is dict
    except (ValueError, RecursionError):
        return False


def arguments_text(value: Json) -> str:
    """A call's arguments as text: some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else encode_json(value).decode()


def json_object(value: Json) -> JsonObject:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def json_objects(value: Json) -> list[JsonObject]:
    """The objects in a list; nothing where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def json_text(value: Json) -> str:
    """The value where it is text, else nothing."""
    return value if isinstance(value, str) else ""


def json_count(value: Json) -> int | None:
    """The value where it is a whole number, else None: unknown is not 0 (SPEC M6)."""
    return value if type(value) is int else None
