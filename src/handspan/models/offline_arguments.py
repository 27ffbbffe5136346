"""The arguments of a call, out of the words of a clause."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.models.offline_clause import Clause
from handspan.models.offline_commands import looks_like_a_command
from handspan.models.offline_left import INTO, Leftover
from handspan.models.offline_places import zones_in
from handspan.models.offline_text import Kind
from handspan.models.offline_tools import KnownTool, Slot, SlotKind
from handspan.models.offline_words import NEGATIONS, PRONOUNS, plain_name, split_words, stem, stems, word_set

_ABOUT: Final = word_set("for about of on named called regarding nach über")
_SAYING: Final = word_set("that saying says dass")
_ARTICLES: Final = (
    r"(?i)^(?:(?:in|for|of|about|at|on|the|a|an|my|your|our"
    r"|der|die|das|mein|meine|meiner|meinen)\s+)+"
)
_PROGRAM: Final = (
    r"(?i)^[\s:]*(?:the\s+|a\s+|following\s+|this\s+|shell\s+|command\s+|program\s+|den\s+|befehl\s+)*:?\s*"
)
_IS_NAMED_COMMAND: Final = r"(?i)\b(?:command|befehl)\b"
_UNKNOWN_PLACE: Final = r"(?i)\bin\s+(?!the\b|my\b|your\b|a\b|an\b|this\b|here\b|human|iso)([^\W\d_][\w'-]*)"


@final
class Before(Struct, frozen=True):
    """What "it" can mean: the last call's arguments, and the last results as text."""

    arguments: Mapping[str, Json] = msgspec.field(default_factory=dict)
    text: str = ""


@final
class Filled(Struct, frozen=True):
    """Arguments, and what keeps them from being sent."""

    arguments: JsonObject
    missing: tuple[Slot, ...] = ()
    problems: tuple[str, ...] = ()
    takes_rest: bool = False
    """A parameter got all the words to the end: what follows may belong to it."""
    is_guessed: bool = False
    """A required parameter was filled with plain words, not with a literal."""

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.problems


def fill(tool: KnownTool, clause: Clause, before: Before, places: Mapping[str, str]) -> Filled:
    """The arguments for this tool; valid against its schema unless `missing` or `problems` say otherwise."""
    return _Filling(tool, clause, before, places).filled()


class _Filling:
    """One attempt: each literal of the clause is used once."""

    def __init__(self, tool: KnownTool, clause: Clause, before: Before, places: Mapping[str, str]) -> None:
        self._tool = tool
        self._clause = clause
        self._before = before
        self._places = places
        self._left = Leftover(clause, tool)
        self._arguments: JsonObject = {}
        self._given: set[str] = set()
        """Names of arguments that were written out."""
        self._is_guessed = False

    def filled(self) -> Filled:
        self._take_json()
        self._take_pairs()
        self._fill_slots()
        # What was written out and fits nothing is not dropped: the schema says what is wrong with it.
        self._take_json(any_keys=True)
        self._take_pairs(any_keys=True)
        return self._checked()

    def _fill_slots(self) -> None:
        for kinds in _ORDER:
            slots = [slot for slot in self._tool.slots if slot.kind in kinds]
            # Of several texts the body takes the quoted one: a channel's name is seldom quoted.
            for slot in sorted(slots, key=lambda slot: (not slot.is_required, not slot.is_body)):
                if slot.name not in self._arguments:
                    self._put(slot, self._value(slot))

    def _checked(self) -> Filled:
        arguments, left = self._arguments, self._left
        missing = tuple(slot for slot in self._tool.required if slot.name not in arguments)
        problems = () if missing else tuple(self._tool.problems(arguments))
        if problems:
            arguments = next((fewer for fewer in self._fewer() if not self._tool.problems(fewer)), arguments)
            problems = problems if arguments is self._arguments else ()
        return Filled(arguments, missing, problems, left.takes_rest, self._is_guessed)

    def _fewer(self) -> Iterator[JsonObject]:
        """The arguments without one that nobody had to give, and nobody wrote out; then without all of these."""
        needed = self._given.union(slot.name for slot in self._tool.required)
        for left_out in self._arguments:
            if left_out not in needed:
                yield {name: value for name, value in self._arguments.items() if name != left_out}
        yield {name: value for name, value in self._arguments.items() if name in needed}

    def _put(self, slot: Slot, value: Json) -> None:
        if value is not None:
            self._arguments[slot.name] = value

    def _take_json(self, *, any_keys: bool = False) -> None:
        """Arguments that were written out as an object."""
        names = {plain_name(slot.name): slot.name for slot in self._tool.slots}
        for place, piece in list(self._left.free("json")):
            value = piece.value
            if isinstance(value, dict) and (any_keys or any(plain_name(key) in names for key in value)):
                self._give({names.get(plain_name(key), key): inner for key, inner in value.items()}, place)

    def _take_pairs(self, *, any_keys: bool = False) -> None:
        """Arguments that were written out as `key=value`."""
        slots = {plain_name(slot.name): slot for slot in self._tool.slots}
        for place, piece in list(self._left.free("pair")):
            slot = slots.get(plain_name(piece.text))
            if slot:
                self._give({slot.name: _coerced(slot, piece.value)}, place)
            elif any_keys:
                self._give({piece.text: piece.value}, place)

    def _give(self, arguments: JsonObject, place: int) -> None:
        self._arguments |= arguments
        self._given.update(arguments)
        self._left.take((place,))

    def _value(self, slot: Slot) -> Json:
        match slot.kind:
            case "choice":
                return self._choice(slot)
            case "boolean":
                return self._boolean(slot)
            case "number":
                return self._number(slot)
            case "url":
                return self._url(slot)
            case "zone":
                return self._zone(slot)
            case "command":
                return self._command(slot)
            case "path":
                return self._path(slot)
            case "texts" | "numbers":
                return self._list(slot)
            case "query" | "text":
                return self._text(slot)
            case _:
                return self._other(slot)

    def _choice(self, slot: Slot) -> Json:
        """A value that the clause names, or that such a sentence means."""
        said = {word for term in self._clause.terms for word in term.meanings}.union(self._clause.intent)
        said |= {stem(word) for word in self._clause.words if word} | {
            stem(piece.text) for _, piece in self._left.free("quoted")
        }
        named = next((choice for choice in slot.choices if stems(choice) and stems(choice) <= said), None)
        if named is not None:
            return named
        return slot.choices[0] if slot.is_required and len(slot.choices) == 1 else None

    def _boolean(self, slot: Slot) -> Json:
        """True when its name is said, false when "not" or "without" stands before it."""
        words = self._clause.words
        places = [next((at for at, word in enumerate(words) if stem(word) == part), -1) for part in slot.stems]
        if not places or min(places) < 0:
            return None
        return NEGATIONS.isdisjoint(words[max(0, min(places) - 2) : min(places)])

    def _number(self, slot: Slot) -> Json:
        """A number beside the parameter's name; any number where one is required."""
        for place, piece in self._left.free("number"):
            beside = {stem(word) for word in self._clause.words[max(0, place - 2) : place + 2] if word}
            if slot.is_required or slot.stems & beside:
                self._left.take((place,))
                return _whole(piece.value) if slot.is_whole else piece.value
        return self._same_as_before(slot)

    def _url(self, slot: Slot) -> Json:
        url = self._left.take_first("url")
        host = None if url else self._left.take_first("host")
        return url or (f"https://{host}" if host else self._same_as_before(slot))

    def _zone(self, slot: Slot) -> Json:
        free = list(self._left.free("word", "path"))
        found = zones_in([piece.text for _, piece in free], self._places)
        if found:
            start, end, zone = found[0]
            self._left.take(place for place, _ in free[start:end])
            return zone
        # A place that nobody knows is passed on: the tool says so, and how zones are called.
        unknown = re.search(_UNKNOWN_PLACE, self._clause.source)
        return unknown[1] if unknown else None

    def _command(self, slot: Slot) -> Json:
        line = self._left.take_first("code") or self._command_line()
        if line is None:
            return self._same_as_before(slot)
        arguments = next((other for other in self._tool.slots if other.kind == "texts" and "arg" in other.name), None)
        if arguments is None:
            return line
        try:
            program, *words = shlex.split(line)
        except ValueError:  # no closing quotation; or nothing at all
            return line
        self._put(arguments, list(words))
        return program

    def _command_line(self) -> str | None:
        """What stands after the verb, when it is called a command or looks like one."""
        quoted = [piece for _, piece in self._left.free("quoted")]
        rest = self._left.after_lead()
        is_called_so = re.search(_IS_NAMED_COMMAND, self._clause.source) is not None
        line = re.sub(_PROGRAM, "", rest, count=1).strip()
        if len(quoted) == 1 and line == self._clause.text[quoted[0].start : quoted[0].end]:
            return quoted[0].text
        line = line[:-1] if re.search(r"\w\.$", line) else line
        if line and (is_called_so or looks_like_a_command(line)):
            return line
        return None

    def _path(self, slot: Slot) -> Json:
        """An unquoted path; a quoted one after "to", "in" …; a word after "file" or "folder"; the workspace."""
        found = (
            self._path_there()
            or self._left.take_first("path", "host")
            or self._quoted_path(slot)
            or self._left.take_path_name(slot)
            or self._same_as_before(slot)
        )
        if found is not None or not slot.is_required:
            return found
        return "." if slot.is_for_folders else None

    def _path_there(self) -> str | None:
        """For a tool that writes to one place, of several paths the one after "to", "into" …"""
        if not self._wants_text() or sum(slot.kind == "path" for slot in self._tool.required) > 1:
            return None
        for place, piece in self._left.free("path", "host"):
            if self._left.word_before(place) in INTO:
                self._left.take((place,))
                return piece.text
        return None

    def _quoted_path(self, slot: Slot) -> str | None:
        for place, piece in self._left.free("quoted"):
            is_alone = slot.is_required and not self._wants_text() and bool(piece.text.strip())
            if is_alone or self._left.word_before(place) in INTO:
                self._left.take((place,))
                return piece.text
        return None

    def _wants_text(self) -> bool:
        return any(slot.is_required and slot.kind in ("text", "query") for slot in self._tool.slots)

    def _list(self, slot: Slot) -> Json:
        for place, piece in self._left.free("json"):
            if isinstance(piece.value, list):
                self._left.take((place,))
                return piece.value
        if not slot.is_required:
            return None
        if slot.kind == "numbers":
            return [piece.value for _, piece in self._left.free("number")] or None
        kinds: tuple[Kind, ...] = ("path", "quoted", "host") if slot.is_for_files else ("quoted",)
        found = list(self._left.free(*kinds))
        self._left.take(place for place, _ in found)
        return [piece.text for _, piece in found] or None

    def _other(self, slot: Slot) -> Json:
        """An object that has to be there: the JSON that is left."""
        for place, piece in self._left.free("json"):
            if slot.is_required:
                self._left.take((place,))
                return piece.value
        return None

    def _text(self, slot: Slot) -> Json:
        named = self._named_choice(slot) if not slot.is_required else None
        value = named
        if value is None and slot.kind == "text" and not slot.is_body:
            value = self._left.take_after_name(slot)
        if value is None and (slot.is_required or slot.is_body or slot.kind == "query"):
            value = self._left.take_first("quoted", "code", "json")
        if value is not None:
            return value
        return self._said(slot) if slot.is_required else self._asked_about(slot)

    def _named_choice(self, slot: Slot) -> str | None:
        said = {stem(word) for word in self._clause.words if word}
        return next((choice for choice in slot.choices if stems(choice) <= said), None)

    def _said(self, slot: Slot) -> Json:
        """The plain words that are neither the verb nor the place where they go; for one parameter only."""
        is_query = slot.kind == "query"
        rest = self._left.after_marker(_SAYING | _ABOUT if is_query else _SAYING, is_query=is_query)
        rest = _trimmed(rest or self._left.after_lead(is_query=is_query), slot.kind)
        if not rest or set(split_words(rest.lower())) <= PRONOUNS:
            return self._same_as_before(slot) or (self._before.text or None if self._clause.has_pronoun else None)
        if self._texts_wanted() > 1 or rest in self._literal_places():
            return None
        self._is_guessed = True
        return rest

    def _texts_wanted(self) -> int:
        """Plain words are taken for one text only: nobody can tell where the first would end."""
        return sum(slot.kind in ("text", "query") for slot in self._tool.required)

    def _literal_places(self) -> set[str]:
        """Files and pages that are named: who writes one to another does not mean its name."""
        return {piece.text for piece in self._clause.pieces if piece.kind in ("path", "host", "url")}

    def _asked_about(self, slot: Slot) -> Json:
        """A question's subject, for a parameter that may be left out."""
        if slot.kind != "query" or self._wants_text():
            return None
        return _trimmed(self._left.after_marker(_ABOUT, is_query=True), slot.kind) or None

    def _same_as_before(self, slot: Slot) -> Json:
        """What the call before had there, when the clause says "it"."""
        if not slot.is_required or not self._clause.has_pronoun:
            return None
        return self._before.arguments.get(slot.name)


_ORDER: Final[tuple[tuple[SlotKind, ...], ...]] = (
    ("choice", "boolean"),
    ("number",),
    ("url",),
    ("zone",),
    ("command",),
    ("path",),
    ("texts", "numbers", "other"),
    ("query", "text"),
)
"""The kinds that can't be mistaken take their literals first."""


def _trimmed(text: str, kind: SlotKind) -> str:
    """For a query without the question's article and punctuation."""
    return re.sub(_ARTICLES, "", text.rstrip("?!. ")) if kind == "query" else text


def _whole(value: Json) -> Json:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _coerced(slot: Slot, value: Json) -> Json:
    """The value of a pair in the type that the parameter wants, where its text has that form."""
    if not isinstance(value, str):
        return value
    match slot.kind:
        case "number" | "boolean" | "other" | "numbers":
            return _read(value)
        case "texts":
            return list[Json](value.split(","))
        case "choice":
            return next((choice for choice in slot.choices if choice.casefold() == value.casefold()), value)
        case _:
            return value


def _read(text: str) -> Json:
    named: Sequence[tuple[str, bool]] = (("true", True), ("yes", True), ("on", True), ("false", False), ("no", False))
    for name, value in named:
        if text.casefold() == name:
            return value
    try:
        read: Json = msgspec.json.decode(text)
        return read
    except ValueError:
        return text
