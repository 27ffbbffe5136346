"""What a question may ask, which answers it takes, and which answers are remembered (SPEC P2, P6)."""

from typing import Final

from msgspec import structs

from handspan.core.errors import DefinitionError, InvalidAnswer, ToolError
from handspan.core.questions import Answer, Question, QuestionKind
from handspan.core.schema import Validator, join_problems
from handspan.core.values import Arguments, Json, JsonObject, strip_invisible

_MAX_PROBLEMS: Final = 5


def check_question(question: Question) -> None:
    """Raise `DefinitionError` when no person could answer this question."""
    action = question.action
    match question.kind:
        case "input" if question.schema is None:
            raise DefinitionError("A question of the kind 'input' needs a schema for its answer")
        case "login" if action is None or not (action.url or action.intent or action.hint):
            raise DefinitionError("A question of the kind 'login' needs an action with a url, an intent or a hint")
        case "trust" if action is None or action.new is None:
            raise DefinitionError("A question of the kind 'trust' needs an action with the new definition")
    if action is not None and action.url and not action.url.lower().startswith(("https://", "http://")):
        raise DefinitionError(f"The address of a login begins with https:// or http://, not {action.url[:60]!r}")
    if question.schema is not None:
        Validator(question.schema, subject="the value")


def clean_question(question: Question) -> Question:
    """Return the question without invisible characters in its texts (SPEC S4).

    The arguments stay exactly those of the call. A client that shows them must show what is invisible in them.
    """
    action = question.action
    if action is not None:
        action = structs.replace(
            action,
            url=strip_invisible(action.url),
            intent=strip_invisible(action.intent),
            hint=strip_invisible(action.hint),
        )
    subject, agent = strip_invisible(question.subject), strip_invisible(question.agent)
    return structs.replace(question, subject=subject, agent=agent, action=action)


def check_answer(question: Question, answer: Answer) -> None:
    """Raise `InvalidAnswer` when the answer's value, or the arguments that it changes, do not fit the question."""
    if answer.arguments is not None and answer.decision == "allow":
        _check_edited(question, answer.arguments)
    if question.schema is None:
        if answer.value is not None:
            raise InvalidAnswer(f"A question of the kind {question.kind!r} takes no value: answer without one.")
        return
    if answer.decision != "allow":
        return
    problems = Validator(question.schema, subject="the value").problems(answer.value)
    if problems:
        raise InvalidAnswer(f"The answer does not fit the question: {join_problems(problems[:_MAX_PROBLEMS])}")


def _check_edited(question: Question, arguments: Arguments) -> None:
    """Raise `InvalidAnswer` unless a call with these arguments could run (SPEC P5).

    They count as a model's do: valid by the tool's schema, or such that the engine can read them (SPEC A6).
    """
    if question.kind != "approval":
        raise InvalidAnswer(f"A question of the kind {question.kind!r} takes no arguments: answer without them.")
    if question.parameters is None:
        return
    validator = Validator(question.parameters)
    if validator.is_valid(arguments):
        return
    try:
        validator.read(dict(arguments))  # whether it can be done: the engine reads them again when the call runs
    except ToolError as error:
        raise InvalidAnswer(f"{question.tool!r} can't run with these arguments. {error.message}") from None


def is_remembered(kind: QuestionKind, answer: Answer) -> bool:
    """Whether the answer becomes a rule. P2: a granted permission does, a single "no" does not; typed input and logins
    never do.
    """
    if kind in ("input", "login") or answer.decision == "expired":
        return False
    is_granted = kind == "permission" and answer.decision == "allow"
    return is_granted or answer.always or answer.decision == "deny_forever"


def options_of(schema: JsonObject) -> list[Json]:
    """Return the values that a person can choose from; empty when the schema offers no choice."""
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


def is_text(schema: JsonObject) -> bool:
    """Whether the schema asks for a text."""
    return schema.get("type") == "string"
