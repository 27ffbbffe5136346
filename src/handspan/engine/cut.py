"""Cuts results that are too large for a model: head and tail stay, an artifact holds the whole (SPEC X3)."""

from typing import Final

import msgspec

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, succeed
from handspan.core.values import Json, JsonObject

RESULT_LIMIT: Final = 65_536
_HEAD: Final = 4096
_TAIL: Final = 2048


async def cut_result(success: Success, artifacts: Artifacts, owner: str, session: str, tool: str) -> Success:
    """Return a result that fits: its size, its head and tail, and how to read the rest."""
    value = success.value
    is_text = isinstance(value, str)
    whole = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    summary: JsonObject = {"truncated": True, "bytes": len(whole), **_counts(value)}
    try:
        media_type = "text/plain" if is_text else "application/json"
        ref = await artifacts.keep(whole, owner=owner, session=session, media_type=media_type, name=f"{tool} result")
        summary["artifact"] = ref.id
        summary["how_to_read"] = (
            f"The whole result is kept. Call read_artifact with id {ref.id!r} and offset and limit (bytes), "
            "or with query to search in it."
        )
    except ToolError as error:
        summary["how_to_read"] = f"The whole result could not be kept ({error.message}). Ask for less at once."
    summary["head"] = whole[:_HEAD].decode("utf-8", "ignore")
    summary["tail"] = whole[-_TAIL:].decode("utf-8", "ignore")
    return succeed(summary, success.attachments)


def cut_message(failure: Failure, limit: int) -> Failure:
    """Return a failure whose message fits: its head, and its tail, which mostly has the reason."""
    message, half = failure.message, limit // 2
    if len(message) <= limit:
        return failure
    left_out = len(message) - 2 * half
    return Failure(failure.code, f"{message[:half]} [… {left_out} characters left out …] {message[-half:]}")


def _counts(value: Json) -> JsonObject:
    """Return how many items or lines the value has, where that says more than bytes."""
    match value:
        case list():
            return {"items": len(value)}
        case dict():
            lists: JsonObject = {
                key[:60]: len(inner) for key, inner in list(value.items())[:50] if isinstance(inner, list)
            }
            return {"items": lists} if lists else {}
        case str():
            return {"lines": value.count("\n") + 1}
        case _:
            return {}
