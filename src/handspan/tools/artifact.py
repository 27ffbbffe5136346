"""What was too large for a message, read on: `read_artifact` (SPEC X3)."""

import asyncio
import binascii
import codecs
from collections.abc import Mapping
from typing import Final

import msgspec

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.tools.artifact_search import Match, search

_DEFAULT_LIMIT: Final = 32 * 1024
_MAX_LIMIT: Final = 60 * 1024
_SAMPLE: Final = 8 * 1024
_AROUND: Final = 512
"""Bytes of the answer that are not content: the envelope, id, sizes, media type."""


class ReadArtifact:
    """Reads a range of an artifact, or finds text in it."""

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
                    "description": "Find this text, in any case, and get the lines that hold it with their places.",
                },
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        timeout=10.0,
        annotations=READ_ONLY,
    )

    def __init__(self, result_limit: int = 64 * 1024) -> None:
        """`result_limit`: what the engine lets through, so that an answer of this tool is never cut itself."""
        self._room = max(result_limit - _AROUND, _AROUND)

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> JsonObject:
        """A range with its place, or the matches of a query."""
        ref = await ctx.artifacts.get(str(arguments["id"]), owner=ctx.who.owner)
        offset = _number(arguments, "offset", 0)
        if offset > ref.size:
            raise ToolError(
                "invalid_arguments", f"offset {offset} is beyond the end of {ref.id!r}, which has {ref.size} bytes."
            )
        is_text = _is_text(await ctx.artifacts.read(ref.id, owner=ctx.who.owner, limit=_SAMPLE))
        if (query := arguments.get("query")) is not None:
            return await self._found(ctx, ref, str(query), offset, is_text=is_text)
        limit = min(max(_number(arguments, "limit", _DEFAULT_LIMIT), 4), _MAX_LIMIT)  # 4: a character fits
        data = await ctx.artifacts.read(ref.id, owner=ctx.who.owner, offset=offset, limit=limit)
        return self._text(ref, offset, data) if is_text else self._binary(ref, offset, data)

    def _text(self, ref: ArtifactRef, offset: int, data: bytes) -> JsonObject:
        """The range as text, cut between characters at both ends."""
        if offset:
            whole = data.lstrip(_INSIDE_A_CHARACTER)
            skipped = len(data) - len(whole)
            data, offset = (whole, offset + skipped) if skipped < 4 else (data, offset)
        at_end = offset + len(data) >= ref.size
        text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, at_end)
        text = _fitting(text, self._room)
        end = offset + len(text.encode("utf-8", "surrogateescape"))
        return _place(ref, offset, end) | {"content": _shown(text)}

    def _binary(self, ref: ArtifactRef, offset: int, data: bytes) -> JsonObject:
        data = data[: self._room * 3 // 4 - 4]
        content = binascii.b2a_base64(data, newline=False).decode()
        return _place(ref, offset, offset + len(data)) | {"encoding": "base64", "content": content}

    async def _found(self, ctx: ToolContext, ref: ArtifactRef, query: str, offset: int, *, is_text: bool) -> JsonObject:
        if not is_text:
            raise ToolError(
                "invalid_arguments",
                f"{ref.id!r} is not text ({ref.media_type}, {ref.size} bytes), so there is nothing to search."
                " Leave 'query' out to get its bytes in base64.",
            )
        data = await ctx.artifacts.read(ref.id, owner=ctx.who.owner)
        found = await asyncio.to_thread(
            search, data, query, offset, room=self._room - len(query.encode("utf-8", "replace"))
        )
        answer: JsonObject = {"id": ref.id, "size": ref.size, "query": query}
        answer["matches"] = [_match(match) for match in found.matches]
        answer["more"] = found.more
        if found.next_offset is not None:
            answer["next_offset"] = found.next_offset
        return answer


_INSIDE_A_CHARACTER: Final = bytes(range(0x80, 0xC0))


def _number(arguments: Mapping[str, Json], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return int(value) if isinstance(value, int | float) else default


def _is_text(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample


def _fitting(text: str, room: int) -> str:
    """The longest beginning, roughly, whose JSON form fits: quotes and control characters grow when written."""
    size = len(msgspec.json.encode(_shown(text)))
    while size > room and len(text) > 1:
        text = text[: max(1, min(len(text) * room // size, len(text) - 1))]
        size = len(msgspec.json.encode(_shown(text)))
    return text


def _shown(text: str) -> str:
    """Text with a mark where bytes were none."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _place(ref: ArtifactRef, offset: int, end: int) -> JsonObject:
    following = end if end < ref.size else None
    media_type = ref.media_type[:100]  # a stranger may have named it
    return {"id": ref.id, "media_type": media_type, "size": ref.size, "offset": offset, "next_offset": following}


def _match(match: Match) -> Json:
    return {"line": match.line, "offset": match.offset, "text": _shown(match.text)}
