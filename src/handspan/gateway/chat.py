"""The conversation of one chat client: its words become turns, what happens in them becomes frames (ws.md 3, 6.5)."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from handspan.core.errors import HandspanError
from handspan.core.messages import Text, UserMessage
from handspan.core.questions import Answer as PersonsAnswer
from handspan.gateway.chat_frames import ChatFrames, EventFrames
from handspan.gateway.peers import Peer
from handspan.gateway.questions import AwaitedQuestions
from handspan.gateway.turn_events import Happening
from handspan.gateway.turns import Bound, TurnRefused, Turns
from handspan.wire.ws_frames import (
    Abort,
    AbortAck,
    Answer,
    ChunkReset,
    Done,
    Error,
    EventFrame,
    QuestionClosed,
    Regenerate,
    Say,
    ServerFrame,
    TitleUpdated,
)
from handspan.wire.ws_frames import Aborted as AbortedFrame

_log = logging.getLogger(__name__)
_MOST_KEPT: Final = 4096
"""Events for a client that comes back."""


class Chat:
    """Takes frames of a conversation. While the link is down and the client may come back, its turn goes on."""

    __slots__ = ("_bound", "_frames", "_kept", "_last", "_peer", "_questions", "_running", "_turns", "_unwatch")

    def __init__(self, peer: Peer, turns: Turns, questions: AwaitedQuestions, bound: Bound) -> None:
        self._peer = peer
        self._turns = turns
        self._questions = questions
        self._bound = bound
        self._running: set[asyncio.Task[None]] = set()
        hears_all, shows = "events" in peer.can, "questions" in peer.can
        self._frames: EventFrames | ChatFrames = (EventFrames if hears_all else ChatFrames)(questions=shows, me=peer.id)
        # Who did not ask for events hears of the turns that it began; the session is its owner's all the same.
        hear = self._hear if hears_all else _hear_nothing
        self._unwatch = turns.watch(bound.session_id, peer.who.owner, hear)
        self._kept: deque[EventFrame] = deque(maxlen=_MOST_KEPT)
        """Events of which the client may not have heard."""
        self._last: list[ServerFrame] = []
        """How the turn ended while the link was down, for a client without events."""

    def take(self, frame: Say | Abort | Regenerate | Answer) -> None:
        """What the client says."""
        match frame:
            case Say() if not frame.text.strip():
                self._peer.send(Error("A message needs words in its content.", "EMPTY_CONTENT"))
            case Say():
                self._start(self._say(frame))
            case Regenerate():
                self._start(self._regenerate(frame))
            case Abort():
                self._start(self._abort())
            case Answer():
                self._start(self._answer(frame))

    # The link.

    def up(self, last_event: int | None) -> None:
        """The client is back: it hears what it missed."""
        if last_event is not None and isinstance(self._frames, EventFrames):
            # ws.md 3.7: after a restart of the gateway it goes on where the client is, or the client takes it for old.
            self._frames.seq = max(self._frames.seq, last_event)
        for event in self._kept:
            if last_event is None or event.seq > last_event:
                self._peer.send(event)
        missed, self._last = self._last, []
        for frame in missed:
            self._peer.send(frame)

    def down(self) -> None:
        """The link is gone. Whoever can't come back has no more turn (SPEC W7)."""
        if "resume" not in self._peer.can:
            for task in self._running:
                task.cancel()

    def end(self) -> None:
        """The client will not come back: what runs goes on to its end, and is kept; nobody hears it."""
        self._kept.clear()
        self._last.clear()
        self._unwatch()

    # Turns.

    async def _say(self, frame: Say) -> None:
        message = UserMessage((Text(frame.text),))
        bound, who = self._bound, self._peer.who
        await self._turns.say(
            bound.session_id,
            who,
            message,
            self._hear,
            agent=bound.persona,
            name=bound.name,
            join=frame.join,
            debug=frame.debug,
        )

    async def _regenerate(self, frame: Regenerate) -> None:
        await self._turns.regenerate(self._bound.session_id, self._peer.who, self._hear, debug=frame.debug)

    async def _abort(self) -> None:
        was_running = await self._turns.abort(self._bound.session_id, self._peer.who.owner)
        self._peer.send(AbortAck("aborted" if was_running else "no_active_response"))

    async def _answer(self, frame: Answer) -> None:
        answer = PersonsAnswer(frame.decision, frame.always, frame.arguments)
        if not await self._questions.answer(frame.id, answer, owner=self._peer.who.owner, by=self._peer.id):
            self._peer.send(QuestionClosed(frame.id, False))

    def _hear(self, happening: Happening) -> None:
        """Tell the client, in the words that it knows."""
        for frame in self._frames.frames(happening):
            if isinstance(frame, EventFrame) and "resume" in self._peer.can:
                self._kept.append(frame)
            self._put(frame)

    def _put(self, frame: ServerFrame) -> None:
        if self._peer.line is None and isinstance(frame, ChunkReset | Done | TitleUpdated | AbortedFrame | Error):
            self._last.append(frame)
        self._peer.send(frame)

    # Work that belongs to this client.

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._told(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # a link that drops at once cancels before anything began

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TurnRefused as error:
            self._put(Error(str(error), error.code))
        except HandspanError as error:
            self._put(Error(str(error), "AGENT_ERROR"))
        except Exception:
            _log.exception("A turn failed")
            self._put(Error("The turn failed inside the gateway; its log says more.", "AGENT_ERROR"))


def _hear_nothing(_: Happening) -> None:
    """For a client that only hears of its own turns."""
