"""The report of one lowering: the rules that an API's subset lacks, in words for a person and for the model."""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from handspan.core.values import Json
from handspan.models.json_values import json_object

_MAX_LOSSES: Final = 100
_MAX_QUOTED: Final = 240
_MAX_NOTES: Final = 900


class UnsupportedSchema(Exception):
    """The target's subset can't express this part of a schema. The message is the reason."""


class ImpossibleSchema(UnsupportedSchema):
    """No value fits this part of a schema, so it can be left out without loss."""


class SchemaTooLarge(UnsupportedSchema):
    """The schema without its references and choices is too large to send."""


class Report:
    """Collects the losses of one lowering."""

    def __init__(self) -> None:
        self._losses: dict[str, None] = {}

    def lose(self, path: str, what: str) -> None:
        """Note that the part at this path is not sent as the schema has it."""
        self._losses[f"{place_name(path)}: {what}"] = None

    def describe_rule(self, path: str, keyword: str, value: Json) -> str:
        """Note that a rule is only stated in the description. Return the text for the description."""
        self.lose(path, f"{keyword} {quote_json(value)} is only stated in the description")
        write = _SENTENCES.get(keyword)
        return write(value) if write is not None else f"{keyword}: {quote_json(value)}"

    @property
    def losses(self) -> tuple[str, ...]:
        """Return each loss once, in the order of the schema."""
        every = list(self._losses)
        more = len(every) - _MAX_LOSSES
        return (*every[:_MAX_LOSSES], f"and {more} more") if more > 0 else tuple(every)


def place_name(path: str) -> str:
    """Return the words for a place in the arguments."""
    return f"parameter {_clip(path, 120)!r}" if path else "the arguments"


def check_name(name: str, path: str, pattern: re.Pattern[str] | None) -> None:
    """Raise `UnsupportedSchema` when the API's pattern forbids this name of a parameter."""
    if pattern is not None and not pattern.fullmatch(name):
        raise UnsupportedSchema(f"{place_name(path)}: this API takes only names that match {pattern.pattern!r}")


def quote_json(value: Json) -> str:
    """Return a value as JSON, short enough for a description."""
    return _clip(msgspec.json.encode(value).decode(), _MAX_QUOTED)


def join_description(description: str, notes: Iterable[str]) -> str:
    """Return the description with these notes in parentheses."""
    text = _clip("; ".join(dict.fromkeys(note for note in notes if note)), _MAX_NOTES)
    return f"{description} ({text})" if description and text else description or text


def _template(sentence: str) -> Callable[[Json], str]:
    return lambda value: sentence.format(quote_json(value))


def _examples_text(value: Json) -> str:
    return "for example " + ", ".join(map(quote_json, value[:5] if isinstance(value, list) else [value]))


def _each(sentence: str) -> Callable[[Json], str]:
    return lambda value: "; ".join(
        sentence.format(name, quote_json(inner)) for name, inner in json_object(value).items()
    )


def _condition(value: Json) -> str:
    parts = json_object(value)
    words = {"if": "if it fits", "then": "it must also fit", "else": "otherwise it must fit"}
    return ", ".join(f"{words[key]} {quote_json(parts[key])}" for key in words if key in parts)


def _text_or_json(value: Json) -> str:
    return value if isinstance(value, str) else quote_json(value)


_SENTENCES: Final[dict[str, Callable[[Json], str]]] = {  # rule of JSON Schema → what it requires, for a model
    "minimum": _template("must be at least {}"),
    "maximum": _template("must be at most {}"),
    "exclusiveMinimum": _template("must be greater than {}"),
    "exclusiveMaximum": _template("must be less than {}"),
    "multipleOf": _template("must be a multiple of {}"),
    "minLength": _template("at least {} characters"),
    "maxLength": _template("at most {} characters"),
    "pattern": lambda value: f"must match the regular expression {_clip(_text_or_json(value), _MAX_QUOTED)}",
    "format": lambda value: f"format: {_text_or_json(value)}",
    "contentEncoding": lambda value: f"encoded as {_text_or_json(value)}",
    "contentMediaType": lambda value: f"holds {_text_or_json(value)}",
    "contentSchema": _template("its content fits {}"),
    "minItems": _template("at least {} items"),
    "maxItems": _template("at most {} items"),
    "uniqueItems": lambda _: "no item twice",
    "prefixItems": _template("its items in order: {}"),
    "contains": _template("some of its items fit {}"),
    "minContains": _template("at least {} of them"),
    "maxContains": _template("at most {} of them"),
    "unevaluatedItems": _template("further items fit {}"),
    "minProperties": _template("at least {} names"),
    "maxProperties": _template("at most {} names"),
    "propertyNames": _template("each name fits {}"),
    "patternProperties": _each("names that match {} hold {}"),
    "additionalProperties": _template("further names hold {}"),
    "unevaluatedProperties": _template("further names hold {}"),
    "dependentRequired": _each("{!r} needs {} too"),
    "dependentSchemas": _each("with {!r} it must also fit {}"),
    "enum": lambda value: f"one of {quote_json(value)[1:-1] if isinstance(value, list) else quote_json(value)}",
    "not": _template("must not fit {}"),
    "if": _condition,
    "default": _template("default: {}"),
    "examples": _examples_text,
    "deprecated": lambda _: "deprecated",
}


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
