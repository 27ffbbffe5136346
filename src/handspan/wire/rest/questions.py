"""Questions to a person, their answers, and rules in REST (SPEC P5, P6)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from handspan.core.questions import Question, QuestionAction, QuestionKind
from handspan.core.values import Json
from handspan.wire.rest.fields import SessionId


class QuestionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The session of the questions. Empty: all sessions."""

    session: SessionId = ""


class QuestionView(Struct, frozen=True):
    """A question that waits for an answer."""

    id: str
    kind: QuestionKind
    call_id: str
    """Empty: no call waits for the answer."""
    tool: str
    arguments: dict[str, Json]
    subject: str
    """The permission that is asked for, why approval is needed, or the question itself."""
    session: str
    expires_in: float
    """Seconds until no answer counts as "deny"."""
    schema: dict[str, Json] | None = None
    """The JSON Schema of the answer's `value`. Null: the answer needs no value."""
    action: QuestionAction | None = None
    """What to start (`login`) or to compare (`trust`) before the answer."""
    agent: str = ""
    """The agent whose call asks. Empty: none does."""
    device: str = ""
    """The device at which the person is asked. Empty: every client can answer."""
    parameters: dict[str, Json] | None = None
    """`approval`: the JSON Schema of the arguments, which an answer may change."""
    change: list[str] = []
    """`approval` of a call that writes a file: the lines of a diff, escaped, at most 60. Empty: it writes none."""

    def to_question(self) -> Question:
        """Return the question for the client's person. Owner and fingerprint are empty: only the gateway knows them."""
        fields = structs.asdict(self) | {"owner": "", "fingerprint": "", "device": ""}
        del fields["change"]
        return Question(**fields)


class QuestionList(Struct, frozen=True, omit_defaults=True):
    """The questions that the caller can answer now, the oldest first, and those that devices ask."""

    questions: list[QuestionView]
    at_devices: list[QuestionView] = []
    """What this gateway's devices ask their own person now: the answer is given there."""


class GivenAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of a person."""

    decision: Literal["allow", "deny", "deny_forever"]
    always: bool = False
    """Make a rule of it, for the tool's definition as it is now."""
    arguments: dict[str, Json] | None = None
    """Edit and approve: the call runs with these arguments instead."""
    value: Json = None
    """With `allow`: the value that the question's schema describes."""
    reason: Annotated[str, Meta(max_length=1000)] = ""
    """With `deny`: why, in words that the model reads."""


class AcceptedAnswer(Struct, frozen=True):
    """The answer was accepted."""

    id: str
    accepted: Literal[True] = True


class StartedLogin(Struct, frozen=True):
    """The device was told to start the login. The question waits for the answer that it is done."""

    id: str
    started: Literal[True] = True


class ListedRule(Struct, frozen=True):
    """An answer to all questions of this kind, until the tool's definition changes."""

    tool: str
    kind: QuestionKind
    subject: str
    """The permission, or the reason for the approval."""
    answer: Literal["always", "never"]


class RuleList(Struct, frozen=True):
    """The caller's rules, by tool and subject."""

    rules: list[ListedRule]


class ForgottenRules(Struct, frozen=True):
    """The rules of a tool are forgotten. The person is asked again."""

    tool: str
    forgotten: int
    """How many rules there were."""
