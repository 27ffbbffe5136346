"""The front matter of a SKILL.md: YAML with plain values of limited depth, and its fields by type (SPEC A3).

Other features of YAML are refused before values are built: aliases (a few lines can mean millions of values), tags
(they name types) and depth.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from handspan.core.errors import HandspanError
from handspan.core.late_imports import yaml
from handspan.core.names import did_you_mean
from handspan.core.values import Json, JsonObject
from handspan.skills.fast_front_matter import read_simple
from handspan.skills.text import WrittenValue, clean_text

MAX_DEPTH: Final = 10
MAX_CHARACTERS: Final = 16 * 1024
MAX_VALUES: Final = 1000
"""The most keys and values together: the loader needs time for each."""

_QUOTES: Final = "Put a text in quotes when ': ' or ' #' stands in it or it begins with one of *&!|>%@`[]{}"

_KNOWN: Final = (
    *("name", "description", "version", "variables", "allowed_tools", "argument_hint"),
    *("user_invocable", "disable_model_invocation"),
)
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_GLOB: Final = r"[A-Za-z0-9_*?-]{1,128}"
_BETWEEN: Final = r"[\s,]+"
_MAX_INTEGER: Final = 2**63


class SkillError(HandspanError):
    """A skill's file can't be used. The message names the file, the line if known, and what to do."""

    def __init__(self, file: str, line: int | None, problem: str) -> None:
        super().__init__(f"{file}{'' if line is None else f', line {line}'}: {problem}.")


class Fields:
    """The values of one file. Known keys may be written with `-` or `_`."""

    def __init__(
        self, file: str, values: Iterable[tuple[object, object]], written: Mapping[str, WrittenValue] | None = None
    ) -> None:
        self._file = file
        self._written = {_canonical_key(key): place for key, place in (written or {}).items()}
        self._values: dict[str, object] = {}
        for key, value in values:
            if (name := _canonical_key(str(key))) in self._values:
                raise self.problem(name, f"the key {quote_value(name)} stands twice. Leave one out")
            self._values[name] = value

    def problem(self, key: str, words: str) -> SkillError:
        """Return the error for this key, with its line."""
        place = self._written.get(key)
        return SkillError(self._file, None if place is None else place.line, words)

    def name(self) -> str:
        """Return the skill's name. Raises `SkillError` when it is missing or invalid."""
        name = self.text("name")
        if not name:
            hint = did_you_mean("name", (key for key in self._values if key not in _KNOWN))
            raise self.problem("name", f"the key 'name' is missing or empty.{hint} Add one, as in 'name: my-skill'")
        if not re.fullmatch(_NAME, name):
            raise self.problem(
                "name",
                f"{quote_value(name)} can't be a skill's name. Use letters, digits, '-' and '_', at most 64 of them",
            )
        return name

    def text(self, key: str) -> str:
        """Return the text at this key exactly as written, or an empty text."""
        value, place = self._values.get(key), self._written.get(key)
        if value is None:
            return ""
        if isinstance(value, dict | list):
            raise self.problem(key, f"{key!r} must be a text. Put it in quotes")
        # YAML loads the version 1.10 as the number 1.1, so the written text is used.
        return clean_text(str(value) if place is None or place.text is None else place.text).strip()

    def flag(self, key: str) -> bool:
        """Return the bool at this key; False when the key is missing."""
        match self._values.get(key):
            case bool(value):
                return value
            case None:
                return False
            case str(word) if word.lower() in ("true", "false"):
                return word.lower() == "true"
            case value:
                raise self.problem(key, f"{key!r} is {quote_value(value)}. Use true or false")

    def variables(self) -> tuple[str, ...]:
        """Return the names of the variables."""
        return self._items("variables", _VARIABLE, "Use letters, digits, '-' and '_', as in 'file_name'") or ()

    def globs(self) -> tuple[str, ...] | None:
        """Return the globs of tools, or None when the key is missing."""
        return self._items("allowed_tools", _GLOB, "Use names and globs of tools, as in 'read_file' or 'web_*'")

    def rest(self) -> JsonObject:
        """Return the unknown keys with their values."""
        return {clean_text(key): self._json(key, value) for key, value in self._values.items() if key not in _KNOWN}

    def _items(self, key: str, form: str, advice: str) -> tuple[str, ...] | None:
        """Return the items of a list, or of a text that is separated by commas or spaces."""
        value = self._values.get(key)
        if value is None:
            return None
        items = [item for item in re.split(_BETWEEN, value) if item] if isinstance(value, str) else value
        if not isinstance(items, list):
            raise self.problem(key, f"{key!r} must be a list, not {quote_value(value)}. {advice}")
        for item in items:
            if not isinstance(item, str) or not re.fullmatch(form, item):
                raise self.problem(key, f"{key!r} can't have {quote_value(item)}. {advice}")
        return tuple(dict.fromkeys(items))

    def _json(self, key: str, value: object) -> Json:
        """Return a value as JSON with all texts cleaned. Raises `SkillError` when JSON can't hold it."""
        match value:
            case str():
                return clean_text(value)
            case list():
                return [self._json(key, item) for item in value]
            case dict():
                return {clean_text(str(name)): self._json(key, item) for name, item in value.items()}
            case date():  # also matches datetime
                return value.isoformat()
            case None | bool():
                return value
            case int() if abs(value) < _MAX_INTEGER:
                return value
            case float() if math.isfinite(value):
                return value
            case _:
                raise self.problem(
                    key, f"{quote_value(key)} has the value {quote_value(value)}, which is no JSON. Put it in quotes"
                )


def quote_value(value: object) -> str:
    """Return the value in quotes for a message, cut when it is long."""
    try:
        text = repr(value[:100] if isinstance(value, str) else value)
    except ValueError:  # an integer of thousands of digits
        return "a very long number"
    return clean_text(text if len(text) <= 80 else f"{text[:79]}…")


def _canonical_key(key: str) -> str:
    name = key.replace("-", "_")
    return name if name in _KNOWN else key


def read_front_matter(front: str, first_line: int, file: str) -> Fields:
    """Return the fields of the front matter. Raises `SkillError` with the line when it can't be read."""
    if len(front) > MAX_CHARACTERS:
        problem = f"the front matter is too long: at most {MAX_CHARACTERS} characters are taken. Move the rest below it"
        raise SkillError(file, first_line, problem)
    if (simple := read_simple(front, first_line)) is not None:
        values, written = simple
        return Fields(file, values.items(), written)
    return _read_yaml(front, first_line, file)


def _read_yaml(front: str, first_line: int, file: str) -> Fields:
    """Return the fields of front matter that is more than plain lines. Raises `SkillError` with the line."""
    try:
        _check_events(yaml.parse(front, Loader=yaml.SafeLoader), file, first_line)
        loader = yaml.SafeLoader(front)
        node = loader.get_single_node()
        written = _find_keys(node, file, first_line)
        values = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else first_line + mark.line
        raise SkillError(
            file, line, f"it is not YAML ({quote_value(error.problem or error.context)}). {_QUOTES}"
        ) from None
    except yaml.reader.ReaderError as error:
        line = first_line + front.count("\n", 0, error.position)
        raise SkillError(file, line, f"YAML does not take the character {error.character:#x}. Leave it out") from None
    except (ValueError, OverflowError) as error:  # an invalid date or character, or thousands of digits
        raise SkillError(file, None, f"a value can't be read ({quote_value(str(error))}). Put it in quotes") from None
    if not isinstance(values, dict):
        raise SkillError(file, first_line, "the front matter must be lines of 'key: value', one of them with 'name'")
    return Fields(file, values.items(), written)


def _check_events(events: "Iterable[yaml.Event]", file: str, first_line: int) -> None:
    """Raise `SkillError` for features of YAML that are refused, before values are built."""
    depth = 0
    for number, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if getattr(event, "anchor", None) is not None:
            problem = "aliases and anchors ('*', '&') are not allowed. Write the value out, or in quotes"
        elif getattr(event, "tag", None) is not None:
            problem = "tags ('!') are not allowed. Leave it out, or put the value in quotes"
        elif depth > MAX_DEPTH:
            problem = f"it is nested deeper than {MAX_DEPTH} levels. Flatten it"
        elif number > MAX_VALUES:
            problem = f"it has more than {MAX_VALUES} values. Leave some out"
        else:
            continue
        raise SkillError(file, first_line + (0 if event.start_mark is None else event.start_mark.line), problem)


def _find_keys(node: "yaml.Node | None", file: str, first_line: int) -> dict[str, WrittenValue]:
    """Return the values of the top keys as they are written. The caller refuses a list at the top."""
    keys: dict[str, WrittenValue] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            line = first_line + key.start_mark.line
            if key.value in keys:
                raise SkillError(file, line, f"the key {quote_value(key.value)} stands twice. Leave one out")
            keys[key.value] = WrittenValue(line, value.value if isinstance(value, yaml.ScalarNode) else None)
    return keys
