"""What a schema compiler says: which rule an API's subset could not take, in words for a person and for the model."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from handspan.core.values import Json

_MAX_LOSSES: Final = 100
_MAX_QUOTED: Final = 240
_MAX_WORDS: Final = 900


class UnsupportedSchema(Exception):
    """This part of a schema can't be said in the target's words; the message is the reason."""


class ImpossibleSchema(UnsupportedSchema):
    """No value fits this part of a schema, so that nothing is lost without it."""


class SchemaTooLarge(UnsupportedSchema):
    """Written out, the schema grows beyond what anyone would send."""


class Report:
    """Collects the losses of one lowering."""

    def __init__(self) -> None:
        self._losses: dict[str, None] = {}

    def lose(self, path: str, what: str) -> None:
        """Note that the part at this path was not said as it stood."""
        self._losses[f"{place_name(path)}: {what}"] = None

    def told(self, path: str, keyword: str, value: Json) -> str:
        """Note that a rule is only told in the description; the words for it."""
        self.lose(path, f"{keyword} {quote_json(value)} is only told in the description")
        return rule_text(keyword, value)

    @property
    def losses(self) -> tuple[str, ...]:
        """Each loss once, in the order of the schema."""
        every = list(self._losses)
        more = len(every) - _MAX_LOSSES
        return (*every[:_MAX_LOSSES], f"and {more} more") if more > 0 else tuple(every)


def place_name(path: str) -> str:
    """A place in the arguments as a person says it."""
    return f"parameter {_clipped(path, 120)!r}" if path else "the arguments"


def quote_json(value: Json) -> str:
    """A value as JSON, short enough for a description."""
    return _clipped(msgspec.json.encode(value).decode(), _MAX_QUOTED)


def join_description(description: str, words: Iterable[str]) -> str:
    """A description with what else has to be known about the value."""
    told = _clipped("; ".join(dict.fromkeys(word for word in words if word)), _MAX_WORDS)
    return f"{description} ({told})" if description and told else description or told


def rule_text(keyword: str, value: Json) -> str:
    """What a rule of JSON Schema asks for, in words for a model."""
    say = _SENTENCES.get(keyword)
    return say(value) if say is not None else f"{keyword}: {quote_json(value)}"


def _of(sentence: str) -> Callable[[Json], str]:
    return lambda value: sentence.format(quote_json(value))


def _examples(value: Json) -> str:
    return "for example " + ", ".join(map(quote_json, value[:5] if isinstance(value, list) else [value]))


def _dependent_required(value: Json) -> str:
    pairs = value.items() if isinstance(value, dict) else ()
    return "; ".join(f"{name!r} needs {quote_json(needed)} too" for name, needed in pairs)


def _dependent_schemas(value: Json) -> str:
    pairs = value.items() if isinstance(value, dict) else ()
    return "; ".join(f"with {name!r} it must also fit {quote_json(schema)}" for name, schema in pairs)


def _pattern_properties(value: Json) -> str:
    pairs = value.items() if isinstance(value, dict) else ()
    return "; ".join(f"names that match {pattern} hold {quote_json(schema)}" for pattern, schema in pairs)


def _condition(value: Json) -> str:
    parts = value if isinstance(value, dict) else {}
    words = {"if": "if it fits", "then": "it must also fit", "else": "otherwise it must fit"}
    return ", ".join(f"{words[key]} {quote_json(parts[key])}" for key in words if key in parts)


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else quote_json(value)


_SENTENCES: Final[dict[str, Callable[[Json], str]]] = {
    "minimum": _of("must be at least {}"),
    "maximum": _of("must be at most {}"),
    "exclusiveMinimum": _of("must be greater than {}"),
    "exclusiveMaximum": _of("must be less than {}"),
    "multipleOf": _of("must be a multiple of {}"),
    "minLength": _of("at least {} characters"),
    "maxLength": _of("at most {} characters"),
    "pattern": lambda value: f"must match the regular expression {_clipped(_plain(value), _MAX_QUOTED)}",
    "format": lambda value: f"format: {_plain(value)}",
    "contentEncoding": lambda value: f"encoded as {_plain(value)}",
    "contentMediaType": lambda value: f"holds {_plain(value)}",
    "contentSchema": _of("its content fits {}"),
    "minItems": _of("at least {} items"),
    "maxItems": _of("at most {} items"),
    "uniqueItems": lambda _: "no item twice",
    "prefixItems": _of("its items in order: {}"),
    "contains": _of("some of its items fit {}"),
    "minContains": _of("at least {} of them"),
    "maxContains": _of("at most {} of them"),
    "unevaluatedItems": _of("further items fit {}"),
    "minProperties": _of("at least {} names"),
    "maxProperties": _of("at most {} names"),
    "propertyNames": _of("each name fits {}"),
    "patternProperties": _pattern_properties,
    "additionalProperties": _of("further names hold {}"),
    "unevaluatedProperties": _of("further names hold {}"),
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "enum": lambda value: f"one of {quote_json(value)[1:-1] if isinstance(value, list) else quote_json(value)}",
    "not": _of("must not fit {}"),
    "if": _condition,
    "default": _of("default: {}"),
    "examples": _examples,
    "deprecated": lambda _: "deprecated",
}


def _clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
