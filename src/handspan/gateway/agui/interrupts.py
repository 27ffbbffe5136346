"""Questions to a person as interrupts, and their answers in the input of a later run (SPEC F4, P5, P7)."""

import time
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import UNSET

from handspan.core.errors import InvalidAnswer
from handspan.core.principals import Principal
from handspan.core.question_checks import check_answer
from handspan.core.question_rights import person
from handspan.core.questions import FIRST_KINDS, Answer, Question
from handspan.core.values import Json, JsonObject, strip_invisible
from handspan.gateway.agui.request import AguiRequest
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.wire.agui.events import Interrupt
from handspan.wire.agui.run_input import ResumeEntry

_REASONS: Final = {"approval": "tool_call", "permission": "tool_call", "input": "input_required"}
_YES_OR_NO: Final[JsonObject] = {
    "approved": {"type": "boolean"},
    "reason": {"type": "string", "description": "With a no: why, for the agent."},
}
_ALWAYS: Final[JsonObject] = {"type": "boolean", "description": "Do not ask again for this tool."}
_CANCELLED: Final = "The person has left the question without an answer."


def can_be_told(question: Question) -> bool:
    """Whether the question is one for a client of AG-UI: a call waits, and no device asks its own person."""
    return bool(question.call_id) and not question.device


async def open_questions(request: AguiRequest, session: str) -> list[Question]:
    """Return the questions of this session that the person of the client may answer now."""
    found = await request.parts.questions.visible_to(person(request.client.who), session)
    return [question for question in found if can_be_told(question)]


def as_interrupt(question: Question, who: Principal, told: Collection[str]) -> Interrupt:
    """Return the question in the words of AG-UI. `told`: the ids of calls that the client knows."""
    is_told, action = question.call_id in told, question.action
    metadata: JsonObject = {"kind": question.kind, "tool": question.tool}
    if action is not None and (action.url or action.hint):
        metadata |= {"url": action.url, "hint": action.hint}
    return Interrupt(
        question.id,
        _REASONS.get(question.kind, "confirmation") if is_told or question.kind == "input" else "confirmation",
        strip_invisible(f"{question.tool}: {question.subject}" if question.subject else question.tool),
        tool_call_id=question.call_id if is_told else UNSET,
        response_schema=_response_schema(question, who),
        expires_at=moment(time.time() + question.expires_in),
        metadata=metadata,
    )


def _response_schema(question: Question, who: Principal) -> JsonObject:
    if question.schema is not None:
        return question.schema
    properties: JsonObject = {**_YES_OR_NO}
    if question.kind in FIRST_KINDS and not who.agents:
        properties["always"] = _ALWAYS
    if question.kind == "approval":
        properties["editedArgs"] = question.parameters or {"type": "object"}
    return {"type": "object", "properties": properties, "required": ["approved"]}


def read_answers(open_ones: Sequence[Question], who: Principal, resume: Sequence[ResumeEntry]) -> dict[str, Answer]:
    """Return the answers by the ids of their questions. An entry counts only for a question that is open.

    Raises `Refusal` when one is not open, and `InvalidAnswer` when a payload does not fit.
    """
    known = {question.id: question for question in open_ones}
    answers: dict[str, Answer] = {}
    for entry in resume:
        question = known.get(entry.interrupt_id)
        if question is not None:
            answers[question.id] = _read_answer(question, entry)
            check_answer(question, answers[question.id])
            if answers[question.id].always and who.agents:  # a rule is for all agents of the owner (SPEC F1)
                raise InvalidAnswer("A token that is bound to an agent can answer this once: leave 'always' out.")
        elif entry.status == "resolved":
            text = f"The question {entry.interrupt_id[:80]!r} is not open: it was answered, or its time is over."
            raise Refusal(409, "interrupt_not_open", f"{text} Go on with the status 'cancelled' for it.")
    return answers


def _read_answer(question: Question, entry: ResumeEntry) -> Answer:
    """Return the answer of this entry. Raises `InvalidAnswer` for a payload that says neither yes nor no."""
    if entry.status == "cancelled":
        return Answer("deny", reason=_CANCELLED)
    payload: Json = entry.payload
    if question.schema is not None:
        return Answer("allow", value=payload)
    match payload:
        case bool() as approved:
            return Answer("allow" if approved else "deny")
        case {"approved": bool() as approved, **more}:
            edited, reason, always = more.get("editedArgs"), more.get("reason"), more.get("always")
            if edited is not None and not isinstance(edited, dict):
                raise InvalidAnswer("The editedArgs of an answer are an object: all arguments of the call.")
            return Answer(
                "allow" if approved else "deny",
                always=always is True,
                arguments=edited if approved else None,
                reason=strip_invisible(reason) if isinstance(reason, str) and not approved else "",
            )
    raise InvalidAnswer("The payload of an answer is an object with 'approved', true or false.")
