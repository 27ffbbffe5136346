"""Questions of devices to their owner: do you trust this? A bridge asks before it first starts an app (ws.md 7.5)."""

import asyncio
import hashlib
import logging
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.questions import Question, QuestionAction
from handspan.core.values import strip_invisible
from handspan.gateway.clients.peer import Peer
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.wire.ws_frames import TrustAnswer, TrustRequest

_log = logging.getLogger(__name__)
_SECONDS: Final = 24 * 3600.0
"""Seconds that a device's question waits. The device asks again later."""
_MOST_OPEN: Final = 256
_MOST_SHOWN: Final = 1000


class _Asked(Struct):
    """A question that waits for its answer."""

    peer: Peer
    """The device that gets the answer: that of the newest link."""
    task: "asyncio.Task[None] | None" = None


class DeviceTrust:
    """Asks owners for their devices. A question has no call, so it outlives the device's link and the process."""

    def __init__(self, questions: AwaitedQuestions) -> None:
        self._questions = questions
        self._asked: dict[str, _Asked] = {}
        """The open questions of devices of this process, by the id of the question."""

    def ask(self, peer: Peer, frame: TrustRequest) -> None:
        """Ask the owner of this device, and send the device the answer. An open question is not asked twice."""
        question = _question(peer, frame)
        asked = self._asked.get(question.id)
        if asked is not None:
            asked.peer = peer
        elif len(self._asked) >= _MOST_OPEN:
            peer.send(TrustAnswer(frame.id, "expired"))
        else:
            asked = self._asked[question.id] = _Asked(peer)
            asked.task = asyncio.create_task(self._ask(question, asked, frame.id))

    async def close(self) -> None:
        """Stop waiting. The questions stay open in the store."""
        tasks = [asked.task for asked in self._asked.values() if asked.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, question: Question, asked: _Asked, request_id: str) -> None:
        try:
            answer = await self._questions.ask(question)
        except HandspanError as error:
            _log.warning("A question of the device %r could not be asked: %s", question.tool, error)
            return
        finally:
            self._asked.pop(question.id, None)
        asked.peer.send(TrustAnswer(request_id, answer.decision))


def _question(peer: Peer, frame: TrustRequest) -> Question:
    # The owner is part of the id: devices of two owners may have the same label, and choose the same id.
    asked = hashlib.sha256(msgspec.json.encode((peer.who.owner, peer.label, frame.id))).hexdigest()
    return Question(
        id=f"trust/{asked[:32]}",
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
