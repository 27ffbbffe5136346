"""Questions to a person: may this permission be used, may this call run (SPEC P)."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.values import Arguments

QuestionKind: TypeAlias = Literal["permission", "approval", "login"]
Decision: TypeAlias = Literal["allow", "deny", "deny_forever", "expired"]


class Question(Struct, frozen=True):
    """A question to a person, bound to one call with exactly these arguments."""

    id: str
    kind: QuestionKind
    call_id: str
    tool: str
    arguments: Arguments
    subject: str
    """The permission that is asked for, or the reason why approval is needed."""
    owner: str
    session: str
    fingerprint: str
    """Of the tool's definition: an "always" ends when the definition changes."""
    expires_in: float
    """Seconds until silence counts as no."""


class Answer(Struct, frozen=True):
    """What the person said."""

    decision: Decision
    always: bool = False
    """Remember it for this tool and this owner."""
    arguments: Arguments | None = None
    """Edit-and-approve: the call shall run with these instead."""
    how_to_enable: str = ""
    """For `deny_forever`: where the person can change their mind."""


class Questions(Protocol):
    """Asks the person who is there. Neither a model nor a client that was not asked can answer."""

    async def ask(self, question: Question) -> Answer | None:
        """The answer; `expired` after the question's own time. None: it is kept and will be answered later.

        Asking the same question again (same id) gives the answer it got meanwhile.
        """
        ...
