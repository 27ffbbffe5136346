"""A question to a person and its answer, as data: permission, approval, input, login, trust in a tool (SPEC P5, P6)."""

from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.values import Arguments, Json, JsonObject

QuestionKind: TypeAlias = Literal["permission", "approval", "input", "login", "trust"]
Decision: TypeAlias = Literal["allow", "deny", "deny_forever", "expired"]

OFFERING_CLIENT: Final = "the client that offers the tool"
"""Stands in place of a device's label for tools that the client of a chat offers."""
BUDGET: Final = "budget"
"""Stands in place of a tool in questions for money."""
FIRST_KINDS: Final[frozenset[QuestionKind]] = frozenset(("permission", "approval"))
"""Every client that shows questions can show these (ws.md 3.8)."""


class QuestionAction(Struct, frozen=True, omit_defaults=True):
    """What the person opens (`login`) or compares (`trust`) before the answer."""

    url: str = ""
    """`login`: the address to open, http or https."""
    intent: str = ""
    """`login`: what starts an app, if there is no address."""
    hint: str = ""
    """What to do there, as text for the person."""
    old: JsonObject | None = None
    """`trust`: the accepted definition; None if there was none."""
    new: JsonObject | None = None
    """`trust`: the definition that the tool has now."""


class Question(Struct, frozen=True, omit_defaults=True):
    """A question to a person, for one call with exactly these arguments, or for no call."""

    id: str
    kind: QuestionKind
    call_id: str
    """Empty if no call waits for the answer."""
    tool: str
    """The tool; or the source that asks, if it is not about one tool."""
    arguments: Arguments
    subject: str
    """The permission, the reason why approval is needed, or the text of the question."""
    owner: str
    session: str
    fingerprint: str
    """The fingerprint of the tool's definition: an "always" ends when the definition changes."""
    expires_in: float
    """Seconds after which no answer counts as no."""
    schema: JsonObject | None = None
    """`input`: the JSON Schema of the answer's `value`."""
    action: QuestionAction | None = None
    agent: str = ""
    """The agent whose call asks; empty if none does."""
    device: str = ""
    """The label of the device at which the person is asked; empty: at every client of the owner."""
    for_admin: bool = False
    """Stands for an act of an administrator: only a client with the scope `admin` shows and answers it."""
    parameters: JsonObject | None = None
    """`approval`: the JSON Schema of the arguments, which an answer may change. It stays in the gateway."""


class ToolQuestion(Struct, frozen=True):
    """What a tool asks the person while it runs; the engine adds the rest of the question."""

    kind: QuestionKind
    subject: str
    schema: JsonObject | None = None
    action: QuestionAction | None = None
    expires_in: float | None = None
    """Seconds; None: the gateway's own limit."""
    for_admin: bool = False
    """Stands for an act of an administrator."""


class Answer(Struct, frozen=True):
    """The answer of the person."""

    decision: Decision
    always: bool = False
    """Remember it for this tool and owner."""
    arguments: Arguments | None = None
    """Edit-and-approve: the call runs with these instead."""
    how_to_enable: str = ""
    """With `deny_forever`: where the person can change that."""
    value: Json = None
    """With `allow`, if the question has a schema: a value that fits it."""
    reason: str = ""
    """With a no: why, in words for the model. Also why no person could be asked."""
    is_rule: bool = False
    """It was given before, with "always" or "never": no person was asked this time."""


def waiting_text(question: Question) -> str:
    """Return the text for a call that waits for a person's answer: where the person is asked, and what."""
    device, how = question.device, ""
    if not device:
        place = "in the chat" if question.session and not question.for_admin else "on the page"
        where, how = "", f" Answer {place}, or with `handspan questions answer {answer_words(question)}."
    else:
        where = f" at {device}" if device == OFFERING_CLIENT else f" on the device {device!r}"
    return f"Waiting for your answer{where}: {asked_text(question)}{how}"


def asked_text(question: Question) -> str:
    """Return what the person is asked, in one sentence."""
    match question.kind:
        case "permission":
            return f"may {question.tool!r} use the permission {question.subject!r}?"
        case "approval":
            return f"may {question.tool!r} run? {question.subject}"
        case _:
            return question.subject


def answer_words(question: Question) -> str:
    """Return what follows `handspan questions answer` for this question, and what else can be said to it.

    Texts of a list are in single quotes: a shell leaves a dollar sign in them alone.
    """
    options = (question.schema or {}).get("enum")
    if question.schema is None:
        return f"{question.id} allow` (or deny)"
    if not isinstance(options, list) or not all(type(one) is str and "'" not in one for one in options):
        return f"{question.id} allow --value VALUE` (or deny)"
    first, *more = (f"'{one}'" for one in options)
    others = f" (or {', '.join(more)})" if more else ""
    money = ", or with `handspan budget add DOLLARS`" if is_for_money(question) else ""
    return f"{question.id} allow --value {first}`{others}{money}"


def is_for_money(question: Question) -> bool:
    """Whether the question asks for more money for a budget: no call waits for it, but a request to a model."""
    return question.tool == BUDGET and not question.call_id


def waiting_note(question: Question) -> Json:
    """Return the progress that the caller gets while a person is asked: a text, and facts for programs."""
    facts: JsonObject = {"question": question.id, "kind": question.kind, "device": question.device}
    return {"text": f"{waiting_text(question)}\n", "waiting_for": facts}


def find_waiting_note(progress: Json) -> tuple[str, str] | None:
    """Return text and device of a `waiting_note`; None for other progress. No device: every client is asked."""
    match progress:
        case {"text": str(text), "waiting_for": {"device": str(device)}}:
            return text, device
    return None


Opened: TypeAlias = Callable[[], None]
"""Is called when a question can be answered."""


def ignore_opened() -> None:
    """The `Opened` of a question of which no client has to be told."""


class Questions(Protocol):
    """Asks a person. A model can't answer, nor a client that was not asked."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
        """Return the answer; `expired` after the question's time; None if it is stored and answered later.

        To ask the same question again (same id) returns the answer that came meanwhile. `opened` is called as soon as
        a person can answer: only then clients may be told of the question. It is not called if the answer is known.
        """
        ...
