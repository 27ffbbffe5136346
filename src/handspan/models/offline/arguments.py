"""The arguments of a call: each parameter of the tool's schema is filled from the pieces of the text."""

import functools
import re
from collections.abc import Mapping
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.errors import DefinitionError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.models.offline.match import FILLERS, Clause, KnownTool, TextPiece, plain_name, split_words, word_set

_TYPES: Final = {"integer": "number", "number": "number", "boolean": "json", "array": "json", "object": "json"}
_KINDS: Final = {
    "zone": word_set("timezone tz zone"),
    "url": word_set("url uri href link"),
    "command": word_set("command cmd"),
    "path": word_set("path file filename dir directory folder"),
    "place": word_set("city location place country town"),
    "query": word_set("query search term topic name"),
}
"""Kind of a text parameter → words that its name has."""
_ORDER: Final = ("choice", "number", *_KINDS, "json", "text")
"""What can't be mistaken is filled first, plain text last."""
_BODY: Final = word_set("content text message body")
_PREPOSITIONS: Final = word_set("to in into onto from of at by on for with about")
_COMMAND: Final = (
    r"(?:ls|cat|echo|pwd|git|grep|python3?|date|whoami|df|du|head|tail|wc|curl|ps|\.{0,2}/\S+)\b|.*[|<>;&$*]"
)
_NAME_BESIDE_FILE: Final = r"(?i)\b(?:file|folder|files in)\s+(?:called\s+)?(\w+)|\bmy\s+(\w+)\s+file\b"
_AROUND_A_QUERY: Final = (
    r"(?i)^(?:.*?\b(?:for|about|named|called)\s+)?(?:(?:the|my|a)\s+)*|(?:\s+(?:in|on) (?:my|the) \w+)?[?!.\s]*$"
)
_ADDRESSES: Final = {"bitcoin": "https://api.coinbase.com/v2/prices/BTC-USD/spot"}
"""Addresses that the stand-in knows, so that "fetch the latest Bitcoin price" works."""


@final
class Slot(Struct, frozen=True):
    """One parameter of a tool."""

    name: str
    kind: str
    is_required: bool
    words: frozenset[str]
    choices: tuple[str, ...] = ()
    description: str = ""


@final
class Before(Struct, frozen=True):
    """What "it" can mean: the arguments of the last call, and the text of its result."""

    arguments: Mapping[str, Json] = msgspec.field(default_factory=dict)
    text: str = ""


ANYTHING: Final = Before(text="it")
"""While a plan is made: "it" will mean something."""


def read_slots(tool: KnownTool) -> list[Slot]:
    """The tool's parameters, in the order in which they are filled."""
    properties, required = tool.spec.parameters.get("properties"), tool.spec.parameters.get("required")
    needed = required if isinstance(required, list) else []
    inner = properties.items() if isinstance(properties, dict) else ()
    slots = [_read_slot(name, schema, name in needed) for name, schema in inner]
    return sorted(slots, key=lambda slot: (_ORDER.index(slot.kind), not slot.is_required, not slot.words & _BODY))


def _read_slot(name: str, schema: Json, is_required: bool) -> Slot:
    outer = schema if isinstance(schema, dict) else {}
    forms = outer.get("anyOf")
    used = next((form for form in forms if form != {"type": "null"}), {}) if isinstance(forms, list) else outer
    inner = used if isinstance(used, dict) else {}
    kinds, enum, words = inner.get("type"), inner.get("enum"), frozenset(split_words(name))
    kind = next((one for one in kinds if one != "null"), "") if isinstance(kinds, list) else kinds
    text = next((text for text, said in _KINDS.items() if words & said), "text")
    choices = tuple(value for value in enum if isinstance(value, str)) if isinstance(enum, list) else ()
    told = f"one of {', '.join(choices)}" if choices else str(outer.get("description", ""))[:120].rstrip(". ")
    return Slot(name, "choice" if "enum" in inner else _TYPES.get(str(kind), text), is_required, words, choices, told)


@functools.cache
def known_zones() -> dict[str, str]:
    """City in lower case with `_` for blanks → time zone. The first call reads the disk: not on the event loop."""
    import zoneinfo  # noqa: PLC0415 - 4 ms that only a question about a zone has to pay

    zones = sorted(zoneinfo.available_timezones(), key=lambda zone: ("/" in zone, zone))
    return {name: zone for zone in zones for name in (zone.casefold(), zone.rpartition("/")[2].casefold())}


class Filling:
    """The arguments for one tool, and what speaks against sending them. Each piece of the clause is used once."""

    def __init__(self, tool: KnownTool, clause: Clause, before: Before) -> None:
        self._tool, self._clause, self._before, self._slots = tool, clause, before, read_slots(tool)
        self._free, self.takes_words = list(clause.pieces), False
        """`takes_words`: a parameter got plain words, which may go on in the next part of the request."""
        self.arguments: JsonObject = {}
        self._take_written()
        needed = {*self.arguments, *(slot.name for slot in self._slots if slot.is_required)}
        for slot in self._slots:
            value = None if slot.name in self.arguments else self._value(slot)
            self.arguments |= {} if value is None else {slot.name: value}
        self.missing = [slot for slot in self._slots if slot.is_required and slot.name not in self.arguments]
        if not self.missing and self._check():  # a guess is given up where nothing is required
            self.arguments = {name: value for name, value in self.arguments.items() if name in needed}
        self.problems = [] if self.missing else self._check()
        self.unused = [piece.text for piece in self._free if not self._is_own(piece) and piece.kind != "mark"]
        """Words and literals that are neither the tool's own nor part of an argument."""

    @property
    def lack(self) -> float:
        """How much speaks against the tool: parameters that stay empty, and what it has no use for."""
        return min(len(self.missing), 2) + sum(0.5 if text.isalpha() else 1.5 for text in self.unused[:8])

    def _check(self) -> list[str]:
        try:
            return Validator(self._tool.spec.parameters).problems(self.arguments)
        except DefinitionError as error:
            return [f"its schema can't be used ({error})"]

    def _take_written(self) -> None:
        """Take JSON and each `key=value`. A key that the schema does not have is kept: the validator reports it."""
        slots = {plain_name(slot.name): slot for slot in self._slots}
        pairs = [self._use(piece).partition("=") for piece in self._pieces("pair")]
        for key, value in (*self._clause.given.items(), *((key, value.strip("\"',?!")) for key, _, value in pairs)):
            slot = slots.get(plain_name(key))
            self.arguments[slot.name if slot else key] = _convert(slot, value)

    def _pieces(self, *kinds: str) -> list[TextPiece]:
        return [piece for piece in self._free if piece.kind in kinds]

    def _use(self, *pieces: TextPiece) -> str:
        """Take these pieces; the text of the first."""
        used = {piece.start for piece in pieces}
        self._free = [piece for piece in self._free if piece.start not in used]
        return pieces[0].text if pieces else ""

    def _is_own(self, piece: TextPiece) -> bool:
        """Whether it is a word of the tool or of a parameter's name, or one that says nothing."""
        names = plain_name(self._tool.name), plain_name(self._tool.own_name)
        words = split_words(piece.text)
        is_known = any(self._tool.knows(word) or any(word in slot.words for slot in self._slots) for word in words)
        return piece.kind == "word" and (is_known or piece.text.lower() in FILLERS or plain_name(piece.text) in names)

    def _value(self, slot: Slot) -> Json:
        """The value for one parameter; for a required one also what "it" means."""
        match slot.kind:
            case "choice":
                value: Json = self._choice(slot)
            case "number":
                value = self._number(slot)
            case "url":
                found = self._pieces("url")
                known = next((url for word, url in _ADDRESSES.items() if word in self._clause.counted), None)
                value = self._use(found[0]) if found else known
                self._free = [] if known and not found else self._free
            case "zone" | "place":
                value = self._place(slot)
            case "path":
                value = self._path(slot)
            case "json":
                value = self._items(slot) if slot.is_required else None
            case _:
                value = self._text(slot)
        if value is not None or not slot.is_required or not self._clause.has_pronoun or self._before is ANYTHING:
            return "it" if value is None and slot.is_required and self._clause.has_pronoun else value
        return self._before.arguments.get(slot.name) or (self._before.text if slot.kind == "text" else "") or None

    def _choice(self, slot: Slot) -> Json:
        said = {word: piece for piece in self._free for word in split_words(piece.text)}
        fits = (one for one in slot.choices if split_words(one) and said.keys() >= {*split_words(one)})
        chosen = next(fits, None)
        self._use(*(said[word] for word in split_words(chosen or "")))
        return chosen

    def _number(self, slot: Slot) -> Json:
        """A number beside the parameter's name; any number where one is required."""
        for piece in self._pieces("number"):
            place = self._clause.pieces.index(piece)
            beside = split_words(" ".join(self._clause.words[max(0, place - 2) : place + 2]))
            if slot.is_required or not slot.words.isdisjoint(beside):
                return _convert(slot, self._use(piece))
        return None

    def _place(self, slot: Slot) -> Json:
        """The words after "in" or "for": a city that has a time zone, or any name that is no word of the tool."""
        free, is_zone = self._free, slot.kind == "zone"
        starts = [at + 1 for at, piece in enumerate(free) if piece.text.lower() in ("in", "for", "of", "at")]
        for names in (free[start : start + length] for start in starts for length in (3, 2, 1)):
            said = " ".join(piece.text for piece in names)
            zone = known_zones().get(said.replace(" ", "_").casefold()) if is_zone else None
            is_name = bool(names) and not any(piece.kind != "word" or self._is_own(piece) for piece in names)
            if zone or (is_name and (not is_zone or said.istitle())):
                self._use(*names)
                return zone or said
        return None

    def _path(self, slot: Slot) -> Json:
        """A path; a quoted name; a word beside "file" or "folder"; for a folder the workspace itself."""
        needs_text = any(other.is_required and other.kind in ("query", "text") for other in self._slots)
        words, pieces = self._clause.words, self._clause.pieces
        quoted = [
            one for one in self._pieces("quoted") if not needs_text or words[pieces.index(one) - 1] in _PREPOSITIONS
        ]
        if found := self._pieces("path") or quoted:
            return self._use(found[0])
        named = re.search(_NAME_BESIDE_FILE, self._clause.source)
        if named and (named[2] or named[1].lower() not in FILLERS):
            self._free = [piece for piece in self._free if piece.text not in named.groups()]
            return named[1] or f"{named[2]}.txt"
        is_folder = not self._tool.name_words.isdisjoint(("directory", "folder"))
        return "." if is_folder and slot.is_required and not self._clause.has_pronoun else None

    def _items(self, slot: Slot) -> Json:
        """All that is quoted, or all paths, or all numbers, for a list that is required."""
        found = next((found for kind in ("quoted", "path", "number") if (found := self._pieces(kind))), [])
        self._use(*found)
        return [_convert(slot, one.text) if one.kind == "number" else one.text for one in found] or None

    def _text(self, slot: Slot) -> Json:
        """What is quoted; else the words that are left, where one parameter wants them."""
        is_query, found = slot.kind == "query", self._pieces("quoted", "code")
        if found and (slot.is_required or is_query or slot.words & _BODY):
            return self._use(found[0])
        texts = [other for other in self._slots if other.is_required and other.kind in ("query", "text", "command")]
        is_asked = is_query and not texts and not {"about", "for"}.isdisjoint(self._clause.words)
        words = self._words_after_verb() if texts == [slot] or is_asked else []
        said = self._clause.text[words[0].start : words[-1].end] if words else ""
        if not said or (slot.kind == "command" and not re.match(_COMMAND, said, re.DOTALL)):
            return None
        self._use(*words)
        self.takes_words = True
        return (re.sub(_AROUND_A_QUERY, "", said) if is_query else said) or None

    def _words_after_verb(self) -> list[TextPiece]:
        """The pieces after the tool's own words, up to one that is used: `hello` of `write hello to notes.txt`."""
        pieces, start, kept = self._clause.pieces, 0, ("my", "i", *_PREPOSITIONS)
        free = {piece.start for piece in self._free}
        while start < len(pieces) and (
            pieces[start].text in (":", ",") or (self._is_own(pieces[start]) and pieces[start].text.lower() not in kept)
        ):
            start += 1
        end = next((at for at in range(start, len(pieces)) if pieces[at].start not in free), len(pieces))
        while start < end < len(pieces) and pieces[end - 1].text.lower() in _PREPOSITIONS:
            end -= 1
        found = list(pieces[start:end])
        return [] if all(one.kind in ("path", "url") or one.text.lower() in FILLERS for one in found) else found


def _convert(slot: Slot | None, value: Json) -> Json:
    """The value of `key=value` in the type that the parameter wants, where the text has that form."""
    if slot is None or slot.kind not in ("choice", "number", "json") or not isinstance(value, str):
        return value
    if slot.kind == "choice":
        return next((one for one in slot.choices if one.casefold() == value.casefold()), value)
    try:
        decoded: Json = msgspec.json.decode({"yes": "true", "no": "false"}.get(value.lower(), value))
    except ValueError:
        return list[Json](value.split(",")) if slot.kind == "json" else value
    return decoded
