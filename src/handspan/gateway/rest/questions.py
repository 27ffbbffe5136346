"""Questions to the caller, their answers, and the rules that answers with "always" or "never" make (SPEC P5, P6)."""

from typing import Final

from handspan.core.bus import RulesForgotten
from handspan.core.errors import InvalidAnswer
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.records import Rule
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import shorten
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.questions import (
    AcceptedAnswer,
    ForgottenRules,
    GivenAnswer,
    ListedRule,
    QuestionList,
    QuestionQuery,
    QuestionView,
    RuleList,
    StartedLogin,
)

family: Final = Family("questions")


@family.get("/api/questions")
async def questions(request: RestRequest, query: QuestionQuery) -> QuestionList:
    """The questions that the caller can answer now, and those that a person is asked at a device."""
    found = await request.parts.questions.shown_to(person(request.who), query.session or None)
    asked = request.parts.app.engine.asked_at_devices(request.owner)
    at_devices = [question for question in asked if query.session in ("", question.session)]
    return QuestionList(*([_render_question(question) for question in each] for each in (found, at_devices)))


@family.post("/api/questions/{question_id}/answer", size="large")
async def answer(request: RestRequest, question_id: str, body: GivenAnswer) -> AcceptedAnswer:
    """Answer a question. The first answer counts. A value that does not fit is refused, and the question stays open."""
    given = Answer(body.decision, body.always, body.arguments, value=body.value, reason=body.reason)
    try:
        is_taken = await request.parts.questions.answer(question_id, given, person(request.who))
    except InvalidAnswer as error:
        raise Refusal(422, "invalid_answer", str(error)) from None
    if not is_taken:
        raise _no_question(question_id)
    request.publish("questions", id=question_id, change="answered")
    return AcceptedAnswer(question_id)


@family.post("/api/questions/{question_id}/start")
async def start_login(request: RestRequest, question_id: str) -> StartedLogin:
    """Let the device start the login that a question asks for. The question stays open: answer it when it is done."""
    try:
        is_open = await request.parts.questions.start_login(question_id, person(request.who))
    except InvalidAnswer as error:
        raise Refusal(422, "invalid_answer", str(error)) from None
    if not is_open:
        raise _no_question(question_id)
    return StartedLogin(question_id)


@family.get("/api/rules")
async def rules(request: RestRequest) -> RuleList:
    """The caller's rules, by tool and subject."""
    return RuleList([_render_rule(rule) for rule in await request.parts.store.rules.all(owner=request.owner)])


@family.delete("/api/rules/{tool}")
async def forget_rules(request: RestRequest, tool: str) -> ForgottenRules:
    """Forget the rules of this tool: the caller is asked again."""
    count = await request.parts.store.rules.forget(tool, owner=request.owner)
    request.parts.app.engine.forget_answers(tool, request.owner)
    request.parts.bus.publish(RulesForgotten(request.owner, tool))
    return ForgottenRules(tool, count)


def _no_question(question_id: str) -> Refusal:
    shown = shorten(question_id)
    text = f"There is no open question {shown!r}: it was answered, its time is over, or this token may not answer it."
    return Refusal(404, "not_found", text)


def _render_question(question: Question) -> QuestionView:
    return QuestionView(
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
        question.device,
    )


def _render_rule(rule: Rule) -> ListedRule:
    return ListedRule(rule.tool, rule.kind, rule.subject, "always" if rule.answer.decision == "allow" else "never")
