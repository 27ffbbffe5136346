"""Permission questions to the person at the device (SPEC P2, P3, P5; ws.md 5.9)."""

import asyncio
from typing import Final

from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.sources.ws.calls import Send
from handspan.wire.ws import encode
from handspan.wire.ws_frames import PermissionAnswer, PermissionRequest, QuestionClosed

_MAX_CLOSED: Final = 1000


class RemoteQuestions:
    """Asks the person over the client's link. If the link drops, the next link asks again; the question's time runs on.

    A question whose call has ended is taken back, so that the person does not answer it for nothing.
    """

    __slots__ = ("_open", "_send", "_to_close")

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, asyncio.Future[Answer]]] = {}
        self._send: Send | None = None
        """Sends a frame over the link; None without a link."""
        self._to_close: list[str] = []
        """Questions that ended while there was no link."""

    @property
    def is_open(self) -> bool:
        """Whether a question waits for its answer."""
        return bool(self._open)

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the answer of the person at the device; `expired` when the answer does not come in time."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, answer)
        opened()
        try:
            if self._send is not None:
                self._send_question(question, self._send)
            async with asyncio.timeout(question.expires_in):
                return await answer
        except TimeoutError:
            return Answer("expired")
        finally:
            self._open.pop(question.id, None)
            if not answer.done() or answer.cancelled():
                self._close(question.id)

    def receive_answer(self, frame: PermissionAnswer) -> bool:
        """Give the answer to its question. Return False when no open question has this id."""
        _, waiting = self._open.get(frame.id, (None, None))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(Answer(frame.decision, how_to_enable=frame.how_to_enable))
        return True

    def open_link(self, send: Send) -> None:
        """Use this link, and send the open questions over it."""
        self._send = send
        closed, self._to_close = self._to_close, []
        for question_id in closed:
            self._close(question_id)
        for question, _ in self._open.values():
            self._send_question(question, send)

    def drop_link(self) -> None:
        """Forget the link, which has dropped. The questions wait for the next link."""
        self._send = None

    def end(self) -> None:
        """Let every open question expire: the client will not return."""
        self._send = None
        for _, waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(Answer("expired", reason="the device has disconnected"))

    def _close(self, question_id: str) -> None:
        """Take the question back: at once, or with the next link."""
        if self._send is not None:
            self._send(encode(QuestionClosed(question_id, accepted=False)))
        elif len(self._to_close) < _MAX_CLOSED:
            self._to_close.append(question_id)

    def _send_question(self, question: Question, send: Send) -> None:
        expires_ms = int(question.expires_in * 1000)
        about = (question.id, question.call_id, question.tool, question.subject, expires_ms)
        send(encode(PermissionRequest(*about, question.arguments, question.agent)))
