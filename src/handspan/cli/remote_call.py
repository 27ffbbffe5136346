"""One tool, called at a gateway that runs: the same envelope as here, questions asked here (SPEC U2, P5)."""

import asyncio
import uuid
from typing import Final

import msgspec
from msgspec import Struct

from handspan.cli.remote import Answered, Remote, RemoteRefused, segment
from handspan.core.errors import ErrorCode, WireError
from handspan.core.questions import Answer, Question, QuestionAction, QuestionKind, Questions
from handspan.core.results import Failure, encode_envelope
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json

_PATIENCE: Final = "1"
"""Seconds that one request waits for a result, before it is looked whether a person is asked something."""
_ABOUT_THE_CALL: Final[dict[int, ErrorCode]] = {
    404: "tool_not_found",
    413: "invalid_arguments",
    422: "invalid_arguments",
}
"""Statuses of a request that is refused for what it says: the next line of a batch may do better."""


class RemoteQuestion(Struct, frozen=True):
    """A question that waits at the gateway."""

    id: str
    kind: QuestionKind
    call_id: str
    tool: str
    arguments: JsonObject
    subject: str
    session: str
    expires_in: float
    schema: JsonObject | None = None
    action: QuestionAction | None = None

    def as_asked(self) -> Question:
        """The same for whoever asks here. Whose it is, the gateway knows."""
        owner = fingerprint = ""
        return Question(
            self.id,
            self.kind,
            self.call_id,
            self.tool,
            self.arguments,
            self.subject,
            owner,
            self.session,
            fingerprint,
            self.expires_in,
            self.schema,
            self.action,
        )


class _Questions(Struct, frozen=True):
    questions: list[RemoteQuestion]


class _Pending(Struct, frozen=True):
    call_id: str


class _Record(Struct, frozen=True):
    result: msgspec.Raw
    """`null` while the call is open."""


class RemoteCalls:
    """Calls tools as one agent."""

    def __init__(self, remote: Remote, agent: str | None, questions: Questions) -> None:
        self._remote = remote
        self._agent = agent or ""
        self._questions = questions

    def check(self) -> None:
        """`RemoteRefused` when the agent is not there."""
        if self._agent:
            self._remote.get(f"/api/agents/{segment(self._agent)}", JsonObject)

    def call(self, tool: str, arguments: bytes | str) -> bytes:
        """The envelope. A request whose answer got lost is sent again, and the tool runs once all the same."""
        given = _read(tool, arguments)
        if isinstance(given, Failure):
            return encode_envelope(given)
        body = {"args": given, "agent": self._agent}
        try:
            path = f"/api/tools/{segment(tool)}/call"
            answered = self._remote.send("POST", path, body, {"Idempotency-Key": uuid.uuid4().hex})
        except RemoteRefused as refused:
            if refused.status not in _ABOUT_THE_CALL:
                raise
            return encode_envelope(Failure(_ABOUT_THE_CALL[refused.status], str(refused)))
        return answered.body if answered.status == 200 else self._wait(answered)

    def _wait(self, answered: Answered) -> bytes:
        """The envelope that comes later: each wait is bounded here, all of them by the call's own time there."""
        pending = msgspec.json.decode(answered.body, type=_Pending)
        asked: set[str] = set()
        while True:
            self._answer(pending.call_id, asked)
            path = f"/api/calls/{segment(pending.call_id)}"
            record = self._remote.get(path, _Record, wait=_PATIENCE)
            if (envelope := bytes(record.result)) != b"null":
                return envelope

    def _answer(self, call_id: str, asked: set[str]) -> None:
        """Ask the person here what the gateway wants to know; what a device asks its own person is not among it."""
        for question in self._remote.get("/api/questions", _Questions).questions:
            if question.call_id == call_id and question.id not in asked:
                asked.add(question.id)
                answer = asyncio.run(ask_here(question.as_asked(), self._questions))
                given: JsonObject = {"decision": answer.decision, "always": answer.always}
                self._give(question.id, given if answer.value is None else {**given, "value": answer.value})

    def _give(self, question_id: str, answer: JsonObject) -> None:
        try:
            self._remote.change("POST", f"/api/questions/{segment(question_id)}/answer", JsonObject, answer)
        except RemoteRefused as refused:
            if refused.status != 404:  # somebody else was faster, or its time is over
                raise


async def ask_here(question: Question, questions: Questions) -> Answer:
    """What the person here says. Silence is a no: nobody else is waited for."""
    answer = await questions.ask(question)
    return Answer("deny") if answer is None or answer.decision == "expired" else answer


def _read(tool: str, arguments: bytes | str) -> Json | Failure:
    """The arguments as an object; what is none is told in the words that the engine has for it."""
    try:
        given = strict_json.parse(arguments or b"{}")
    except WireError as error:
        return Failure("invalid_arguments", f"The arguments of {tool!r} can't be read: {error}.")
    if not isinstance(given, dict):
        return Failure("invalid_arguments", f"The arguments of {tool!r} must be a JSON object.")
    return given
