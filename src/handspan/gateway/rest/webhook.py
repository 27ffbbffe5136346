"""`POST /webhook`: a message to an agent, and its answer."""

import math
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.core.messages import AssistantMessage, Text, UserMessage
from handspan.core.records import SessionKind
from handspan.gateway.entry.host_policy import address_of
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, Reply, RestRequest
from handspan.wire.rest.sessions import WaitingAnswer, WebhookAnswer, WebhookBody, WebhookHeaders

family: Final = Family("webhook")


class _Stored(Struct, frozen=True):
    """An answer as other nodes get it: one of the two."""

    answered: WebhookAnswer | None = None
    waiting: WaitingAnswer | None = None


class WebhookCodec:
    """Implements `AnswerCodec` for the answers of this route (SPEC K5)."""

    async def encode(self, answer: Struct) -> bytes | None:
        """Return the answer as bytes."""
        waiting = answer.content if isinstance(answer, Reply) else None
        stored = _Stored(
            answer if isinstance(answer, WebhookAnswer) else None,
            waiting if isinstance(waiting, WaitingAnswer) else None,
        )
        return msgspec.json.encode(stored)

    def decode(self, stored: bytes) -> Struct:
        """Return the answer of these bytes."""
        found = msgspec.json.decode(stored, type=_Stored)
        return found.answered or Reply(found.waiting or b"", 202)


@family.post("/webhook", also={202: WaitingAnswer}, also_refuses=(404, 409, 421, 429, 500, 503))
async def webhook(request: RestRequest, body: WebhookBody, headers: WebhookHeaders) -> WebhookAnswer | Reply:
    """Send a message to an agent and wait for its answer. A repeated key and body get the stored answer."""
    _check_tries(request)
    is_first = False

    async def answer() -> WebhookAnswer | Reply:
        nonlocal is_first
        is_first = True
        return await _answer(request, body, headers)

    asked = fingerprint([body.message, body.persona, headers.x_persona, headers.x_session_id])
    try:
        answered = await request.rest.webhook_answers.answer(request.owner, headers.x_idempotency_key, asked, answer)
    except Exception as error:  # the first request with this key failed: only its own caller gets the error
        if is_first or (isinstance(error, Refusal) and error.code == "idempotency_conflict"):
            raise
        raise Refusal(503, "try_again", "The first request under this key failed. Try again.") from None
    if isinstance(answered, WebhookAnswer):
        return answered if is_first else structs.replace(answered, status="duplicate", idempotent=True)
    assert isinstance(answered, Reply), "nothing else is stored there"
    return answered


def _check_tries(request: RestRequest) -> None:
    tries, address = request.rest.webhook_tries, address_of(request.asgi.scope)
    if wait := tries.wait(address):
        text = f"Too many messages came from this address: wait {math.ceil(wait)} s."
        raise Refusal(429, "rate_limited", text, wait)
    tries.note(address)


async def _answer(request: RestRequest, body: WebhookBody, headers: WebhookHeaders) -> WebhookAnswer | Reply:
    """Run the turn of the message, and return its answer. Raises `Refusal` when there is none."""
    sessions, who = request.sessions, request.who
    persona = body.persona or headers.x_persona
    if persona:
        await find_agent(request, persona)
    bound = await sessions.bind(headers.x_session_id or None, who, agent=persona)
    session_id = bound.session_id
    session = sessions.get(session_id, who.owner)
    kind: SessionKind = "chat" if headers.x_session_id else "one_shot"
    message = UserMessage((Text(body.message),))
    ended = await session.say(who, message, lambda *_: None, agent=persona, kind=kind).wait_for_end()
    match ended.reason:
        case "pending":
            return Reply(WaitingAnswer("pending", session_id), 202)
        case "error":
            raise Refusal(500, "model_failed", f"LLM request failed: {ended.text}")
        case "aborted":
            raise Refusal(409, "aborted", f"The turn of the session {session_id!r} was stopped before it ended.")
        case _:
            return WebhookAnswer(ended.text, await _model(request, session_id), session_id)


async def _model(request: RestRequest, session_id: str) -> str:
    """Return the model of the last reply."""
    conversations = request.store.conversations
    length = (await conversations.get(session_id, owner=request.owner)).length
    last = await conversations.load(session_id, owner=request.owner, after=max(0, length - 1))
    return last[-1].model if last and isinstance(last[-1], AssistantMessage) else ""
