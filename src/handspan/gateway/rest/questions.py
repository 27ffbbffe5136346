"""Questions to the caller: what is asked, and the answer (SPEC P5, P6)."""

from typing import Final

from handspan.core.errors import InvalidAnswer
from handspan.core.questions import Answer, Question
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.questions import AcceptedAnswer, GivenAnswer, QuestionList, QuestionQuery, ShownQuestion

family: Final = Family("questions")


@family.get("/api/questions")
async def questions(visit: Visit, query: QuestionQuery) -> QuestionList:
    """What the caller could answer now."""
    found = await visit.doors.questions.open_for(owner=visit.owner, session=query.session or None)
    return QuestionList([_shown(question) for question in found])


@family.post("/api/questions/{question_id}/answer", size="large")
async def answer(visit: Visit, question_id: str, body: GivenAnswer) -> AcceptedAnswer:
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
    return AcceptedAnswer(question_id)


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
