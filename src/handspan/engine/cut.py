"""Results that are too large for a model: kept whole as an artifact, shown by head and tail (SPEC X3)."""

from typing import Final

import msgspec

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, succeed
from handspan.core.values import Json, JsonObject

RESULT_LIMIT: Final = 65_536
_HEAD: Final = 4096
_TAIL: Final = 2048


async def cut(success: Success, artifacts: Artifacts, owner: str, session: str, tool: str) -> Success:
    """A result that fits: what it is, how large, its head and tail, and how to read on."""
    value = success.value
    is_text = isinstance(value, str)
    whole = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    shown: JsonObject = {"truncated": True, "bytes": len(whole), **_counts(value)}
    try:
        media_type = "text/plain" if is_text else "application/json"
        ref = await artifacts.keep(whole, owner=owner, session=session, media_type=media_type, name=f"{tool} result")
        shown["artifact"] = ref.id
        shown["how_to_read"] = (
            f"The whole result is kept. Call read_artifact with id {ref.id!r} and offset and limit (bytes), "
            "or with query to search in it."
        )
    except ToolError as error:
        shown["how_to_read"] = f"The whole result could not be kept ({error.message}). Ask for less at once."
    shown["head"] = whole[:_HEAD].decode("utf-8", "ignore")
    shown["tail"] = whole[-_TAIL:].decode("utf-8", "ignore")
    return succeed(shown, success.attachments)


def clip(failure: Failure, limit: int) -> Failure:
    """A failure whose message fits: its head and its tail, where the reason mostly stands."""
    message, half = failure.message, limit // 2
    if len(message) <= limit:
        return failure
    left_out = len(message) - 2 * half
    return Failure(failure.code, f"{message[:half]} [… {left_out} characters left out …] {message[-half:]}")


def _counts(value: Json) -> JsonObject:
    """How many items there are, where that says more than bytes."""
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
