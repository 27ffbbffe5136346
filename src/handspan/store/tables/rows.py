"""Turns calls into rows and rows into calls. Also page cursors, which stay valid while rows come and go."""

import math
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.calls import AskingModel, CallRecord, decode_facts
from handspan.core.errors import ErrorCode, ToolError
from handspan.core.results import Attachment, Failure, Success, ToolResult, encode_envelope
from handspan.core.values import Arguments, Json, encode, sanitize

Row: TypeAlias = tuple[Any, ...]
"""A row of a database. Its values have no types."""

ENTRY: Final = "id, owner, session, agent, name, tool, arguments, arguments_form, at, size, asked_by"
"""The columns that a call has from its beginning."""
OUTCOME: Final = "expires_at, duration, waited, result, attachments, true_result, true_attachments"
"""The columns that are written with the result of a call."""
RECORD: Final = f"{ENTRY}, state, is_edited, {OUTCOME}"
"""All columns that a `CallRecord` is made of."""

NOT_DELETED: Final = "session NOT IN (SELECT id FROM sessions WHERE deleted_at IS NOT NULL)"
"""The condition for rows of a session that was not deleted. Those of one that can be restored are hidden with it."""
_LARGEST_PAGE: Final = 1000
_LONGEST_NAME: Final = 200
"""Characters of a name that are stored. Names of tools are shorter. A name that a caller made up may be longer than an
index of PostgreSQL takes, and then the call could not be stored."""
ALL_ROWS: Final = 2**62
"""As a limit: more than any table has."""


class _Envelope(Struct):
    """A stored result: the envelope that models see."""

    status: str
    result: Json = None
    code: ErrorCode = "internal_error"
    message: str = ""
    notice: str = ""


_envelope: Final = msgspec.json.Decoder(_Envelope)
_asking_model: Final = msgspec.json.Decoder(AskingModel)
_attachments: Final = msgspec.json.Decoder(tuple[Attachment, ...])


def entry_values(record: CallRecord) -> Row:
    """Return the values of `ENTRY`."""
    form, arguments = _encode_arguments(record.arguments)
    name = record.name[:_LONGEST_NAME]
    texts = (sanitize(text) for text in (record.id, record.owner, record.session, record.agent, name))
    asked_by = None if record.asked_by is None else encode(record.asked_by)
    return (*texts, encode(record.tool), arguments, form, record.at, record.size, asked_by)


def outcome_values(record: CallRecord, result: ToolResult) -> Row:
    """Return the values of `OUTCOME`."""
    results = (*_encode_result(result), *_encode_result(record.true_result))
    return (record.expires_at, record.duration, record.waited, *results)


def decode_record(row: Row) -> CallRecord:
    """Return the record of a row with the columns of `RECORD`."""
    call_id, owner, session, agent, name, tool, arguments, form, at, size, asked_by, *rest = row
    state, is_edited, expires_at, duration, waited, *results = rest
    return CallRecord(
        id=call_id,
        name=name,
        tool=decode_facts(tool),
        arguments=_decode_arguments(form, arguments),
        owner=owner,
        session=session,
        agent=agent,
        at=at,
        size=size,
        asked_by=None if asked_by is None else _asking_model.decode(asked_by),
        state=state,
        expires_at=expires_at,
        duration=duration,
        waited=waited,
        is_edited=bool(is_edited),
        result=_decode_result(*results[:2]),
        true_result=_decode_result(*results[2:]),
    )


def _decode_result(encoded: bytes | None, attachments: bytes | None) -> ToolResult | UnsetType:
    if encoded is None:
        return UNSET
    found = _envelope.decode(encoded)
    if found.status == "error":
        return Failure(found.code, found.message)
    return Success(found.result, _attachments.decode(attachments) if attachments else (), encoded, found.notice)


def _decode_arguments(form: str, stored: bytes) -> Arguments | bytes | str:
    """Return the arguments as the call had them: an object, text or bytes."""
    match form:
        case "text":
            return stored.decode(errors="surrogatepass")
        case "bytes":
            return stored
        case _:
            arguments: Arguments = msgspec.json.decode(stored)
            return arguments


def _encode_arguments(arguments: Arguments | bytes | str) -> tuple[str, bytes]:
    match arguments:
        case bytes():
            return "bytes", arguments
        case str():
            return "text", arguments.encode(errors="surrogatepass")
        case _:
            return "object", encode(arguments if type(arguments) is dict else dict(arguments))


def _encode_result(result: ToolResult | UnsetType) -> tuple[bytes | None, bytes | None]:
    if isinstance(result, UnsetType):
        return None, None
    attachments = result.attachments if isinstance(result, Success) else ()
    return encode_envelope(result), encode(attachments) if attachments else None


def marks(columns: str) -> str:
    """Return a `?` for each of these columns."""
    return ", ".join("?" * len(columns.split(",")))


def put_row(table: str, key: str, others: str) -> str:
    """Return the statement that adds a row, in place of a row with the same key. `others`: all columns but the key."""
    replaced = ", ".join(f"{column} = excluded.{column}" for column in others.split(", "))
    columns = f"{key}, {others}"
    return f"INSERT INTO {table} ({columns}) VALUES ({marks(columns)}) ON CONFLICT ({key}) DO UPDATE SET {replaced}"


def missing(kind: str, name: str) -> ToolError:
    """Return the error for what the owner does not have: another owner's looks as if it had never existed."""
    text = f"There is no {kind} {name[:60]!r}: it was never made, is not yours, or was deleted."
    return ToolError("file_not_found", text)


def clamp_limit(limit: int) -> int:
    """Return the number of rows for a page: 1 to 1000."""
    return max(1, min(limit, _LARGEST_PAGE))


class PageCursor(NamedTuple):
    """The last row of a page: the time that it is sorted by, and its id."""

    at: float
    id: str

    def __str__(self) -> str:
        return f"{self.at!r}~{self.id}"

    @classmethod
    def parse(cls, text: str | None) -> "PageCursor":
        """Return the cursor in this text, which a client sent back; without a text, the cursor of the first page."""
        if text is None:
            return cls(math.inf, "")
        at, _, row_id = text.partition("~")
        try:
            return cls(float(at), row_id.encode().decode())
        except ValueError:  # UnicodeEncodeError too
            raise ToolError(
                "invalid_arguments", f"{text[:60]!r} is no place in a list: use the `next` of a page."
            ) from None
