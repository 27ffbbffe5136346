"""Questions to the caller: what is asked, and the answer (SPEC P5, P6)."""

from typing import Final, Literal

from msgspec import Struct

from handspan.core.errors import InvalidAnswer
from handspan.core.questions import Answer, Question, QuestionAction, QuestionKind
from handspan.core.values import Json
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import SessionId

family: Final = Family("questions")


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


class Accepted(Struct, frozen=True):
    """The answer counts."""

    id: str
    accepted: Literal[True] = True


@family.get("/api/questions")
async def questions(visit: Visit, query: QuestionQuery) -> QuestionList:
    """What the caller could answer now."""
    found = await visit.doors.questions.open_for(owner=visit.owner, session=query.session or None)
    return QuestionList([_shown(question) for question in found])


@family.post("/api/questions/{question_id}/answer", size="large")
async def answer(visit: Visit, question_id: str, body: GivenAnswer) -> Accepted:
    """Answer a question; the first answer wins. A value that does not fit is refused, and the question stays open."""
    given = Answer(body.decision, body.always, body.arguments, value=body.value)
    try:
        is_taken = await visit.doors.questions.answer(question_id, given, owner=visit.owner)
    except InvalidAnswer as error:
        raise Refusal(422, "invalid_answer", str(error)) from None
    if not is_taken:
        shown = question_id if len(question_id) <= 60 else f"{question_id[:60]}…"
        text = f"There is no open question {shown!r}: it was answered, its time is over, or it is not yours."
        raise Refusal(404, "not_found", text)
    visit.tell("questions", id=question_id, change="answered")
    return Accepted(question_id)


def _shown(question: Question) -> ShownQuestion:
    return ShownQuestion(
        question.id,
        question.kind,
        question.call_id,
        question.tool,
        dict(question.arguments),
        question.subject,
        question.session,
        max(0.0, question.expires_in),
        question.schema,
        question.action,
    )
