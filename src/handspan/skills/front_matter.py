"""The front matter of a SKILL.md: YAML, loaded so that it can be nothing but plain values of bounded depth (SPEC A3).

What YAML can do beyond that is refused before anything is built: aliases (a few lines of them can mean millions of
values), tags (they name types) and depth.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from handspan.skills.fast_front_matter import read_simple
from handspan.skills.fields import Fields, SkillError, Written, short

if TYPE_CHECKING:
    import yaml

MAX_DEPTH: Final = 10
MAX_CHARACTERS: Final = 16 * 1024
MAX_VALUES: Final = 1000
"""Keys and values, lists and mappings: the loader takes its time over each of them."""

# By name, because the library is loaded late.
_OPENING: Final = ("MappingStartEvent", "SequenceStartEvent")
_CLOSING: Final = ("MappingEndEvent", "SequenceEndEvent")
_LEAVES: Final = ("ScalarEvent", "AliasEvent")

_QUOTES: Final = "Put a text in quotes when ': ' or ' #' stands in it or it begins with one of *&!|>%@`[]{}"


def read_front_matter(front: str, first_line: int, file: str) -> Fields:
    """The values of the front matter; `SkillError` with the line where it can't be read."""
    if len(front) > MAX_CHARACTERS:
        problem = f"the front matter is too long: at most {MAX_CHARACTERS} characters are taken. Move the rest below it"
        raise SkillError(file, first_line, problem)
    if (simple := read_simple(front, first_line)) is not None:
        values, written = simple
        return Fields(file, values.items(), written)
    return _read_yaml(front, first_line, file)


def _read_yaml(front: str, first_line: int, file: str) -> Fields:
    import yaml  # noqa: PLC0415 - slow to load, and only skills need it

    try:
        written = _Scan(file, first_line).keys(yaml.parse(front, Loader=yaml.SafeLoader))
        values = yaml.safe_load(front)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else first_line + mark.line
        raise SkillError(file, line, f"it is not YAML ({short(error.problem or error.context)}). {_QUOTES}") from None
    except yaml.reader.ReaderError as error:
        line = first_line + front.count("\n", 0, error.position)
        raise SkillError(file, line, f"YAML does not take the character {error.character:#x}. Leave it out") from None
    except (ValueError, OverflowError) as error:  # a date or a character that is none, thousands of digits
        raise SkillError(file, None, f"a value can't be read ({short(str(error))}). Put it in quotes") from None
    if not isinstance(values, dict):
        raise SkillError(file, first_line, "the front matter must be lines of 'key: value', one of them with 'name'")
    return Fields(file, values.items(), written)


class _Scan:
    """Looks at what a YAML text is made of, before anything is made of it."""

    def __init__(self, file: str, first_line: int) -> None:
        self._file = file
        self._first_line = first_line

    def keys(self, events: "Iterable[yaml.Event]") -> dict[str, Written]:
        """The keys at the top and their places; `SkillError` for what is refused."""
        depth = 0
        top: list[Written] = []
        for number, event in enumerate(events):
            kind = type(event).__name__
            if kind in _CLOSING:
                depth -= 1
            if kind in _OPENING or kind in _LEAVES:
                self._refuse_tricks(event)
                if depth == 1:
                    top.append(Written(self._line(event), getattr(event, "value", None)))
            if kind in _OPENING:
                depth += 1
            if depth > MAX_DEPTH:
                raise self._problem(event, f"it is nested deeper than {MAX_DEPTH} levels. Flatten it")
            if number > MAX_VALUES:
                raise self._problem(event, f"it has more than {MAX_VALUES} values. Leave some out")
        return self._by_key(top)

    def _by_key(self, top: list[Written]) -> dict[str, Written]:
        """Keys and values take turns. A list at the top has none, and is refused by the caller."""
        keys: dict[str, Written] = {}
        for key, value in zip(top[::2], top[1::2], strict=False):
            if key.text is not None:
                if key.text in keys:
                    raise SkillError(self._file, key.line, f"the key {short(key.text)} stands twice. Leave one out")
                keys[key.text] = Written(key.line, value.text)
        return keys

    def _refuse_tricks(self, event: "yaml.Event") -> None:
        if getattr(event, "anchor", None) is not None:
            raise self._problem(
                event, "aliases and anchors ('*', '&') are not taken. Write the value out, or in quotes"
            )
        if getattr(event, "tag", None) is not None:
            raise self._problem(event, "tags ('!') are not taken. Leave it out, or put the value in quotes")

    def _problem(self, event: "yaml.Event", words: str) -> SkillError:
        return SkillError(self._file, self._line(event), words)

    def _line(self, event: "yaml.Event") -> int:
        return self._first_line + (0 if event.start_mark is None else event.start_mark.line)
