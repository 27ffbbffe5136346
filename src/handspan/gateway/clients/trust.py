"""Questions of devices to their owner: do you trust this? A bridge asks before it first starts an app (ws.md 7.5)."""

import hashlib
import logging
from typing import Final

import msgspec

from handspan.core.errors import HandspanError
from handspan.core.questions import Question, QuestionAction
from handspan.core.tasks import Tasks
from handspan.core.values import strip_invisible
from handspan.gateway.clients.peer import Peer
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.wire.ws_frames import TrustAnswer, TrustRequest

_log = logging.getLogger(__name__)
_SECONDS: Final = 24 * 3600.0
"""Seconds that a device's question waits. The device asks again later."""
_MOST_OPEN: Final = 256
_MOST_SHOWN: Final = 1000


class DeviceTrust:
    """Asks owners for their devices. A question has no call, so it outlives the device's link and the process."""

    def __init__(self, questions: AwaitedQuestions) -> None:
        self._questions = questions
        self._asked: dict[str, Peer] = {}
        """The devices that get the answers, those of the newest links, by the ids of their open questions."""
        self._tasks = Tasks()

    def ask(self, peer: Peer, frame: TrustRequest) -> None:
        """Ask the owner of this device, and send the device the answer. An open question is not asked twice."""
        question = _question(peer, frame)
        is_open = question.id in self._asked
        if not is_open and len(self._asked) >= _MOST_OPEN:
            peer.send(TrustAnswer(frame.id, "expired"))
            return
        self._asked[question.id] = peer
        if not is_open:
            self._tasks.start(self._ask(question, frame.id))

    async def close(self) -> None:
        """Stop waiting. The questions stay open in the store."""
        await self._tasks.close()

    async def _ask(self, question: Question, request_id: str) -> None:
        """Ask the owner, and send the device the answer."""
        try:
            answer = await self._questions.ask(question)
        except HandspanError as error:
            _log.warning("A question of the device %r could not be asked: %s", question.tool, error)
        else:
            self._asked[question.id].send(TrustAnswer(request_id, answer.decision))
        finally:
            del self._asked[question.id]


def _question(peer: Peer, frame: TrustRequest) -> Question:
    """Return the question of a device to its owner."""
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
