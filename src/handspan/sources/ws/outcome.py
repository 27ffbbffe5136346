"""What a client's answer means for the call: a success with its attachments, or an error (ws.md 5)."""

import binascii
from base64 import b64decode
from typing import Final

import msgspec

from handspan.core.artifacts import Artifacts
from handspan.core.context import ToolContext
from handspan.core.errors import ERROR_TYPES, ErrorCode, ToolError
from handspan.core.results import Attachment, Success
from handspan.core.values import Json, round_seconds, strip_invisible
from handspan.sources.ws.calls import IdleTimeout, LostCall, Outcome
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame

_CODES_OF_CLIENTS: Final[frozenset[str]] = frozenset(
    (
        "permission_denied",
        "permission_denied_forever",
        "auth_required",
        "invalid_arguments",
        "tool_not_found",
        "timeout",
        "rate_limited",
        "busy",
        "cancelled",
        "file_not_found",
        "network_error",
        "unknown_outcome",
        "execution_failed",
        "internal_error",
    )
)
"""The error codes that a client may use (ws.md 5.5). Any other code becomes `execution_failed`."""


async def read_outcome(answer: Outcome, name: str, ctx: ToolContext) -> Success:
    """Return the success with its attachments. Raises `ToolError` for every kind of failure."""
    match answer:
        case ResultFrame(success=True, output=output, parts=parts):
            return Success(output, tuple([await attachment(part, ctx.artifacts, ctx.who.owner) for part in parts]))
        case ResultFrame(output=output, error=error):
            raise ToolError("execution_failed", _readable(error) or _readable(output) or f"Tool {name!r} failed.")
        case FailureFrame(error=error, code=code, resolution_hint=hint):
            text = _readable(error) or f"Tool {name!r} failed and did not say why."
            raise ToolError(code_of_client(code), f"{text} — {_readable(hint)}" if hint else text)
        case IdleTimeout(seconds=seconds):
            text = f"Tool {name!r} timed out: its client gave no sign of life for {round_seconds(seconds)}."
            raise ToolError("timeout", text)
        case LostCall(was_sent=True, why=why):
            text = f"{why} after it was asked to run {name!r}: its outcome is unknown."
            raise ToolError("unknown_outcome", f"{text} Look before you call it again.")
        case LostCall(why=why):
            raise ToolError("disconnected", f"{why} before it was asked to run {name!r}: it is safe to call it again.")


def code_of_client(code: Json) -> ErrorCode:
    """Return the error code that a client sent, if a client may use it; else `execution_failed`."""
    return next((one for one in ERROR_TYPES if one == code and one in _CODES_OF_CLIENTS), "execution_failed")


async def attachment(part: MediaPart, artifacts: Artifacts, owner: str) -> Attachment:
    """Return the attachment, from the frame or its upload. Raises `ToolError` when it is not base64 or not stored."""
    if part.artifact:
        ref = await artifacts.get(part.artifact, owner=owner)
        return Attachment(part.kind, part.media_type, artifact=ref, name=part.name)
    try:
        return Attachment(part.kind, part.media_type, b64decode(part.data, validate=True), name=part.name)
    except (binascii.Error, ValueError):
        raise ToolError("execution_failed", "The client's answer has a part that is not base64.") from None


def _readable(value: Json) -> str:
    """Return the value as text without invisible characters; a value that is no text as JSON."""
    text = value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
    return strip_invisible(text)
