"""The result envelope as a type (SPEC X1): what `core.results.envelope` gives, for the contract."""

from typing import TypeAlias

from msgspec import Struct

from handspan.core.errors import ErrorCode, ErrorType
from handspan.core.results import Failure, ToolResult, envelope
from handspan.core.values import Json, JsonObject


class Succeeded(Struct, frozen=True, tag_field="status", tag="success", omit_defaults=True):
    """The call did what it should."""

    result: Json
    attachments: list[JsonObject] = []


class Failed(Struct, frozen=True, tag_field="status", tag="error"):
    """The call did not do what it should."""

    error_type: ErrorType
    code: ErrorCode
    message: str


Envelope: TypeAlias = Succeeded | Failed


def as_envelope(result: ToolResult) -> Envelope:
    """The result as everybody sees it."""
    if isinstance(result, Failure):
        return Failed(result.error_type, result.code, result.message)
    attachments = envelope(result).get("attachments", [])
    return Succeeded(result.value, attachments if isinstance(attachments, list) else [])  # type: ignore[arg-type] # `envelope` makes objects of them
