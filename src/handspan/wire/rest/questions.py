"""Questions to a person and their answers, as REST shows them (SPEC P5, P6)."""

from typing import Literal

from msgspec import Struct

from handspan.core.questions import Question, QuestionAction, QuestionKind
from handspan.core.values import Json
from handspan.wire.rest.fields import SessionId


class QuestionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Of which session; empty: of all."""

    session: SessionId = ""


class ShownQuestion(Struct, frozen=True):
    """A question that waits for an answer."""

    id: str
    kind: QuestionKind
    call_id: str
    """Empty where no call waits for the answer."""
    tool: str
    arguments: dict[str, Json]
    subject: str
    """The permission that is asked for, why approval is needed, or the question itself."""
    session: str
    expires_in: float
    """Seconds until silence counts as no."""
    schema: dict[str, Json] | None = None
    """The JSON Schema of the answer's `value`; null where none is asked for."""
    action: QuestionAction | None = None
    """What to start (`login`) or to compare (`trust`) before the answer."""

    def as_asked(self) -> Question:
        """The question for a person of the client. Its owner and the tool's definition only the gateway knows."""
        return Question(
            self.id,
            self.kind,
            self.call_id,
            self.tool,
            self.arguments,
            self.subject,
            owner="",
            session=self.session,
            fingerprint="",
            expires_in=self.expires_in,
            schema=self.schema,
            action=self.action,
        )


class QuestionList(Struct, frozen=True):
    """What the caller could answer now, the oldest first."""

    questions: list[ShownQuestion]


class GivenAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the person says."""

    decision: Literal["allow", "deny", "deny_forever"]
    always: bool = False
    """Remember it for this tool as it is now."""
    arguments: dict[str, Json] | None = None
    """Edit and approve: the call shall run with these instead."""
    value: Json = None
    """With `allow`: what the question's schema asks for."""


class AcceptedAnswer(Struct, frozen=True):
    """The answer counts."""

    id: str
    accepted: Literal[True] = True


class ListedRule(Struct, frozen=True):
    """An answer that holds for every question like it, while the tool's definition stays as it is."""

    tool: str
    kind: QuestionKind
    subject: str
    """The permission, or the reason why approval is needed."""
    answer: Literal["always", "never"]


class RuleList(Struct, frozen=True):
    """The caller's rules, by tool and subject."""

    rules: list[ListedRule]


class ForgottenRules(Struct, frozen=True):
    """The person is asked about this tool again."""

    tool: str
    forgotten: int
    """How many rules there were."""
