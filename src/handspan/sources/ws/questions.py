"""Permission questions that are asked where the tool's person is: on the device (SPEC P2, P3; ws.md 5.9)."""

import asyncio

from handspan.core.questions import Answer, Question
from handspan.sources.ws.calls import Send
from handspan.wire.ws import encode
from handspan.wire.ws_frames import PermissionAnswer, PermissionRequest


class RemoteQuestions:
    """Asks over the link; a link that drops and comes back asks again, and the question's own time runs on."""

    __slots__ = ("_open", "_send")

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}
        self._send: Send | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._open)

    async def ask(self, question: Question) -> Answer:
        """What the person at the device says; `expired` when nobody says anything in time."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, answer)
        try:
            if self._send is not None:
                self._put(question, self._send)
            async with asyncio.timeout(question.expires_in):
                return await answer
        except TimeoutError:
            return Answer("expired")
        finally:
            self._open.pop(question.id, None)

    def answered(self, frame: PermissionAnswer) -> bool:
        """Take the answer; False when nobody waits for it."""
        _, waiting = self._open.get(frame.id, (None, None))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(Answer(frame.decision, how_to_enable=frame.how_to_enable))
        return True

    def up(self, send: Send) -> None:
        """The link is there: ask what is open."""
        self._send = send
        for question, _ in self._open.values():
            self._put(question, send)

    def down(self) -> None:
        """The link is gone; the person may come back in time."""
        self._send = None

    def end(self) -> None:
        """Nobody will answer any more."""
        self._send = None
        for _, waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(Answer("expired"))

    def _put(self, question: Question, send: Send) -> None:
        expires_ms = int(question.expires_in * 1000)
        send(encode(PermissionRequest(question.id, question.call_id, question.tool, question.subject, expires_ms)))
