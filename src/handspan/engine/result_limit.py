"""The size limit of a result (64 KB): a larger one is cut (truncated), an artifact keeps the whole (SPEC X3).

The model sees the head and tail of a text. An object that is large because of long texts keeps its other fields, and
each long text becomes an artifact of its own. Any other value is stored as JSON with one value a line, and the model
sees the first and last items of its lists.
"""

from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.long_text import fit_texts, json_size, whole_text
from handspan.core.results import Failure, Success, succeed
from handspan.core.values import Json, JsonObject

RESULT_LIMIT: Final = 65_536
_MARK_BYTES: Final = 50
"""The most bytes of the mark in the middle of a message that was cut."""
_LONG_TEXT: Final = 2048
"""A text in an object with more characters than this is worth an artifact of its own."""
_SMALLEST: Final = 256
"""Bytes. With less room, nothing useful can be shown of a large value."""
_DEEPEST: Final = 6
"""Levels of nested lists and objects that are cut item by item. Deeper levels would encode their values too often."""
_MAX_COUNTED: Final = 20
"""How many lists of an object are named with their number of items."""


class ResultCutter(Struct, frozen=True):
    """Cuts the result of one call, and keeps the whole result as an artifact for the owner."""

    artifacts: Artifacts
    owner: str
    session: str
    tool: str
    room: int = RESULT_LIMIT
    """Bytes of a cut result, with its envelope."""

    async def limit(self, success: Success) -> Success:
        """Return a result that fits: what the model sees of it, and how to read the rest."""
        room = self.room - len(succeed(None, success.attachments).encoded)
        value = success.value
        if isinstance(value, str):
            cut = whole_text(value, *await self._keep_text("result", value)).render(room)
            return succeed(cut, success.attachments)
        if isinstance(value, dict):
            others = {key: item for key, item in value.items() if not _is_long_text(item)}
            if len(others) < len(value) and (size := json_size(others)) <= room // 2:
                return succeed(await self._cut_texts(value, room - size), success.attachments)
        return succeed(await self._cut_json(value, room), success.attachments)

    async def _cut_texts(self, value: JsonObject, room: int) -> JsonObject:
        """Return the object with its long texts cut."""
        texts = {key: whole_text(item) for key, item in value.items() if isinstance(item, str) and _is_long_text(item)}
        room -= sum(json_size(key) + 2 for key in texts)
        return value | await fit_texts(texts, room, self._keep_text)

    async def _cut_json(self, value: Json, room: int) -> JsonObject:
        """Return a summary of the value: its sizes, its artifact, and a preview that fits."""
        whole = msgspec.json.format(msgspec.json.encode(value), indent=1)
        summary: JsonObject = {"truncated": True, "bytes": len(whole), **_counts(value)}
        artifact, problem = await self._keep(whole, "application/json", "result")
        if artifact:
            summary["artifact"] = artifact
            summary["how_to_read"] = (
                f"The whole result is kept as JSON, one value a line. Call read_artifact with id {artifact!r} and "
                "offset and limit (bytes), or with query to search in it."
            )
        else:
            summary["how_to_read"] = f"The whole result could not be kept ({problem}). Ask for smaller parts."
        summary["preview"] = shrink(value, room - json_size(summary) - len(',"preview":'))
        return summary

    async def _keep_text(self, name: str, text: str) -> tuple[str, str]:
        return await self._keep(text.encode(), "text/plain", name[:60])

    async def _keep(self, data: bytes, media_type: str, name: str) -> tuple[str, str]:
        """Return the id of the new artifact and an empty text; or an empty id and why the data could not be kept."""
        try:
            ref = await self.artifacts.keep(
                data, owner=self.owner, session=self.session, media_type=media_type, name=f"{self.tool} {name}"
            )
        except ToolError as error:
            return "", error.message
        return ref.id, ""


def cut_message(failure: Failure, limit: int) -> Failure:
    """Return a failure whose message fits into `limit` bytes: its head, and its tail, which mostly has the reason."""
    data = failure.message.encode()
    if len(data) <= limit:
        return failure
    half = max(0, limit - _MARK_BYTES) // 2
    head, tail = data[:half].decode(errors="ignore"), data[len(data) - half :].decode(errors="ignore")
    left_out = len(failure.message) - len(head) - len(tail)
    return Failure(failure.code, f"{head} [… {left_out} characters left out …] {tail}")


def shrink(value: Json, room: int, depth: int = 0) -> Json:
    """Return the value with the first and last items of long lists and texts, so that it fits."""
    if json_size(value) <= room:
        return value
    match value:
        case str():
            return whole_text(value).shorten(room)
        case list() if depth < _DEEPEST:
            return _shrink_list(value, room, depth + 1)
        case dict() if depth < _DEEPEST:
            return _shrink_object(value, room, depth + 1)
        case _:  # nested deeply, or a number of very many digits
            return whole_text(msgspec.json.encode(value).decode()).shorten(room)


def _shrink_list(items: list[Json], room: int, depth: int) -> list[Json]:
    room -= _mark_size(items)
    last = _first_fitting(items[::-1], room // 4)
    left = room - sum(map(json_size, last)) - len(last)
    first = _first_fitting(items, left) or [shrink(items[0], room * 3 // 4, depth)]
    left_out = len(items) - len(first) - len(last)
    return [*first, f"[… {left_out} of {len(items)} items left out …]", *last[::-1]] if left_out > 0 else first


def _first_fitting(items: list[Json], room: int) -> list[Json]:
    """Return the first items that fit."""
    found: list[Json] = []
    for item in items:
        room -= json_size(item) + 1
        if room < 0:
            break
        found.append(item)
    return found


def _shrink_object(value: JsonObject, room: int, depth: int) -> JsonObject:
    """Return the object with its small values whole. The large values share the room that is left in equal parts."""
    shrunk: JsonObject = {}
    room -= _mark_size(list(value))
    for place, (key, item) in enumerate(sorted(value.items(), key=lambda pair: json_size(pair[1]))):
        room -= json_size(key) + 2
        share = room // (len(value) - place)
        if share < min(_SMALLEST, json_size(item)):
            break
        shrunk[key] = shrink(item, share, depth)
        room -= json_size(shrunk[key])
    shown: JsonObject = {key: shrunk[key] for key in value if key in shrunk}
    if len(shown) < len(value):
        shown["…"] = f"{len(value) - len(shown)} of {len(value)} keys left out"
    return shown


def _mark_size(items: list[Json] | list[str]) -> int:
    """Return the bytes for the mark that says how many items are left out."""
    return 64 + 2 * len(str(len(items)))


def _is_long_text(value: Json) -> bool:
    return isinstance(value, str) and len(value) > _LONG_TEXT


def _counts(value: Json) -> JsonObject:
    """Return how many items a list, or each list of an object, has; nothing for other values."""
    match value:
        case list():
            return {"items": len(value)}
        case dict():
            lists = [(key, len(inner)) for key, inner in value.items() if isinstance(inner, list)]
            counted: JsonObject = {key[:60]: count for key, count in lists[:_MAX_COUNTED]}
            return {"items": counted} if counted else {}
        case _:
            return {}
