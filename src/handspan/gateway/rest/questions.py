"""Questions to the caller, their answers, and the rules that answers with "always" or "never" make (SPEC P5, P6)."""

from typing import Final

from handspan.core.errors import InvalidAnswer
from handspan.core.questions import Answer, Question
from handspan.core.records import Rule
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import shorten
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.questions import (
    AcceptedAnswer,
    ForgottenRules,
    GivenAnswer,
    ListedRule,
    QuestionList,
    QuestionQuery,
    RuleList,
    ShownQuestion,
)

family: Final = Family("questions")


@family.get("/api/questions")
async def questions(visit: Visit, query: QuestionQuery) -> QuestionList:
    """The questions that the caller can answer now."""
    found = await visit.parts.questions.open_for(owner=visit.owner, session=query.session or None)
    return QuestionList([_render_question(question) for question in found])


@family.post("/api/questions/{question_id}/answer", size="large")
async def answer(visit: Visit, question_id: str, body: GivenAnswer) -> AcceptedAnswer:
    """Answer a question. The first answer counts. A value that does not fit is refused, and the question stays open."""
    given = Answer(body.decision, body.always, body.arguments, value=body.value, reason=body.reason)
    try:
        is_taken = await visit.parts.questions.answer(question_id, given, owner=visit.owner)
    except InvalidAnswer as error:
        raise Refusal(422, "invalid_answer", str(error)) from None
    if not is_taken:
        shown = shorten(question_id)
        text = f"There is no open question {shown!r}: it was answered, its time is over, or it is not yours."
        raise Refusal(404, "not_found", text)
    visit.publish("questions", id=question_id, change="answered")
    return AcceptedAnswer(question_id)


@family.get("/api/rules")
async def rules(visit: Visit) -> RuleList:
    """The caller's rules, by tool and subject."""
    return RuleList([_render_rule(rule) for rule in await visit.parts.store.rules.all(owner=visit.owner)])


@family.delete("/api/rules/{tool}")
async def forget_rules(visit: Visit, tool: str) -> ForgottenRules:
    """Forget the rules of this tool: the caller is asked again."""
    count = await visit.parts.store.rules.forget(tool, owner=visit.owner)
    visit.parts.app.engine.forget_answers(tool, visit.owner)
    return ForgottenRules(tool, count)


def _render_question(question: Question) -> ShownQuestion:
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
        question.agent,
    )


def _render_rule(rule: Rule) -> ListedRule:
    return ListedRule(rule.tool, rule.kind, rule.subject, "always" if rule.answer.decision == "allow" else "never")
