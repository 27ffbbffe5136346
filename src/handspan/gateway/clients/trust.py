"""Questions of devices to their owner: do you trust this? A bridge asks before it first starts an app (ws.md 7.5)."""

import asyncio
import logging
from typing import Final

from handspan.core.errors import HandspanError
from handspan.core.questions import Question, QuestionAction
from handspan.core.values import strip_invisible
from handspan.gateway.clients.peers import Peer
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.wire.ws_frames import TrustAnswer, TrustRequest

_log = logging.getLogger(__name__)
_SECONDS: Final = 24 * 3600.0
"""How long such a question waits. A device asks again later."""
_MOST_OPEN: Final = 256
_MOST_SHOWN: Final = 1000


class DeviceTrust:
    """Asks for devices. The question has no call, so it outlives the device's link, and the gateway's process too."""

    def __init__(self, questions: AwaitedQuestions) -> None:
        self._questions = questions
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._peers: dict[str, Peer] = {}
        """The device that gets the answer, by the id of the question."""

    def ask(self, peer: Peer, frame: TrustRequest) -> None:
        """Ask the owner of this device, and send it the answer. A question that is open already is not asked twice."""
        question = _question(peer, frame)
        self._peers[question.id] = peer
        if question.id in self._asking:
            return
        if len(self._asking) >= _MOST_OPEN:
            peer.send(TrustAnswer(frame.id, "expired"))
            return
        task = self._asking[question.id] = asyncio.create_task(self._ask(question, frame.id))
        task.add_done_callback(lambda _: self._asking.pop(question.id, None))

    async def close(self) -> None:
        """Stop waiting. The questions stay open in the store."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, question: Question, asked_as: str) -> None:
        try:
            answer = await self._questions.ask(question)
        except HandspanError as error:
            _log.warning("A question of the device %r could not be asked: %s", question.tool, error)
            return
        finally:
            peer = self._peers.pop(question.id)
        peer.send(TrustAnswer(asked_as, answer.decision))


def _question(peer: Peer, frame: TrustRequest) -> Question:
    return Question(
        id=f"trust/{peer.label}/{frame.id}",
        kind="trust",
        call_id="",
        tool=f"device({peer.label})",
        arguments={},
        subject=strip_invisible(frame.subject)[:_MOST_SHOWN],
        owner=peer.who.owner,
        session="",
        fingerprint="",
        expires_in=_SECONDS,
        action=QuestionAction(old=frame.old, new=frame.new),
    )
