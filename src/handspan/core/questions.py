"""Questions to a person: may this be done, what is wanted, who logs in, is this still trusted (SPEC P5, P6)."""

from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.values import Arguments, Json, JsonObject

QuestionKind: TypeAlias = Literal["permission", "approval", "input", "login", "trust"]
Decision: TypeAlias = Literal["allow", "deny", "deny_forever", "expired"]

FIRST_KINDS: Final[frozenset[QuestionKind]] = frozenset(("permission", "approval"))
"""Every client that shows questions can show these (ws.md 3.8)."""


class QuestionAction(Struct, frozen=True, omit_defaults=True):
    """What the person starts (`login`) or compares (`trust`) before they answer."""

    url: str = ""
    """`login`: the address to open, http or https."""
    intent: str = ""
    """`login`: what an app is started with, where there is no address."""
    hint: str = ""
    """What to do there, in words for the person."""
    old: JsonObject | None = None
    """`trust`: the definition that was accepted; None when there was none."""
    new: JsonObject | None = None
    """`trust`: the definition that is offered now."""


class Question(Struct, frozen=True, omit_defaults=True):
    """A question to a person, bound to one call with exactly these arguments, or to no call."""

    id: str
    kind: QuestionKind
    call_id: str
    """Empty where no call waits for the answer."""
    tool: str
    """Or the source that asks, where it is not about one tool."""
    arguments: Arguments
    subject: str
    """The permission that is asked for, the reason why approval is needed, or the question itself, in words."""
    owner: str
    session: str
    fingerprint: str
    """Of the tool's definition: an "always" ends when the definition changes."""
    expires_in: float
    """Seconds until silence counts as no."""
    schema: JsonObject | None = None
    """`input`: the JSON Schema of the answer's `value`."""
    action: QuestionAction | None = None


class ToolQuestion(Struct, frozen=True):
    """What a tool asks the person while it runs; the engine knows the rest of the question."""

    kind: QuestionKind
    subject: str
    schema: JsonObject | None = None
    action: QuestionAction | None = None
    expires_in: float | None = None
    """Seconds; None: as long as questions wait here."""


class Answer(Struct, frozen=True):
    """What the person said."""

    decision: Decision
    always: bool = False
    """Remember it for this tool and this owner."""
    arguments: Arguments | None = None
    """Edit-and-approve: the call shall run with these instead."""
    how_to_enable: str = ""
    """For `deny_forever`: where the person can change their mind."""
    value: Json = None
    """With `allow`, where the question has a schema: valid by it."""


class Questions(Protocol):
    """Asks the person who is there. Neither a model nor a client that was not asked can answer."""

    async def ask(self, question: Question) -> Answer | None:
        """The answer; `expired` after the question's own time. None: it is kept and will be answered later.

        Asking the same question again (same id) gives the answer it got meanwhile.
        """
        ...
