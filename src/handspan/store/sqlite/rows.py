"""Calls as rows and back; and texts that any database takes."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.calls import CallRecord, decode_facts
from handspan.core.errors import ErrorCode
from handspan.core.results import Attachment, Failure, Success, ToolResult, encode_envelope
from handspan.core.values import Arguments, Json

Row: TypeAlias = tuple[Any, ...]
"""What sqlite3 gives: it knows no types."""

ENTRY: Final = "id, owner, session, agent, name, tool, arguments, arguments_form, at, size"
"""The columns that a call has from the beginning."""
OUTCOME: Final = "expires_at, duration, result, attachments, true_result, true_attachments"
RECORD: Final = f"{ENTRY}, state, {OUTCOME}"
"""All columns that a `CallRecord` is made of."""


class _Envelope(Struct):
    status: str
    result: Json = None
    code: ErrorCode = "internal_error"
    message: str = ""


_envelope: Final = msgspec.json.Decoder(_Envelope)
_attachments: Final = msgspec.json.Decoder(tuple[Attachment, ...])


def plain(text: str) -> str:
    """The text without what no database takes: halves of characters."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def encode(value: object) -> bytes:
    """The value as JSON; halves of characters become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_plain(msgspec.to_builtins(value)))


def entry(record: CallRecord) -> Row:
    """The values of `ENTRY`."""
    form, arguments = _form(record.arguments)
    texts = (plain(text) for text in (record.id, record.owner, record.session, record.agent, record.name))
    return (*texts, encode(record.tool), arguments, form, record.at, record.size)


def outcome(record: CallRecord, result: ToolResult) -> Row:
    """The values of `OUTCOME`."""
    return (record.expires_at, record.duration, *_result(result), *_result(record.true_result))


def record_of(row: Row) -> CallRecord:
    """The record that a row with the columns of `RECORD` stands for."""
    call_id, owner, session, agent, name, tool, arguments, form, at, size, state, expires_at, duration, *results = row
    return CallRecord(
        id=call_id,
        name=name,
        tool=decode_facts(tool),
        arguments=arguments_of(form, arguments),
        owner=owner,
        session=session,
        agent=agent,
        at=at,
        size=size,
        state=state,
        expires_at=expires_at,
        duration=duration,
        result=result_of(*results[:2]),
        true_result=result_of(*results[2:]),
    )


def result_of(encoded: bytes | None, attachments: bytes | None) -> ToolResult | UnsetType:
    """The result that these columns hold."""
    if encoded is None:
        return UNSET
    found = _envelope.decode(encoded)
    if found.status == "error":
        return Failure(found.code, found.message)
    return Success(found.result, _attachments.decode(attachments) if attachments else (), encoded)


def arguments_of(form: str, stored: bytes) -> Arguments | bytes | str:
    """The arguments, as they were."""
    match form:
        case "text":
            return stored.decode(errors="surrogatepass")
        case "bytes":
            return stored
        case _:
            arguments: Arguments = msgspec.json.decode(stored)
            return arguments


def _form(arguments: Arguments | bytes | str) -> tuple[str, bytes]:
    match arguments:
        case bytes():
            return "bytes", arguments
        case str():
            return "text", arguments.encode(errors="surrogatepass")
        case _:
            return "object", encode(arguments if type(arguments) is dict else dict(arguments))


def _result(result: ToolResult | UnsetType) -> tuple[bytes | None, bytes | None]:
    if isinstance(result, UnsetType):
        return None, None
    attachments = result.attachments if isinstance(result, Success) else ()
    return encode_envelope(result), encode(attachments) if attachments else None


def _plain(value: Json) -> Json:
    match value:
        case str():
            return plain(value)
        case Mapping():
            return {plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
