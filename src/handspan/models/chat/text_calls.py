"""Finds tool calls that a model printed as text, because its server does not turn them into calls.

There are three forms, and an answer that is nothing but JSON:
    <tool_call>{"name": …, "arguments": {…}}</tool_call>      Qwen, Hermes and their kin
    ```json {"name": …, "arguments": {…}} ```                 where nothing but calls comes after it
    [TOOL_CALLS][{"name": …}]  or  [TOOL_CALLS]name{…}        Mistral
Only calls of offered tools count. Everything else stays text.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.core.values import Json
from handspan.models.json_values import arguments_text, encode_json, is_json_object, read_json

TextCall: TypeAlias = tuple[str, str]
"""Name and arguments."""

_MARKERS: Final = ("<tool_call>", "[TOOL_CALLS]", "```json")
_OPENING: Final = re.compile("|".join(map(re.escape, _MARKERS)))
_CLOSINGS: Final = {"<tool_call>": "</tool_call>", "```json": "```"}
_BLOCK: Final = re.compile(
    r"<tool_call>(?P<tagged>.*?)(?:</tool_call>|\Z)"
    r"|```json\b(?P<fenced>.*?)```"
    r"|\[TOOL_CALLS\](?P<mistral>.*)\Z",
    re.DOTALL,
)
_MISTRAL_CALL: Final = re.compile(
    r"\s*(?:\[TOOL_CALLS\])?\s*(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\w*)?\s*(?:\[ARGS\])?\s*(?=\{)"
)
_KEYS: Final = frozenset({"name", "arguments", "parameters", "id", "type"})


class _CallBlock(Struct, frozen=True):
    """A range of the text that holds one or more calls."""

    start: int
    end: int
    calls: tuple[TextCall, ...]
    is_fence: bool


def split_calls(text: str, names: Collection[str]) -> tuple[str, list[TextCall]]:
    """Return the text without the calls in it, and these calls."""
    words, calls = _cut_out_calls(text, names)
    return (words.strip() if calls else words), calls


def _cut_out_calls(text: str, names: Collection[str]) -> tuple[str, list[TextCall]]:
    """Return the same as `split_calls`, but do not strip the text at its two ends."""
    bare = _calls_in_json(text, names)
    if bare:
        return "", bare
    blocks = list(_accepted_blocks(text, list(_blocks(text, names))))
    kept, at = [], 0
    for block in blocks:
        kept.append(text[at : block.start])
        at = block.end
    calls = [call for block in blocks for call in block.calls]
    return "".join([*kept, text[at:]]), calls


def _blocks(text: str, names: Collection[str]) -> Iterator[_CallBlock]:
    """Yield each block of the text that holds calls of offered tools."""
    for found in _BLOCK.finditer(text):
        if found["mistral"] is not None:
            calls = _mistral_calls(found["mistral"], names)
        else:
            calls = _calls_in_json(found["tagged"] or found["fenced"] or "", names)
        if calls:
            yield _CallBlock(found.start(), found.end(), tuple(calls), found["fenced"] is not None)


def _accepted_blocks(text: str, blocks: list[_CallBlock]) -> list[_CallBlock]:
    """Return the blocks that count. A fenced block with text after it is an example, not a call."""
    accepted: list[_CallBlock] = []
    rest = text
    for block in reversed(blocks):
        is_example = block.is_fence and rest[block.end :].strip() != ""
        if not is_example:
            accepted.append(block)
            rest = rest[: block.start]
    return accepted[::-1]


def _calls_in_json(text: str, names: Collection[str]) -> list[TextCall]:
    """Return the calls in this JSON text; none unless all of it is calls of offered tools."""
    text = text.strip()
    value = read_json(text) if text[:1] in ("{", "[") else None
    items = value if isinstance(value, list) else [value]
    calls = [_call(item, names) for item in items]
    return [call for call in calls if call] if all(calls) else []


def _call(item: Json, names: Collection[str]) -> TextCall | None:
    """Return the call that this JSON object is; None if it is no call of an offered tool."""
    if not isinstance(item, dict) or not _KEYS.issuperset(item):
        return None
    name, arguments = item.get("name"), item.get("arguments", item.get("parameters"))
    text = arguments_text(arguments)
    if not isinstance(name, str) or name not in names or not is_json_object(text):
        return None
    return name, text


def _mistral_calls(text: str, names: Collection[str]) -> list[TextCall]:
    """Return the calls after `[TOOL_CALLS]`; none unless all of the text is calls of offered tools."""
    if text.lstrip().startswith("["):
        return _calls_in_json(text, names)
    calls: list[TextCall] = []
    at = 0
    while text[at:].strip():
        head = _MISTRAL_CALL.match(text, at)
        try:
            value, at = json.JSONDecoder().raw_decode(text, head.end()) if head else (None, 0)
        except (ValueError, RecursionError):
            return []
        if head is None or head["name"] not in names:
            return []
        calls.append((head["name"], encode_json(value).decode()))
    return calls


class TextCallFilter:
    """Passes streamed text on, but holds back text that may become a call, so that a person never sees its JSON."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._closing: str | None = None
        """The closing mark that ends the block in the held text."""
        self._has_shown = False

    def feed(self, text: str) -> str:
        """Return the text that can be shown now."""
        self._held += text
        if self._closing is not None and self._closing not in self._held[-len(text) - len(self._closing) :]:
            return ""  # still inside the block: no need to search all of it again
        visible = []
        while size := self._safe_length():
            visible.append(self._held[:size])
            self._held = self._held[size:]
            self._has_shown = True
        return "".join(visible)

    def close(self, *, takes_calls: bool) -> str:
        """Return the text that was held back; with `takes_calls`, without the calls in it."""
        held, self._held = self._held, ""
        words, calls = _cut_out_calls(held, self._names) if takes_calls else (held, [])
        if not calls:
            return words
        return words.rstrip() if self._has_shown else words.strip()  # the space after the visible text belongs to it

    def _safe_length(self) -> int:
        """Return how many characters at the start of the held text are certainly no part of a call."""
        self._closing = None
        if not self._has_shown and self._may_be_bare_calls():
            return 0
        opening = _OPENING.search(self._held)
        if opening is None:
            return len(self._held) - _half_marker_length(self._held)
        return opening.start() or self._safe_length_of_block(opening[0])

    def _may_be_bare_calls(self) -> bool:
        """Return whether the held text, the start of the answer, may become JSON that is nothing but calls."""
        start = self._held.lstrip()
        return start[:1] in ("", "{") or (start[0] == "[" and start[1:].lstrip()[:1] in ("", "{"))

    def _safe_length_of_block(self, marker: str) -> int:
        """Return how much of held text that begins with a block is certainly no call: 0 while it may be one."""
        closing = _CLOSINGS.get(marker)
        end = self._held.find(closing, len(marker)) if closing else -1
        if closing is None or end < 0:
            self._closing = closing
            return 0
        end += len(closing)
        if not list(_blocks(self._held[:end], self._names)):
            return end
        after = self._held[end:].lstrip()
        # Other text follows, and no other block: the JSON was an example for the person.
        is_example = (
            marker == "```json" and after != "" and not any(mark.startswith(after[: len(mark)]) for mark in _MARKERS)
        )
        return end if is_example else 0


def _half_marker_length(text: str) -> int:
    """Return how many characters at the end of the text may begin a marker."""
    longest = max(map(len, _MARKERS)) - 1
    return next(
        (size for size in range(min(longest, len(text)), 0, -1) if any(m.startswith(text[-size:]) for m in _MARKERS)), 0
    )
