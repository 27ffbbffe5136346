"""Tool calls that a model printed as text, because its server did not read them for us.

Three forms, and a whole answer of bare JSON:
    <tool_call>{"name": …, "arguments": {…}}</tool_call>      Qwen, Hermes and their kin
    ```json {"name": …, "arguments": {…}} ```                 where nothing but calls comes after it
    [TOOL_CALLS][{"name": …}]  or  [TOOL_CALLS]name{…}        Mistral
Only a call of a tool that was offered counts; everything else stays text.
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


class _Block(Struct, frozen=True):
    """A stretch of text that is one or more calls."""

    start: int
    end: int
    calls: tuple[TextCall, ...]
    is_fence: bool


def split_calls(text: str, names: Collection[str]) -> tuple[str, list[TextCall]]:
    """The text without the calls that stand in it, and these calls."""
    words, calls = _cut_out_calls(text, names)
    return (words.strip() if calls else words), calls


def _cut_out_calls(text: str, names: Collection[str]) -> tuple[str, list[TextCall]]:
    """The same with the spaces around the calls."""
    bare = _calls_in_json(text, names)
    if bare:
        return "", bare
    blocks = list(_accepted(text, list(_blocks(text, names))))
    kept, at = [], 0
    for block in blocks:
        kept.append(text[at : block.start])
        at = block.end
    calls = [call for block in blocks for call in block.calls]
    return "".join([*kept, text[at:]]), calls


def _blocks(text: str, names: Collection[str]) -> Iterator[_Block]:
    for found in _BLOCK.finditer(text):
        if found["mistral"] is not None:
            calls = _mistral_calls(found["mistral"], names)
        else:
            calls = _calls_in_json(found["tagged"] or found["fenced"] or "", names)
        if calls:
            yield _Block(found.start(), found.end(), tuple(calls), found["fenced"] is not None)


def _accepted(text: str, blocks: list[_Block]) -> list[_Block]:
    """The blocks that count: JSON in a fence that text follows is an example, not a call."""
    accepted: list[_Block] = []
    rest = text
    for block in reversed(blocks):
        is_example = block.is_fence and rest[block.end :].strip() != ""
        if not is_example:
            accepted.append(block)
            rest = rest[: block.start]
    return accepted[::-1]


def _calls_in_json(text: str, names: Collection[str]) -> list[TextCall]:
    """The calls that this JSON text is; none unless all of it is calls of offered tools."""
    text = text.strip()
    value = read_json(text) if text[:1] in ("{", "[") else None
    items = value if isinstance(value, list) else [value]
    calls = [_call(item, names) for item in items]
    return [call for call in calls if call] if all(calls) else []


def _call(item: Json, names: Collection[str]) -> TextCall | None:
    if not isinstance(item, dict) or not _KEYS.issuperset(item):
        return None
    name, arguments = item.get("name"), item.get("arguments", item.get("parameters"))
    text = arguments_text(arguments)
    if not isinstance(name, str) or name not in names or not is_json_object(text):
        return None
    return name, text


def _mistral_calls(text: str, names: Collection[str]) -> list[TextCall]:
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
    """Lets streamed text through, but holds back what may turn out to be a call, so that nobody sees its JSON."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""
        self._awaited: str | None = None
        """The closing mark that decides about what is held."""
        self._begun = False

    def feed(self, text: str) -> str:
        """The text that can be shown by now."""
        self._held += text
        if self._awaited is not None and self._awaited not in self._held[-len(text) - len(self._awaited) :]:
            return ""  # still inside: no need to look at all of it again
        shown = []
        while free := self._free():
            shown.append(self._held[:free])
            self._held = self._held[free:]
            self._begun = True
        return "".join(shown)

    def close(self, *, takes_calls: bool) -> str:
        """The text that was held back; without the calls in it, where they count."""
        held, self._held = self._held, ""
        words, calls = _cut_out_calls(held, self._names) if takes_calls else (held, [])
        if not calls:
            return words
        return words.rstrip() if self._begun else words.strip()  # the space behind what was shown belongs to it

    def _free(self) -> int:
        """How many characters of what is held are certainly no part of a call."""
        self._awaited = None
        if not self._begun and self._may_be_all_calls():
            return 0
        opening = _OPENING.search(self._held)
        if opening is None:
            return len(self._held) - _length_of_half_marker(self._held)
        return opening.start() or self._free_of_block(opening[0])

    def _may_be_all_calls(self) -> bool:
        """Whether what is held, the beginning of the answer, may be JSON that is nothing but calls."""
        start = self._held.lstrip()
        return start[:1] in ("", "{") or (start[0] == "[" and start[1:].lstrip()[:1] in ("", "{"))

    def _free_of_block(self, marker: str) -> int:
        """The same where what is held begins with a block."""
        closing = _CLOSINGS.get(marker)
        end = self._held.find(closing, len(marker)) if closing else -1
        if closing is None or end < 0:
            self._awaited = closing
            return 0
        end += len(closing)
        if not list(_blocks(self._held[:end], self._names)):
            return end
        after = self._held[end:].lstrip()
        is_example = (
            marker == "```json" and after != "" and not any(mark.startswith(after[: len(mark)]) for mark in _MARKERS)
        )
        return end if is_example else 0


def _length_of_half_marker(text: str) -> int:
    """How much of the text's end may be the beginning of a marker."""
    longest = max(map(len, _MARKERS)) - 1
    return next(
        (size for size in range(min(longest, len(text)), 0, -1) if any(m.startswith(text[-size:]) for m in _MARKERS)), 0
    )
