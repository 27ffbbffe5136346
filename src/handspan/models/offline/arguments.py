"""The arguments of a call: each parameter of the tool's schema is filled from the pieces of the text."""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.errors import DefinitionError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.models.offline.match import FILLERS, Clause, KnownTool, Piece, plain_name, split_words, word_set

_KINDS: Final = {
    "zone": word_set("timezone tz zone"),
    "url": word_set("url uri href link"),
    "command": word_set("command cmd"),
    "path": word_set("path file filename dir directory folder"),
    "place": word_set("city location place country town"),
    "query": word_set("query search term topic name"),
}
"""Kind of a text parameter → words that its name has."""
_TYPES: Final = {"integer": "number", "number": "number", "boolean": "boolean", "array": "json", "object": "json"}
_BODY: Final = word_set("content text message body")
_PREPOSITIONS: Final = word_set("to in into onto from of at by on for with about")
_LEAD: Final = word_set("that the a an me please following : ,")
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


@final
class Filled(Struct, frozen=True):
    """The arguments for one tool, and what speaks against sending them."""

    arguments: JsonObject
    missing: tuple[Slot, ...] = ()
    problems: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    """Words and literals that are neither the tool's own nor part of an argument."""
    takes_words: bool = False
    """A parameter got plain words, which may go on in the next part of the request."""


def read_slots(tool: KnownTool) -> list[Slot]:
    """The tool's parameters, in the order in which they are filled: what can't be mistaken first, plain text last."""
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


def check(tool: KnownTool, arguments: JsonObject) -> tuple[str, ...]:
    """What is wrong with these arguments; empty when the engine takes them."""
    try:
        return tuple(Validator(tool.spec.parameters).problems(arguments))
    except DefinitionError as error:
        return (f"its schema can't be used ({error})",)


@functools.cache
def known_zones() -> dict[str, str]:
    """City in lower case with `_` for blanks → time zone. The first call reads the disk: not on the event loop."""
    import zoneinfo  # noqa: PLC0415 - 4 ms that only a question about a zone has to pay

    zones = sorted(zoneinfo.available_timezones(), key=lambda zone: ("/" in zone, zone))
    return {name: zone for zone in zones for name in (zone.casefold(), zone.rpartition("/")[2].casefold())}


def fill(tool: KnownTool, clause: Clause, before: Before) -> Filled:
    """The arguments for this tool; valid unless `missing` or `problems` say otherwise."""
    return _Filling(tool, clause, before).fill()


class _Filling:
    """One attempt to fill a tool's parameters. Each piece of the clause is used once."""

    def __init__(self, tool: KnownTool, clause: Clause, before: Before) -> None:
        self._tool, self._clause, self._before = tool, clause, before
        self._slots = read_slots(tool)
        self._free = list(clause.pieces)
        self._arguments: JsonObject = {}
        self._takes_words = False

    def fill(self) -> Filled:
        """Take what is written out as `key=value` or JSON, then fill one parameter after another."""
        self._take_written()
        needed = {*self._arguments, *(slot.name for slot in self._slots if slot.is_required)}
        for slot in self._slots:
            if slot.name not in self._arguments:
                value = _READERS[slot.kind](self, slot)
                value = self._from_before(slot) if value is None and slot.is_required else value
                self._arguments |= {} if value is None else {slot.name: value}
        missing = tuple(slot for slot in self._slots if slot.is_required and slot.name not in self._arguments)
        if not missing and check(self._tool, self._arguments):  # a guess is given up where nothing is required
            self._arguments = {name: value for name, value in self._arguments.items() if name in needed}
        problems = () if missing else check(self._tool, self._arguments)
        unused = tuple(piece.text for piece in self._free if not self._is_own(piece) and piece.kind != "mark")
        return Filled(self._arguments, missing, problems, unused, self._takes_words)

    def _take_written(self) -> None:
        """A key that the schema does not have is kept: the validator says what is wrong with it."""
        slots = {plain_name(slot.name): slot for slot in self._slots}
        takes_json = any(slot.words & _BODY or (slot.kind == "json" and slot.is_required) for slot in self._slots)
        for piece in [one for one in self._free if one.kind in ("json", "pair")]:
            given = {piece.text: piece.value} if piece.kind == "pair" else piece.value
            is_written = piece.kind == "pair" or not takes_json
            if isinstance(given, dict) and (is_written or any(plain_name(key) in slots for key in given)):
                self._use(piece)
                for key, value in given.items():
                    slot = slots.get(plain_name(key))
                    value = _convert(slot, value) if slot and piece.kind == "pair" and isinstance(value, str) else value
                    self._arguments[slot.name if slot else key] = value

    def _pieces(self, *kinds: str) -> list[Piece]:
        return [piece for piece in self._free if piece.kind in kinds]

    def _use(self, piece: Piece, *more: Piece) -> Piece:
        self._free = [other for other in self._free if other not in (piece, *more)]
        return piece

    def _is_own(self, piece: Piece) -> bool:
        """Whether it is a word of the tool or of a parameter's name, or one that says nothing."""
        names = plain_name(self._tool.name), plain_name(self._tool.own_name)
        words = split_words(piece.text)
        is_known = any(self._tool.knows(word) or any(word in slot.words for slot in self._slots) for word in words)
        return piece.kind == "word" and (is_known or piece.text.lower() in FILLERS or plain_name(piece.text) in names)

    def _beside(self, piece: Piece) -> list[str]:
        """The two words before a piece and the one after it."""
        place = self._clause.pieces.index(piece)
        return [word for near in self._clause.words[max(0, place - 2) : place + 2] for word in split_words(near)]

    def _choice(self, slot: Slot) -> Json:
        said = {word: piece for piece in self._free for word in split_words(piece.text)}
        for choice in slot.choices:
            words = split_words(choice)
            if words and all(word in said for word in words):
                self._use(*(said[word] for word in words))
                return choice
        return None

    def _boolean(self, slot: Slot) -> Json:
        """True when its name is said; false after "not" or "without"."""
        named = [piece for piece in self._pieces("word") if slot.words & {*split_words(piece.text)}]
        return {"not", "without", "no"}.isdisjoint(self._beside(self._use(named[0]))) if named else None

    def _number(self, slot: Slot) -> Json:
        """A number beside the parameter's name; any number where one is required."""
        for piece in self._pieces("number"):
            if slot.is_required or not slot.words.isdisjoint(self._beside(piece)):
                return self._use(piece).value
        return None

    def _url(self, slot: Slot) -> Json:
        if found := self._pieces("url"):
            return self._use(found[0]).text
        known = next((url for word, url in _ADDRESSES.items() if word in self._clause.counted), None)
        self._free = [] if known else self._free
        return known

    def _place(self, slot: Slot) -> Json:
        """The words after "in" or "for": a city that has a time zone, or any name that is no word of the tool."""
        free, is_zone = self._free, slot.kind == "zone"
        starts = [at + 1 for at, piece in enumerate(free) if piece.text.lower() in ("in", "for", "of", "at")] or [0]
        for names in (free[start : start + length] for start in starts for length in (3, 2, 1)):
            said = " ".join(piece.text for piece in names)
            zone = known_zones().get(said.replace(" ", "_").casefold()) if is_zone else None
            is_name = bool(names) and not any(piece.kind != "word" or self._is_own(piece) for piece in names)
            if zone or (is_name and (not is_zone or (said.istitle() and names[0] is not self._clause.pieces[0]))):
                self._use(*names)
                return zone or said
        return None

    def _command(self, slot: Slot) -> Json:
        """What is in backticks or quotes; else the words after the verb, when they look like a command line."""
        if found := self._pieces("code", "quoted"):
            return self._use(found[0]).text
        words = self._words_after_verb()
        line = self._source(words)
        if not re.match(_COMMAND, line, re.DOTALL):
            return None
        self._use(*words)
        self._takes_words = True
        return line.rstrip(".")

    def _path(self, slot: Slot) -> Json:
        """A path; a quoted name; a word beside "file" or "folder"; for a folder the workspace itself."""
        needs_text = any(other.is_required and other.kind in ("query", "text") for other in self._slots)
        quoted = [
            one
            for one in self._pieces("quoted")
            if not needs_text or self._clause.words[self._clause.pieces.index(one) - 1] in _PREPOSITIONS
        ]
        if found := self._pieces("path") or quoted:
            return self._use(found[0]).text
        named = re.search(_NAME_BESIDE_FILE, self._clause.source)
        if named and (named[2] or named[1].lower() not in FILLERS):
            self._free = [piece for piece in self._free if piece.text not in named.groups()]
            return named[1] or f"{named[2]}.txt"
        is_folder = not self._tool.name_words.isdisjoint(("directory", "folder"))
        return "." if is_folder and slot.is_required and not self._clause.has_pronoun else None

    def _json(self, slot: Slot) -> Json:
        """The JSON that is written; for a list that is required all that is quoted, or all paths, or all numbers."""
        for piece in self._pieces("json") if slot.is_required else ():
            return self._use(piece).value
        kinds = ("quoted", "path", "number") if slot.is_required else ()
        found = next((found for kind in kinds if (found := self._pieces(kind))), [])
        self._free = [piece for piece in self._free if piece not in found]
        return [piece.text if piece.value is None else piece.value for piece in found] or None

    def _text(self, slot: Slot) -> Json:
        """A value after the parameter's name; a quoted text; else the words that are left, for one parameter."""
        is_body, is_query = bool(slot.words & _BODY), slot.kind == "query"
        for name, value in zip(self._free, self._free[1:], strict=False):
            is_named = not is_body and name.kind == "word" and slot.words - {"id", "name"} & {*split_words(name.text)}
            if is_named and not is_query and value.kind != "mark" and value.text.lower() not in FILLERS:
                self._use(name, value)
                return value.text
        found = self._pieces("quoted", "code", "json")
        if found and (slot.is_required or is_body or is_query):
            return self._use(found[0]).text
        texts = [other for other in self._slots if other.is_required and other.kind in ("query", "text")]
        is_asked = is_query and not texts and not {"about", "for"}.isdisjoint(self._clause.words)
        words = self._words_after_verb() if texts == [slot] or is_asked else []
        said = self._source(words)
        self._free = [piece for piece in self._free if piece not in words]
        self._takes_words = bool(said)
        return (re.sub(_AROUND_A_QUERY, "", said) if is_query else said) or None

    def _words_after_verb(self) -> list[Piece]:
        """The pieces after the tool's own words, up to one that is used: `hello` of `write hello to notes.txt`."""
        pieces, start = self._clause.pieces, 0
        while start < len(pieces) and (pieces[start].text.lower() in _LEAD or self._is_lead(pieces[start])):
            start += 1
        end = next((at for at in range(start, len(pieces)) if pieces[at] not in self._free), len(pieces))
        while start < end < len(pieces) and pieces[end - 1].text.lower() in _PREPOSITIONS:
            end -= 1
        found = list(pieces[start:end])
        return [] if all(one.kind in ("path", "url") or one.text.lower() in FILLERS for one in found) else found

    def _is_lead(self, piece: Piece) -> bool:
        return self._is_own(piece) and piece.text.lower() not in ("my", "i", *_PREPOSITIONS)

    def _source(self, pieces: list[Piece]) -> str:
        first = self._clause.pieces[0].start if pieces else 0
        return self._clause.source[pieces[0].start - first : pieces[-1].end - first] if pieces else ""

    def _from_before(self, slot: Slot) -> Json:
        """What "it" is: the same argument of the last call, else the text of its result."""
        if not self._clause.has_pronoun or self._before is ANYTHING:
            return "it" if self._clause.has_pronoun else None
        same = self._before.arguments.get(slot.name)
        return same if same is not None or slot.kind != "text" else self._before.text or None


_READERS: Final[dict[str, Callable[[_Filling, Slot], Json]]] = {
    "choice": _Filling._choice,
    "boolean": _Filling._boolean,
    "number": _Filling._number,
    "url": _Filling._url,
    "zone": _Filling._place,
    "place": _Filling._place,
    "command": _Filling._command,
    "path": _Filling._path,
    "json": _Filling._json,
    "query": _Filling._text,
    "text": _Filling._text,
}
_ORDER: Final = tuple(_READERS)


def _convert(slot: Slot, value: str) -> Json:
    """The value of `key=value` in the type that the parameter wants, where the text has that form."""
    if slot.kind == "choice":
        return next((choice for choice in slot.choices if choice.casefold() == value.casefold()), value)
    try:
        decoded: Json = msgspec.json.decode({"yes": "true", "no": "false"}.get(value.lower(), value))
    except ValueError:
        return list[Json](value.split(",")) if slot.kind == "json" else value
    return decoded if slot.kind in ("number", "boolean", "json") else value
