"""Questions to the caller, their answers, and the rules that answers with "always" or "never" make (SPEC P5, P6)."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.bus import RulesForgotten
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.records import Rule
from handspan.engine.changes import WRITERS, render_diff
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import shorten
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import questions as wire

family: Final = Family("questions")


@family.get("/api/questions")
async def questions(request: RestRequest, query: wire.QuestionQuery) -> wire.QuestionList:
    """The questions that the caller can answer now, and those that a person is asked at a device."""
    found = await request.parts.questions.visible_to(person(request.who), query.session or None)
    asked = request.app.engine.asker.open_at_devices(request.owner)
    at_devices = [question for question in asked if query.session in ("", question.session)]
    return wire.QuestionList(
        [await _render_question(question, request.app.settings.workspace) for question in found],
        [await _render_question(question, None) for question in at_devices],
    )


@family.post("/api/questions/{question_id}/answer", size="large")
async def answer(request: RestRequest, question_id: str, body: wire.GivenAnswer) -> wire.AcceptedAnswer:
    """Answer a question. The first answer counts. A value that does not fit is refused, and the question stays open."""
    given = Answer(body.decision, body.always, body.arguments, value=body.value, reason=body.reason)
    if not await request.parts.questions.answer(question_id, given, person(request.who)):
        raise _no_question(question_id)
    request.publish("questions", id=question_id, change="answered")
    return wire.AcceptedAnswer(question_id)


@family.post("/api/questions/{question_id}/start")
async def start_login(request: RestRequest, question_id: str) -> wire.StartedLogin:
    """Let the device start the login that a question asks for. The question stays open: answer it when it is done."""
    if not await request.parts.questions.start_login(question_id, person(request.who)):
        raise _no_question(question_id)
    return wire.StartedLogin(question_id)


@family.get("/api/rules")
async def rules(request: RestRequest) -> wire.RuleList:
    """The caller's rules, by tool and subject."""
    return wire.RuleList([_render_rule(rule) for rule in await request.store.rules.all(owner=request.owner)])


@family.delete("/api/rules/{tool}")
async def forget_rules(request: RestRequest, tool: str) -> wire.ForgottenRules:
    """Forget the rules of this tool: the caller is asked again."""
    count = await request.store.rules.forget(tool, owner=request.owner)
    request.app.engine.asker.forget(tool, request.owner)
    request.parts.bus.publish(RulesForgotten(request.owner, tool))
    return wire.ForgottenRules(tool, count)


def _no_question(question_id: str) -> Refusal:
    shown = shorten(question_id)
    text = f"There is no open question {shown!r}: it was answered, its time is over, or this token may not answer it."
    return Refusal(404, "not_found", text)


async def _render_question(question: Question, workspace: Path | None) -> wire.QuestionView:
    shown = msgspec.convert(question, wire.QuestionView, from_attributes=True)
    change: list[str] = []
    if question.kind == "approval" and question.tool in WRITERS:
        change = await asyncio.to_thread(render_diff, question, workspace)
    return structs.replace(shown, expires_in=max(0.0, question.expires_in), change=change)


def _render_rule(rule: Rule) -> wire.ListedRule:
    return wire.ListedRule(rule.tool, rule.kind, rule.subject, "always" if rule.answer.decision == "allow" else "never")
