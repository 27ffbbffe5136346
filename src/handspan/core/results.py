"""The one answer to one call: success or failure, never both, never neither (SPEC X)."""

import re
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import ERROR_TYPES, ErrorCode, ErrorType, ToolError
from handspan.core.values import Json, JsonObject

AttachmentKind: TypeAlias = Literal["image", "audio", "file"]


@final
class Attachment(Struct, frozen=True):
    """An image, a sound or a file that comes with a result: small ones inline, large ones as an artifact."""

    kind: AttachmentKind
    media_type: str
    data: bytes = b""
    artifact: ArtifactRef | None = None
    name: str = ""


@final
class Success(Struct, frozen=True, gc=False):
    """The call did what it should."""

    value: Json = None
    attachments: tuple[Attachment, ...] = ()
    encoded: bytes = b""
    """The envelope as bytes, once the engine has serialised it: nobody needs to do that twice."""


@final
class Failure(Struct, frozen=True, gc=False):
    """The call did not do what it should; the message tells a model what to do next."""

    code: ErrorCode
    message: str

    @property
    def error_type(self) -> ErrorType:
        return ERROR_TYPES[self.code]


ToolResult: TypeAlias = Success | Failure


@final
class Pending(Struct, frozen=True):
    """What a tool returns when its outcome arrives later, through `Engine.settle`, perhaps in another process."""

    expires_in: float | None = None
    """Seconds until nobody waits any more; None leaves it to the one who settles."""


def envelope(result: ToolResult) -> JsonObject:
    """The result in the form that every model, API and command line shows (SPEC X1)."""
    match result:
        case Success(value=value, attachments=()):
            return {"status": "success", "result": value}
        case Success(value=value, attachments=attachments):
            return {"status": "success", "result": value, "attachments": [_shown(item) for item in attachments]}
        case Failure(code=code, message=message):
            return {"status": "error", "error_type": ERROR_TYPES[code], "code": code, "message": message}


def encode_envelope(result: ToolResult) -> bytes:
    """The envelope as JSON bytes."""
    if type(result) is Success and result.encoded:
        return result.encoded
    shown = envelope(result)
    try:
        return _ENCODER.encode(shown)
    except UnicodeEncodeError:  # a file's name, or the text of somebody's exception
        return _ENCODER.encode(_without_lone_surrogates(shown))


def succeed(value: object, attachments: tuple[Attachment, ...] = ()) -> Success:
    """A success with this value made plain JSON and serialised; a value that has no JSON form is a `ToolError`."""
    try:
        plain: Any = value if type(value) in _SCALARS else msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
        try:
            if attachments:
                encoded = _ENCODER.encode(envelope(Success(plain, attachments)))
            else:
                encoded = b'{"status":"success","result":%b}' % _ENCODER.encode(plain)
        except UnicodeEncodeError:
            plain = _without_lone_surrogates(plain)
            encoded = encode_envelope(Success(plain, attachments))
    except RecursionError:
        raise _has_no_json("it contains itself or is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise _has_no_json(str(error)) from error
    return Success(plain, attachments, encoded)


def _has_no_json(reason: str) -> ToolError:
    text = f"The tool ran, but its result can't be written as JSON: {reason}. It has to return plain data."
    return ToolError("execution_failed", text)


_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_LONE_SURROGATE: Final = r"[\ud800-\udfff]"


def _plain(value: object) -> object:
    """The plain form of what msgspec does not know: subclasses, paths, other collections, pydantic models."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case PurePath():
            return str(value)
        case Mapping():
            return dict(value)
        case Sequence() | Set():
            return list(value)
    try:
        dump = getattr(value, "model_dump", None)
        if dump is not None:
            return dump(mode="json")
    except Exception as error:  # code of the value's own class
        raise TypeError(f"a value of type {type(value).__name__!r} ({type(error).__name__}: {error})") from error
    raise TypeError(f"a value of type {type(value).__name__!r}")


def _without_lone_surrogates(value: object) -> object:
    match value:
        case str():
            return re.sub(_LONE_SURROGATE, "\ufffd", value)
        case dict():
            return {_without_lone_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_lone_surrogates(item) for item in value]
        case _:
            return value


def _shown(item: Attachment) -> JsonObject:
    """What a text form can say of an attachment: never its bytes."""
    shown: JsonObject = {"kind": item.kind, "media_type": item.media_type}
    if item.name:
        shown["name"] = item.name
    if item.artifact is not None:
        shown["artifact"] = item.artifact.id
        shown["bytes"] = item.artifact.size
    else:
        shown["bytes"] = len(item.data)
    return shown


_ENCODER: Final = msgspec.json.Encoder()
