"""The one answer to one call: success or failure, never both, never neither (SPEC X)."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import ERROR_TYPES, ErrorCode, ErrorType, ToolError
from handspan.core.values import Arguments, Json, JsonObject, change_texts, encode

_EDITED: Final = "The user changed the arguments before approving this call. It ran with:"
_LONGEST_EDIT: Final = 1000

AttachmentKind: TypeAlias = Literal["image", "audio", "file"]


@final
class Attachment(Struct, frozen=True):
    """An image, a sound or a file of a result: a small one inline, a large one as an artifact."""

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
    """The envelope as bytes, after the engine has encoded it: so it is encoded once."""
    notice: str = ""
    """What the model has to know beside the value, such as arguments that a person changed."""


@final
class Failure(Struct, frozen=True, gc=False):
    """The call did not do what it should; the message tells the model what to do next."""

    code: ErrorCode
    message: str

    @property
    def error_type(self) -> ErrorType:
        return ERROR_TYPES[self.code]


ToolResult: TypeAlias = Success | Failure


@final
class Pending(Struct, frozen=True):
    """A tool returns this when its outcome comes later, through `Engine.settle`, perhaps in another process."""

    expires_in: float | None = None
    """Seconds until the call ends without an outcome; None: the part that settles it decides."""
    begin: Callable[[], None] | None = None
    """Is called once the ledger has the call as pending: begins the work that leads to the outcome. Never blocks."""


def envelope(result: ToolResult) -> JsonObject:
    """Return the result in the form that every model, API and command line shows (SPEC X1)."""
    match result:
        case Success(value=value, attachments=attachments, notice=notice):
            found: JsonObject = {"status": "success", "result": value}
            if attachments:
                found["attachments"] = [_describe_attachment(item) for item in attachments]
            return {**found, "notice": notice} if notice else found
        case Failure(code=code, message=message):
            return {"status": "error", "error_type": ERROR_TYPES[code], "code": code, "message": message}


def encode_envelope(result: ToolResult) -> bytes:
    """Return the envelope as JSON bytes."""
    if type(result) is Success and result.encoded:
        return result.encoded
    found = envelope(result)
    try:
        return _ENCODER.encode(found)
    except UnicodeEncodeError:  # a file name, or the text of an exception, may have lone surrogates
        return _ENCODER.encode(change_texts(found, _replace_surrogates))


def succeed(value: object, attachments: tuple[Attachment, ...] = ()) -> Success:
    """Return a success with this value as plain JSON and encoded. Raises `ToolError` if it has no JSON form."""
    try:
        plain: Any = value if type(value) in _SCALARS else msgspec.to_builtins(value, str_keys=True, enc_hook=_to_plain)
        try:
            if attachments:
                encoded = _ENCODER.encode(envelope(Success(plain, attachments)))
            else:
                encoded = b'{"status":"success","result":%b}' % _ENCODER.encode(plain)
        except UnicodeEncodeError:
            plain = change_texts(plain, _replace_surrogates)
            encoded = encode_envelope(Success(plain, attachments))
    except RecursionError:
        raise _no_json_error("it contains itself or is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise _no_json_error(str(error)) from error
    return Success(plain, attachments, encoded)


def add_notice(result: ToolResult, notice: str) -> ToolResult:
    """Return the result with this notice for the model; a failure has it at the end of its message."""
    if isinstance(result, Failure):
        return Failure(result.code, f"{result.message} {notice}")
    with_notice = Success(result.value, result.attachments, notice=f"{result.notice} {notice}".lstrip())
    return Success(result.value, result.attachments, encode_envelope(with_notice), with_notice.notice)


def add_edit_notice(result: ToolResult, arguments: Arguments | bytes | str) -> ToolResult:
    """Return the result with a notice that names the arguments, as JSON, that a person put in place of the call's."""
    text = encode(arguments).decode()
    return add_notice(result, f"{_EDITED} {text[:_LONGEST_EDIT]}{'…' if len(text) > _LONGEST_EDIT else ''}")


def edited_arguments(envelope: str) -> str:
    """Return the arguments of `add_edit_notice`; empty when the envelope has none.

    A failure says them in its message, which is the tool's own text: it is not read, so no tool can forge them.
    """
    if _EDITED not in envelope:
        return ""
    try:
        notice = _notice_decoder.decode(envelope).notice
    except msgspec.DecodeError:
        return ""
    return notice.partition(f"{_EDITED} ")[2]


def _no_json_error(reason: str) -> ToolError:
    text = f"The tool ran, but its result can't be written as JSON: {reason}. It has to return plain data."
    return ToolError("execution_failed", text)


@final
class _EnvelopeNotice(Struct, frozen=True):
    notice: str = ""


_notice_decoder: Final = msgspec.json.Decoder(_EnvelopeNotice)
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def _to_plain(value: object) -> object:
    """Return the plain form of types that msgspec does not know: subclasses, paths, collections, pydantic models."""
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


def _replace_surrogates(text: str) -> str:
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def _describe_attachment(item: Attachment) -> JsonObject:
    """Return what a text can say about an attachment: never its bytes."""
    described: JsonObject = {"kind": item.kind, "media_type": item.media_type}
    if item.name:
        described["name"] = item.name
    if item.artifact is not None:
        described["artifact"] = item.artifact.id
        described["bytes"] = item.artifact.size
    else:
        described["bytes"] = len(item.data)
    return described


_ENCODER: Final = msgspec.json.Encoder()
