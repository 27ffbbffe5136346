"""A question as a message with buttons, and what a pressed button or a written word means as its answer."""

import hashlib
from typing import Final

import msgspec

from handspan.core.channels import MessageButton
from handspan.core.errors import WireError
from handspan.core.question_checks import is_text, options_of
from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.values import Json, escape_invisible, strip_invisible
from handspan.wire import strict_json

_YES: Final = frozenset(("y", "yes", "ok", "okay", "allow", "done"))
_NO: Final = frozenset(("n", "no", "deny", "cancel"))
_WORDS: Final = {
    **dict.fromkeys(_YES, Answer("allow")),
    **dict.fromkeys(_NO, Answer("deny")),
    "always": Answer("allow", always=True),
    "never": Answer("deny_forever"),
}
_LONGEST_ARGUMENTS: Final = 1000
SKIP: Final = "/skip"


def mark_of(question: Question) -> str:
    """Return a short word for this question, the same in every process: the data of a button is short."""
    return hashlib.sha256(question.id.encode()).hexdigest()[:24]


def render_question(question: Question) -> str:
    """Return the question for a person, with exactly the arguments that the call would have."""
    subject, action = strip_invisible(question.subject), question.action or QuestionAction()
    call = f"{strip_invisible(question.tool)} {_arguments(question)}".rstrip()
    match question.kind:
        case "permission":
            lines = [call, f"It needs the permission {subject!r}. Grant it? (yes, no, never)"]
        case "approval":
            lines = [call, f"{subject} Run it? (yes, no, always, never)"]
        case "login":
            lines = [call, subject, strip_invisible(action.url), strip_invisible(action.hint), "Logged in? (yes, no)"]
        case "trust":
            lines = [call, subject, "Trust it? (yes, no). A page of the gateway shows what has changed."]
        case _:
            lines = [subject, *_option_lines(question), f"({SKIP} to give no answer)"]
    return "\n".join(line for line in lines if line)


def buttons_of(question: Question) -> tuple[MessageButton, ...]:
    """Return the answers that can be given with one press."""
    mark = mark_of(question)
    if question.schema is not None:
        options = options_of(question.schema)
        return tuple(MessageButton(_option(one), f"{mark}:{index}") for index, one in enumerate(options))
    words = {"Yes": "yes", "No": "no"}
    if question.kind == "approval":
        words |= {"Always": "always"}
    return tuple(MessageButton(label, f"{mark}:{word}") for label, word in words.items())


def read_press(question: Question, word: str) -> Answer | None:
    """Return the answer that this button of the question gives; None for a button that it does not have."""
    if question.schema is None:
        return _WORDS.get(word)
    options = options_of(question.schema)
    known = word.isdecimal() and int(word) < len(options)
    return Answer("allow", value=options[int(word)]) if known else None


def read_words(question: Question, words: str) -> Answer | None:
    """Return the answer that a person wrote; None when the words answer no such question."""
    word = words.strip().rstrip(".!").lower()
    if word == SKIP:
        return Answer("deny", reason="the person gave no answer")
    if question.schema is None:
        return _WORDS.get(word)
    options = options_of(question.schema)
    if options:
        by_name = {_option(one).lower(): one for one in options} | {str(n): one for n, one in enumerate(options, 1)}
        return Answer("allow", value=by_name[word]) if word in by_name else None
    if is_text(question.schema):
        return Answer("allow", value=words.strip())
    try:
        return Answer("allow", value=strict_json.parse(words.encode("utf-8", "replace")))
    except WireError:
        return None


def _arguments(question: Question) -> str:
    if not question.arguments:
        return ""
    text = escape_invisible(msgspec.json.encode(question.arguments).decode())
    return text if len(text) <= _LONGEST_ARGUMENTS else f"{text[:_LONGEST_ARGUMENTS]}… ({len(text)} characters)"


def _option_lines(question: Question) -> list[str]:
    schema = question.schema or {}
    if options := options_of(schema):
        return [f"{number}. {_option(one)}" for number, one in enumerate(options, 1)]
    return [] if is_text(schema) else ["Answer with JSON of this form:", msgspec.json.encode(schema).decode()]


def _option(option: Json) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return strip_invisible(option if isinstance(option, str) else msgspec.json.encode(option).decode())
