"""Questions that the AI SDK shows as approvals, and their answers (SPEC P5, P7).

A client says in its next request what its person has answered. Only the id of a stored, open question of this chat
counts: nothing else that a message says of approvals does.
"""

from collections.abc import Mapping, Sequence

from handspan.core.errors import InvalidAnswer
from handspan.core.principals import Principal
from handspan.core.question_rights import person
from handspan.core.questions import FIRST_KINDS, Answer, Question
from handspan.core.values import Json
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.client import RunClient
from handspan.wire.ui_stream import UiMessage, UiPart


def is_approval(question: Question, who: Principal) -> bool:
    """Whether the client can show this question as an approval: yes or no, and its person may answer here."""
    return question.kind in FIRST_KINDS and not question.device and person(who).may_answer(question)


async def open_questions(parts: GatewayParts, client: RunClient, session: str) -> list[Question]:
    """Return the open questions of calls of this session."""
    found = await parts.questions.open_for(owner=client.owner, session=session)
    return [question for question in found if question.call_id]


async def answer_approvals(parts: GatewayParts, client: RunClient, session: str, message: UiMessage) -> None:
    """Answer the questions of this session that the message answers. Raises `Refusal`, and then answers none.

    A question that was answered elsewhere, or has expired, is left as it is: the client is told what came of its call.
    """
    asked = {one.id: one for one in await open_questions(parts, client, session) if is_approval(one, client.who)}
    answers: list[tuple[str, Answer]] = []
    for part in message.parts:
        if not part.tool or part.state != "approval-responded" or part.approval is None:
            continue
        question = asked.get(part.approval.id)
        if question is not None and question.call_id == part.toolCallId:
            answers.append((question.id, _answer(part, question)))
        elif not await _is_call_of(parts, client, session, part.toolCallId or ""):
            text = f"No question {part.approval.id[:80]!r} waits in this chat: answer the one that its stream asked."
            raise Refusal(400, "question_unknown", text)
    for question_id, answer in answers:
        try:
            await parts.questions.answer(question_id, answer, person(client.who))
        except InvalidAnswer as error:
            raise Refusal(400, "invalid_answer", str(error)) from None


async def _is_call_of(parts: GatewayParts, client: RunClient, session: str, call_id: str) -> bool:
    record = await parts.store.ledger.find(call_id)
    return record is not None and (record.session, record.owner) == (session, client.owner)


def _answer(part: UiPart, question: Question) -> Answer:
    """Return the answer. An `input` that differs from the question's arguments is the person's edit."""
    assert part.approval is not None, "the caller has looked"
    if not part.approval.approved:
        return Answer("deny", reason=part.approval.reason or "")
    if not isinstance(part.input, dict) or is_same_json(part.input, dict(question.arguments)):
        return Answer("allow")
    return Answer("allow", arguments=part.input)


def is_same_json(one: Json, other: Json) -> bool:
    """Whether two values are the same to JavaScript, which has one kind of number."""
    match one, other:
        case bool(), _:
            return one is other
        case int() | float(), int() | float():
            return not isinstance(other, bool) and float(one) == float(other)
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(is_same_json(one[key], other[key]) for key in one)
        case str(), _:
            return one == other
        case Sequence(), Sequence():
            return len(one) == len(other) and all(map(is_same_json, one, other))
    return one == other
