"""The arguments of a call: each parameter of the tool's schema is filled from the pieces of the text."""

import functools
import re
from collections.abc import Mapping
from itertools import dropwhile, takewhile
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from handspan.core.errors import DefinitionError
from handspan.core.late_imports import zoneinfo
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list, json_object, parse_json
from handspan.models.offline.match import (
    FILLERS,
    Clause,
    KnownTool,
    TextPiece,
    plain_name,
    split_words,
    unquote,
    word_set,
)

_TYPES: Final = {"integer": "number", "number": "number", "boolean": "json", "array": "json", "object": "json"}
_KINDS: Final = {  # kind of a text parameter → words that its name has
    "zone": word_set("timezone tz zone"),
    "url": word_set("url uri href link"),
    "command": word_set("command cmd"),
    "path": word_set("path file filename dir directory folder"),
    "place": word_set("city location place country town"),
    "query": word_set("query search term topic name"),
}
_ORDER: Final = ("choice", "number", *_KINDS, "json", "text")  # plain text last
_BODY: Final = word_set("content text message body")
_PREPOSITIONS: Final = word_set("to in into onto from of at by on for with about")
_COMMAND: Final = r"(?:ls|cat|echo|pwd|git|grep|python3?|date|whoami|head|tail|wc|curl|ps|\.{0,2}/\S+)\b|.*[|<>;&$*]"
_NAME_BESIDE_FILE: Final = (
    r"(?i)\b(?:file|folder|files in)\s+(?:called\s+)?(?P<behind>\w+)|\bmy\s+(?P<before>\w+)\s+file\b"
)
_QUERY_FRAME: Final = (
    r"(?i)^(?:.*?\b(?:for|about|called) +)?(?:(?:the|my|a) +)*|(?: +(?:in|on) (?:my|the) \w+)?[?!.\s]*$"
)
_ADDRESSES: Final = {"bitcoin": "https://api.coinbase.com/v2/prices/BTC-USD/spot"}  # "fetch the latest Bitcoin price"


class Slot(Struct, frozen=True):
    """One parameter of a tool."""

    name: str
    kind: str
    """One of `_ORDER`."""
    is_required: bool
    words: frozenset[str]
    choices: tuple[str, ...] = ()
    description: str = ""


class LastCall(Struct, frozen=True):
    """What "it" can mean: the arguments of the last call, and the text of its result."""

    arguments: Mapping[str, Json] = msgspec.field(default_factory=dict)
    text: str = ""


def read_slots(tool: KnownTool) -> list[Slot]:
    """Return the tool's parameters in the order in which they are filled."""
    properties, needed = tool.spec.parameters.get("properties"), json_list(tool.spec.parameters.get("required"))
    slots = [_read_slot(name, schema, is_required=name in needed) for name, schema in json_object(properties).items()]
    return sorted(slots, key=lambda slot: (_ORDER.index(slot.kind), not slot.is_required, not slot.words & _BODY))


def _read_slot(name: str, schema: Json, *, is_required: bool) -> Slot:
    """Return one parameter. Its kind is that of its schema; a text has the kind that its name tells, such as `url`."""
    outer = json_object(schema)
    forms = outer.get("anyOf")
    used = next((form for form in forms if form != {"type": "null"}), {}) if isinstance(forms, list) else outer
    inner = json_object(used)
    kinds, enum, words = inner.get("type"), inner.get("enum"), frozenset(split_words(name))
    kind = next((one for one in kinds if one != "null"), "") if isinstance(kinds, list) else kinds
    text = next((text for text, known in _KINDS.items() if words & known), "text")
    # A tuple made from a list, as `Clause.words`.
    choices = tuple([value for value in json_list(enum) if isinstance(value, str)])
    hint = f"one of {', '.join(choices)}" if choices else str(outer.get("description", ""))[:120].rstrip(". ")
    shown_kind = "choice" if "enum" in inner else _TYPES.get(str(kind), text)
    return Slot(name, shown_kind, is_required, words, choices=choices, description=hint)


@functools.cache
def known_zones() -> dict[str, str]:
    """Return time zones by city, in lower case with `_` for blanks. The first call reads the disk: use a thread."""
    zones = sorted(zoneinfo.available_timezones(), key=lambda zone: ("/" in zone, zone))
    return {name: zone for zone in zones for name in (zone.casefold(), zone.rpartition("/")[2].casefold())}


class FilledCall:
    """The arguments for one tool, and the reasons against the call. Each piece of the clause is used once."""

    def __init__(self, tool: KnownTool, clause: Clause, last: LastCall | None = None) -> None:
        self._tool, self._clause, self._last, self._slots = tool, clause, last, read_slots(tool)
        self._free = list(clause.pieces)
        """The pieces that no argument has taken yet."""
        self.takes_words = False  # a parameter got plain words, which may go on in the next part of the request
        self.arguments = self._take_written()
        for slot in self._slots:
            value = None if slot.name in self.arguments else self._find_value(slot)
            self.arguments |= {} if value is None else {slot.name: value}
        self.missing = [slot for slot in self._slots if slot.is_required and slot.name not in self.arguments]
        self.problems = [] if self.missing else self._check()
        self.unused = [piece.text for piece in self._free if not self._is_own(piece) and piece.kind != "mark"]
        """Pieces that are neither words of the tool nor part of an argument."""
        self.left = [piece.text for piece in self._free if piece.text not in (",", ";", ".", "?", "!", "\n")]
        """Pieces that are not part of an argument."""
        self.lack = min(len(self.missing), 2) + sum(0.5 if text.isalpha() else 1.5 for text in self.unused[:8])
        """How far the call is from complete: points for missing parameters and unused pieces."""

    def _check(self) -> list[str]:
        try:
            return Validator(self._tool.spec.parameters).problems(self.arguments)
        except DefinitionError as error:
            return [f"its schema can't be used ({error})"]

    def _take_written(self) -> JsonObject:
        """Return the arguments that are JSON or `key=value`. Unknown keys stay in: the validator reports them."""
        slots = {plain_name(slot.name): slot for slot in self._slots}
        pairs = [self._use(piece).partition("=") for piece in self._free_of("pair")]
        written = self._clause.given | {key: _read_written(value) for key, _, value in pairs}
        keyed = ((slots.get(plain_name(key)), key, value) for key, value in written.items())
        return {slot.name if slot else key: _convert(slot, value) for slot, key, value in keyed}

    def _free_of(self, *kinds: str) -> list[TextPiece]:
        """Return the pieces of these kinds that no argument has taken yet."""
        return [piece for piece in self._free if piece.kind in kinds]

    def _use(self, *pieces: TextPiece) -> str:
        """Mark these pieces as used. Return the text of the first."""
        used = {piece.start for piece in pieces}
        self._free = [piece for piece in self._free if piece.start not in used]
        return pieces[0].text if pieces else ""

    def _is_own(self, piece: TextPiece) -> bool:
        """Whether the piece is a word of the tool or of a parameter's name, or a word without meaning."""
        if piece.kind != "word":
            return piece.kind == "mark" and piece.text in ":,"
        names = plain_name(self._tool.name), plain_name(self._tool.own_name)
        words = split_words(piece.text)
        is_known = any(self._tool.knows(word) or any(word in slot.words for slot in self._slots) for word in words)
        return is_known or piece.text.lower() in FILLERS or plain_name(piece.text) in names

    def _find_value(self, slot: Slot) -> Json:
        """Return the value for one parameter; for a required one also what "it" means."""
        finders = {"choice": self._choice, "number": self._number, "url": self._url, "path": self._path}
        finders |= {"json": self._items, "zone": self._place_name, "place": self._place_name}
        value = finders.get(slot.kind, self._text)(slot)
        if value is not None or not slot.is_required or not self._clause.has_pronoun:
            return value
        if self._last is None:  # while a plan is made
            return "it"
        return self._last.arguments.get(slot.name) or (self._last.text if slot.kind == "text" else None) or None

    def _url(self, _: Slot) -> Json:
        found = self._free_of("url")
        known = next((url for word, url in _ADDRESSES.items() if word in self._clause.counted and not found), None)
        self._free = [] if known else self._free
        return self._use(found[0]) if found else known

    def _choice(self, slot: Slot) -> Json:
        choices = {one.lower(): one for one in slot.choices}
        found = [piece for piece in self._free if piece.text.lower() in choices]
        return choices[self._use(found[0]).lower()] if found else None

    def _number(self, slot: Slot) -> Json:
        found = self._free_of("number") if slot.is_required else []
        return _convert(slot, self._use(found[0])) if found else None

    def _place_name(self, slot: Slot) -> Json:
        """Return the name after "in", "for", "of" or "at": a city with a time zone, or other words than the tool's."""
        free, is_zone = self._free, slot.kind == "zone"
        starts = [at + 1 for at, piece in enumerate(free) if piece.text.lower() in ("in", "for", "of", "at")]
        for names in (free[start : start + length] for start in starts for length in (3, 2, 1)):
            name = " ".join(piece.text for piece in names)
            zone = known_zones().get(name.replace(" ", "_").casefold()) if is_zone else None
            is_name = bool(names) and not any(piece.kind != "word" or self._is_own(piece) for piece in names)
            if zone or (is_name and (not is_zone or name.istitle())):
                self._use(*names)
                return zone or name
        return None

    def _path(self, slot: Slot) -> Json:
        """Return a path, a quoted name, or the word beside "file" or "folder"; else "." for a folder tool."""
        if found := self._free_of("path") or self._quoted_paths():
            return self._use(found[0])
        if name := self._take_name_beside_file():
            return name
        is_folder = not self._tool.name_words.isdisjoint(("directory", "folder"))
        # "list the files" means this folder; in "list it", `_find_value` knows what "it" is.
        return "." if is_folder and slot.is_required and not self._clause.has_pronoun else None

    def _quoted_paths(self) -> list[TextPiece]:
        """Return the quoted pieces that can be a path.

        If the tool needs a text, too, a preposition tells them apart: `write "hello" to "my notes"`.
        """
        quoted = self._free_of("quoted")
        if not any(other.is_required and other.kind in ("query", "text") for other in self._slots):
            return quoted
        word_before = dict(zip(self._clause.pieces, ("", *self._clause.words), strict=False))
        return [piece for piece in quoted if word_before[piece] in _PREPOSITIONS]

    def _take_name_beside_file(self) -> str:
        """Return the name that "file" or "folder" stands beside, and mark it as used; empty when there is none.

        "the folder called plans" means `plans`, "my notes file" means `notes.txt`; "the file that I wrote" has no name.
        """
        found = re.search(_NAME_BESIDE_FILE, self._clause.source)
        if found is None or (found["behind"] and found["behind"].lower() in FILLERS):
            return ""
        self._free = [piece for piece in self._free if piece.text not in found.groups()]
        return found["behind"] or f"{found['before']}.txt"

    def _items(self, slot: Slot) -> Json:
        found = self._free_of("quoted", "path", "number") if slot.is_required else []
        self._use(*found)
        return [_convert(slot, one.text) if one.kind == "number" else one.text for one in found] or None

    def _text(self, slot: Slot) -> Json:
        """Return quoted text; or the unused words, when this is the only parameter for text."""
        is_query, found = slot.kind == "query", self._free_of("quoted", "code")
        if found and (slot.is_required or is_query or slot.words & _BODY):
            return self._use(found[0])
        texts = [other for other in self._slots if other.is_required and other.kind in ("query", "text", "command")]
        is_asked = is_query and not texts and not {"about", "for"}.isdisjoint(self._clause.words)
        words = self._words_after_verb() if texts == [slot] or is_asked else []
        text = self._clause.text[words[0].start : words[-1].end] if words else ""
        if not text or (slot.kind == "command" and not self._is_command(text, words[0])):
            return None
        self._use(*words)
        self.takes_words = True
        return (re.sub(_QUERY_FRAME, "", text) if is_query else text) or None

    def _is_command(self, text: str, first: TextPiece) -> bool:
        """Whether the text is a command line: it looks like one, or the word "command" stands before it."""
        before = [piece.text.lower() for piece in self._clause.pieces if piece.start < first.start][-2:]
        is_called_so = before[-1:] == ["command"] or before == ["command", ":"]
        return is_called_so or re.match(_COMMAND, text, re.DOTALL) is not None

    def _words_after_verb(self) -> list[TextPiece]:
        """Return the pieces between the tool's own words and a used piece: `hello` of `write hello to notes.txt`."""
        free, kept = {piece.start for piece in self._free}, ("my", "i", *_PREPOSITIONS)
        after = [*dropwhile(lambda one: self._is_own(one) and one.text.lower() not in kept, self._clause.pieces)]
        found = [*takewhile(lambda one: one.start in free, after)]
        while found and len(found) < len(after) and found[-1].text.lower() in _PREPOSITIONS:
            found.pop()
        return [] if all(one.kind in ("path", "url") or one.text.lower() in FILLERS for one in found) else found


def decode_json(text: str) -> Json:
    """Return the JSON value, or the text itself when it is none."""
    value = parse_json(text)
    return text if value is UNSET else value


def _read_written(value: str) -> str:
    """Return the value of `key=value`: what stands in its quotes, or the text without marks of a sentence."""
    is_quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
    return unquote(value) if is_quoted else value.strip("\"',?!")


def _convert(slot: Slot | None, value: Json) -> Json:
    """Return the value in the type of the parameter, if the text can be read as that type."""
    if slot is None or slot.kind not in ("choice", "number", "json") or not isinstance(value, str):
        return value
    if slot.kind == "choice":
        return next((one for one in slot.choices if one.casefold() == value.casefold()), value)
    decoded = decode_json({"yes": "true", "no": "false"}.get(value.lower(), value))
    return list[Json](value.split(",")) if slot.kind == "json" and decoded == value else decoded
