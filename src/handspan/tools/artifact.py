"""Reading a result that was too large for a message, and searching in it: `read_artifact` (SPEC X3)."""

import asyncio
import binascii
import codecs
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.tools.result_sources import FROM_ARTIFACT

_DEFAULT_LIMIT: Final = 32 * 1024
_MAX_LIMIT: Final = 60 * 1024
_SAMPLE: Final = 8 * 1024
_OVERHEAD: Final = 512
"""Bytes of the answer that are not content: envelope, id, sizes, media type."""
_MAX_MATCHES: Final = 100
_LONG_LINE: Final = 400
_SURROUNDINGS: Final = 120
"""Characters that are shown on each side of a match in a long line."""
_STRIDE: Final = 64 * 1024
"""Characters that one step of a search reads. Other threads can run between two steps."""


class ReadArtifact:
    """Reads a range of an artifact, or searches it for a text."""

    spec: Final = ToolSpec(
        name="read_artifact",
        description="Read a part of a result that was too large to be shown whole, or search in it.",
        parameters={
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The artifact's id, from the result that was cut."},
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The byte to begin at; 0 by default. Take next_offset to read on.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many bytes; {_DEFAULT_LIMIT} by default, at most {_MAX_LIMIT} at a time.",
                },
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "Find this text (upper or lower case); get the lines that have it, with places.",
                },
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        timeout=10.0,
        annotations=READ_ONLY,
    )
    handling: Final = FROM_ARTIFACT

    def __init__(self, result_limit: int = 64 * 1024) -> None:
        """`result_limit`: the engine's limit for a result. An answer of this tool always stays below that limit."""
        self._max_bytes = max(result_limit - _OVERHEAD, _OVERHEAD)

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> JsonObject:
        """Return a range with its offsets, or the matches of a query."""
        ref = await ctx.artifacts.get(str(arguments["id"]), owner=ctx.who.owner)
        offset = _number(arguments, "offset", 0)
        if offset > ref.size:
            raise ToolError(
                "invalid_arguments", f"offset {offset} is beyond the end of {ref.id!r}, which has {ref.size} bytes."
            )
        # What was stored as text is text, even with a NUL: a command may write one.
        is_text = ref.media_type == "text/plain" or _is_text(
            await ctx.artifacts.read(ref.id, owner=ctx.who.owner, limit=_SAMPLE)
        )
        if (query := arguments.get("query")) is not None:
            return await self._search(ctx, ref, str(query), offset, is_text=is_text)
        limit = min(max(_number(arguments, "limit", _DEFAULT_LIMIT), 4), _MAX_LIMIT)  # 4: any character fits
        data = await ctx.artifacts.read(ref.id, owner=ctx.who.owner, offset=offset, limit=limit)
        return self._render_text(ref, offset, data) if is_text else self._render_binary(ref, offset, data)

    def _render_text(self, ref: ArtifactRef, offset: int, data: bytes) -> JsonObject:
        """Return the range as text. The text begins and ends between two characters."""
        if offset:
            whole = data.lstrip(_INSIDE_A_CHARACTER)
            skipped = len(data) - len(whole)
            data, offset = (whole, offset + skipped) if skipped < 4 else (data, offset)
        at_end = offset + len(data) >= ref.size
        text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, at_end)
        text = _cut_to_fit(text, self._max_bytes)
        end = offset + len(text.encode("utf-8", "surrogateescape"))
        return _range_fields(ref, offset, end) | {"content": _replace_invalid(text)}

    def _render_binary(self, ref: ArtifactRef, offset: int, data: bytes) -> JsonObject:
        data = data[: self._max_bytes * 3 // 4 - 4]
        content = binascii.b2a_base64(data, newline=False).decode()
        return _range_fields(ref, offset, offset + len(data)) | {"encoding": "base64", "content": content}

    async def _search(
        self, ctx: ToolContext, ref: ArtifactRef, query: str, offset: int, *, is_text: bool
    ) -> JsonObject:
        if not is_text:
            raise ToolError(
                "invalid_arguments",
                f"{ref.id!r} is not text ({ref.media_type}, {ref.size} bytes), so there is nothing to search."
                " Leave 'query' out to get its bytes in base64.",
            )
        data = await ctx.artifacts.read(ref.id, owner=ctx.who.owner)
        found = await asyncio.to_thread(
            search_text, data, query, offset, max_bytes=self._max_bytes - len(query.encode("utf-8", "replace"))
        )
        answer: JsonObject = {"id": ref.id, "size": ref.size, "query": query}
        answer["matches"] = [_render_match(match) for match in found.matches]
        answer["more"] = found.more
        if found.next_offset is not None:
            answer["next_offset"] = found.next_offset
        return answer


_INSIDE_A_CHARACTER: Final = bytes(range(0x80, 0xC0))
"""The bytes that no character begins with in UTF-8."""


def _number(arguments: Mapping[str, Json], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return int(value) if isinstance(value, int | float) else default


def _is_text(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample


def _cut_to_fit(text: str, max_bytes: int) -> str:
    """Return the beginning of the text, so that its JSON form fits. JSON makes quotes and control characters longer."""
    size = len(msgspec.json.encode(_replace_invalid(text)))
    while size > max_bytes and len(text) > 1:
        text = text[: max(1, min(len(text) * max_bytes // size, len(text) - 1))]
        size = len(msgspec.json.encode(_replace_invalid(text)))
    return text


def _replace_invalid(text: str) -> str:
    """Return the text with replacement characters for invalid bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _range_fields(ref: ArtifactRef, offset: int, end: int) -> JsonObject:
    following = end if end < ref.size else None
    media_type = ref.media_type[:100]  # the client that stored the artifact chose the type
    return {"id": ref.id, "media_type": media_type, "size": ref.size, "offset": offset, "next_offset": following}


def _render_match(match: "Match") -> Json:
    return {"line": match.line, "offset": match.offset, "text": _replace_invalid(match.text)}


class Match(Struct, frozen=True):
    """A line that contains the query; of a long line only the text around the query."""

    line: int
    """The first line is 1."""
    offset: int
    """The byte of the artifact where `text` begins."""
    text: str


class SearchMatches(Struct, frozen=True):
    """The result of a search."""

    matches: list[Match]
    more: int
    """The number of further matches."""
    next_offset: int | None
    """The offset of the next match; None when there is none."""


def search_text(data: bytes, query: str, offset: int = 0, *, max_bytes: int) -> SearchMatches:
    """Return the first matches from `offset` on that fit into `max_bytes`, and the number of the others."""
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    matches = _find_matches(data, pattern, len(query), offset)
    found: list[Match] = []
    for match in matches:
        max_bytes -= _encoded_size(match)
        if len(found) == _MAX_MATCHES or (found and max_bytes < 0):
            return SearchMatches(found, 1 + sum(1 for _ in matches), match.offset)
        found.append(match)
    return SearchMatches(found, 0, None)


def _encoded_size(match: Match) -> int:
    """Return the bytes of a match in an answer, with its line and offset."""
    return len(msgspec.json.encode(match.text.encode("utf-8", "replace").decode())) + 64


def _find_matches(data: bytes, pattern: re.Pattern[str], length: int, offset: int) -> Iterator[Match]:
    lines = io.BytesIO(data)
    lines.seek(offset)
    at = offset
    for number, raw in enumerate(lines, data.count(b"\n", 0, offset) + 1):
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if len(line) > _LONG_LINE:
            yield from _find_in_long_line(line, pattern, length, number, at=at)
        elif pattern.search(line):
            yield Match(number, at, line)
        at += len(raw)


def _find_in_long_line(line: str, pattern: re.Pattern[str], length: int, number: int, at: int) -> Iterator[Match]:
    """Yield each match with the text around it. A match inside of a text that was yielded before is skipped.

    `at`: where the line begins, in bytes. `length`: the length of a match, so that a match across two steps is found.
    """
    position = seen = counted = 0
    while position < len(line):
        hit = pattern.search(line, position, position + _STRIDE + length)
        if hit is None:
            position += _STRIDE
            continue
        begin, seen = max(hit.start() - _SURROUNDINGS, seen), hit.end() + _SURROUNDINGS
        at += len(line[counted:begin].encode("utf-8", "surrogateescape"))
        yield Match(number, at, line[begin:seen])
        position, counted = seen, begin
