"""Reading a result that was too large for a message, and searching in it: `read_artifact` (SPEC X3)."""

import asyncio
import binascii
import codecs
import io
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.long_text import json_size
from handspan.core.messages import CallResult
from handspan.core.tool import READ_ONLY, ToolSpec, integer, parameters, string
from handspan.core.values import Json, JsonObject
from handspan.tools.result_sources import FROM_ARTIFACT

_DEFAULT_LIMIT: Final = 32 * 1024
_MAX_LIMIT: Final = 60 * 1024
_SAMPLE: Final = 8 * 1024
_OVERHEAD: Final = 512
"""Bytes of the answer that are not content: envelope, id, sizes, media type."""
_MAX_MATCHES: Final = 100
_MATCH_ROOM: Final = 64
"""Bytes of a match in the answer that are not its text: line and offset."""
_LONG_LINE: Final = 400
_SURROUNDINGS: Final = 120
"""Characters that are shown on each side of a match in a long line."""
_STRIDE: Final = 64 * 1024
"""Characters that one step of a search reads. Other threads can run between two steps."""


class FindResult(Protocol):
    """Returns the stored result of a call of this session; None if there is none."""

    def __call__(self, session: str, call_id: str, *, owner: str) -> Awaitable[CallResult | None]: ...


ReadRange: TypeAlias = Callable[[int, int | None], Awaitable[bytes]]
"""Returns `limit` bytes from `offset`, or all after it."""


class ReadArtifact:
    """Reads a range of an artifact, or searches it for a text."""

    spec: Final = ToolSpec(
        name="read_artifact",
        description="Read a part of a result that was too large to be shown whole, or search in it.",
        parameters=parameters(
            "id",
            id=string(
                "The artifact's id, from the result that was cut; or the id of a call whose result was left out."
            ),
            offset=integer("The byte to begin at; 0 by default. Take next_offset to read on.", minimum=0),
            limit=integer(f"How many bytes; {_DEFAULT_LIMIT} by default, at most {_MAX_LIMIT} at a time.", minimum=1),
            query=string(
                "Find this text (upper or lower case); get the lines that have it, with places.",
                minLength=1,
                maxLength=1000,
            ),
        ),
        timeout=10.0,
        annotations=READ_ONLY,
    )
    handling: Final = FROM_ARTIFACT

    def __init__(self, result_limit: int = 64 * 1024, find_result: FindResult | None = None) -> None:
        """`result_limit`: the engine's limit for a result. An answer of this tool always stays below that limit.

        `find_result` finds the stored results of a session (SPEC L1). Without it there are artifacts alone.
        """
        self._max_bytes = max(result_limit - _OVERHEAD, _OVERHEAD)
        self._find_result = find_result

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> JsonObject:
        """Return a range with its offsets, or the matches of a query."""
        ref, read = await self._open(str(arguments["id"]), ctx)
        offset = int(cast(float, arguments.get("offset", 0)))
        if offset > ref.size:
            text = f"offset {offset} is beyond the end of {ref.id!r}, which has {ref.size} bytes."
            raise ToolError("invalid_arguments", text)
        # What was stored as text is text, even with a NUL: a command may write one.
        is_text = ref.media_type == "text/plain" or _is_text(await read(0, _SAMPLE))
        if (query := arguments.get("query")) is not None:
            return await self._search(ref, read, str(query), offset, is_text=is_text)
        limit = min(max(int(cast(float, arguments.get("limit", _DEFAULT_LIMIT))), 4), _MAX_LIMIT)  # 4: any character
        data = await read(offset, limit)
        return self._render_text(ref, offset, data) if is_text else self._render_binary(ref, offset, data)

    async def _open(self, artifact_id: str, ctx: ToolContext) -> tuple[ArtifactRef, ReadRange]:
        """Return the artifact and what reads it; for the id of a call its stored result, as JSON."""
        owner = ctx.who.owner
        try:
            ref = await ctx.artifacts.get(artifact_id, owner=owner)
        except ToolError:
            found = None
            if self._find_result is not None and ctx.session:
                found = await self._find_result(ctx.session, artifact_id, owner=owner)
            if found is None:
                raise
            return _open_result(found)

        async def read(offset: int, limit: int | None) -> bytes:
            return await ctx.artifacts.read(ref.id, owner=owner, offset=offset, limit=limit)

        return ref, read

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

    async def _search(self, ref: ArtifactRef, read: ReadRange, query: str, offset: int, *, is_text: bool) -> JsonObject:
        """Return the lines of the artifact that have this text, as many as fit, and where to go on."""
        if not is_text:
            raise ToolError(
                "invalid_arguments",
                f"{ref.id!r} is not text ({ref.media_type}, {ref.size} bytes), so there is nothing to search."
                " Leave 'query' out to get its bytes in base64.",
            )
        data = await read(0, None)
        found = await asyncio.to_thread(
            search_text, data, query, offset, max_bytes=self._max_bytes - len(query.encode("utf-8", "replace"))
        )
        answer: JsonObject = {"id": ref.id, "size": ref.size, "query": query}
        answer["matches"] = [
            {"line": match.line, "offset": match.offset, "text": _replace_invalid(match.text)}
            for match in found.matches
        ]
        answer["more"] = found.more
        if found.next_offset is not None:
            answer["next_offset"] = found.next_offset
        return answer


_INSIDE_A_CHARACTER: Final = bytes(range(0x80, 0xC0))
"""The bytes that no character begins with in UTF-8."""


def _open_result(result: CallResult) -> tuple[ArtifactRef, ReadRange]:
    """Return a stored result as if it were an artifact. Its lists and objects are laid out in lines, to search them."""
    data = msgspec.json.format(result.envelope.encode(), indent=1)

    async def read(offset: int, limit: int | None) -> bytes:
        return data[offset : None if limit is None else offset + limit]

    return ArtifactRef(result.call_id, len(data), "application/json"), read


def _is_text(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample


def _cut_to_fit(text: str, max_bytes: int) -> str:
    """Return the beginning of the text, so that its JSON form fits. JSON makes quotes and control characters longer."""
    while (size := json_size(_replace_invalid(text))) > max_bytes and len(text) > 1:
        text = text[: max(1, min(len(text) * max_bytes // size, len(text) - 1))]
    return text


def _replace_invalid(text: str) -> str:
    """Return the text with replacement characters for invalid bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _range_fields(ref: ArtifactRef, offset: int, end: int) -> JsonObject:
    following = end if end < ref.size else None
    media_type = ref.media_type[:100]  # the client that stored the artifact chose the type
    return {"id": ref.id, "media_type": media_type, "size": ref.size, "offset": offset, "next_offset": following}


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
        max_bytes -= json_size(match.text.encode("utf-8", "replace").decode()) + _MATCH_ROOM
        if len(found) == _MAX_MATCHES or (found and max_bytes < 0):
            return SearchMatches(found, 1 + sum(1 for _ in matches), match.offset)
        found.append(match)
    return SearchMatches(found, 0, None)


def _find_matches(data: bytes, pattern: re.Pattern[str], length: int, offset: int) -> Iterator[Match]:
    """Yield the lines that match, from this offset on. Of a very long line, only the text around each match."""
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
