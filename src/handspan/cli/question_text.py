"""Questions as a person reads them at a terminal, and what they type as a value (SPEC P6)."""

from typing import Final

import msgspec

from handspan.core.errors import InvalidAnswer, WireError
from handspan.core.questions import Question, QuestionAction
from handspan.core.values import Json, JsonObject, strip_invisible
from handspan.wire import strict_json

_MOST_SHOWN: Final = 1000


def render_question(question: Question) -> str:
    """The lines that come before the prompt. Words of others must not steer the terminal."""
    tool = strip_invisible(f"{question.tool} {_short(question.arguments) if question.arguments else ''}".strip())
    subject, action = strip_invisible(question.subject), question.action or QuestionAction()
    match question.kind:
        case "permission":
            return f"\n{tool}\nneeds the permission {question.subject!r}. Grant it?\n"
        case "approval":
            return f"\n{tool}\n{subject} Run it?\n"
        case "input":
            return f"\n{tool}\n{subject}\n{_render_schema(question.schema or {})}"
        case "login":
            start = f"Open {strip_invisible(action.url)}" if action.url else f"Start {strip_invisible(action.intent)}"
            hint = f"{strip_invisible(action.hint)}\n" if action.hint else ""
            return f"\n{tool}\n{subject}\n  {start}\n{hint}Are you logged in?\n"
        case "trust":
            old = "  (there was none)\n" if action.old is None else _indent(action.old)
            return f"\n{tool}\n{subject}\nBefore:\n{old}Now:\n{_indent(action.new or {})}Trust it?\n"


def prompt_for_value(question: Question) -> str:
    """What to type, in a few words."""
    form = "a number of the list" if options_of(question.schema or {}) else _form(question.schema or {})
    return f"  {form} (empty: no answer)? "


def read_value(question: Question, typed: str) -> Json:
    """The value that the person means. Raises `InvalidAnswer` when it can't be read; whether it fits is not known."""
    schema = question.schema or {}
    if options := options_of(schema):
        if typed.isdecimal() and 0 < int(typed) <= len(options):
            return options[int(typed) - 1]
        return typed
    if _is_text(schema):
        return typed
    try:
        return strict_json.parse(typed.encode())
    except WireError as error:
        raise InvalidAnswer(f"This is not JSON: {error}.") from None


def options_of(schema: JsonObject) -> list[Json]:
    """The values that a person can choose from; empty when it is not a choice."""
    match schema:
        case {"enum": [*options]}:
            return options
        case {"oneOf": [*branches]} | {"anyOf": [*branches]} if branches:
            named = [branch["const"] for branch in branches if isinstance(branch, dict) and "const" in branch]
            return named if len(named) == len(branches) else []
        case {"type": "boolean"}:
            return [True, False]
        case _:
            return []


def _render_schema(schema: JsonObject) -> str:
    if options := options_of(schema):
        return "".join(f"  {number}. {_option(option)}\n" for number, option in enumerate(options, 1))
    return "" if _is_text(schema) else _indent(schema)


def _option(option: Json) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return strip_invisible(option) if isinstance(option, str) else _short(option)


def _form(schema: JsonObject) -> str:
    return "Your answer" if _is_text(schema) else "JSON of this form"


def _is_text(schema: JsonObject) -> bool:
    return schema.get("type") == "string"


def _indent(value: JsonObject) -> str:
    """JSON in lines, each indented; a long one is cut and says so."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    lines = "".join(f"  {strip_invisible(line)}\n" for line in _cut(text).splitlines())
    return lines


def _short(value: object) -> str:
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
