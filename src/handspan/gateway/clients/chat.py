"""The conversation of one chat client: its words become turns, what happens in them becomes frames (ws.md 3, 6.5)."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Coroutine
from typing import Any, Final

from msgspec import structs

from handspan.agent.refusals import TurnRefused
from handspan.agent.sessions import Bound, Sessions
from handspan.agent.turn import Handle
from handspan.agent.turn_events import AnsweredBefore, Happening, MessageStored
from handspan.core.errors import HandspanError, InvalidAnswer
from handspan.core.events import Ended
from handspan.core.messages import Text, UserMessage
from handspan.core.questions import Answer
from handspan.gateway.clients.chat_frames import ChatFrames, EventFrames, error_frame
from handspan.gateway.clients.peers import Peer
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.wire.ws_frames import (
    Abort,
    AbortAck,
    AbortedFrame,
    AnswerFrame,
    ChunkReset,
    Done,
    ErrorFrame,
    EventFrame,
    MessageAccepted,
    QuestionClosed,
    Regenerate,
    Say,
    ServerFrame,
    TitleUpdated,
)

_log = logging.getLogger(__name__)
_MOST_KEPT: Final = 4096
"""Events for a client that comes back."""
_MOST_MESSAGES: Final = 64
"""Of which it is remembered what became of them."""
_NOT_TAKEN: Final = "The message came when its turn was over, and was not taken: send it again."
_STOPPED: Final = "The message was still waiting when the session's turns were stopped, and is not part of it."


class ChatConnection:
    """Takes frames of a conversation. While the link is down and the client may come back, its turn goes on."""

    __slots__ = (
        "_accepted",
        "_beside",
        "_bound",
        "_frames",
        "_kept",
        "_last",
        "_peer",
        "_questions",
        "_refused",
        "_running",
        "_session",
        "_told_ends",
        "_unkept",
        "_unlisten",
    )

    def __init__(self, peer: Peer, sessions: Sessions, questions: AwaitedQuestions, bound: Bound, seq: int = 0) -> None:
        """`seq` is the last event that the client had before this one knew it: what is not above it is old to it."""
        self._peer = peer
        self._questions = questions
        self._bound = bound
        self._running: set[Handle] = set()
        self._beside: set[asyncio.Task[None]] = set()
        hears_all, shows, all_kinds = "events" in peer.can, "questions" in peer.can, "question_kinds" in peer.can
        self._frames: EventFrames | ChatFrames = (
            EventFrames(questions=shows, all_kinds=all_kinds, me=peer.id, seq=seq)
            if hears_all
            else ChatFrames(questions=shows, all_kinds=all_kinds, me=peer.id)
        )
        # Who did not ask for events hears of the turns that it began; the session is its owner's all the same.
        hear = self._hear if hears_all else _hear_nothing
        self._session = sessions.get(bound.session_id, peer.who.owner)
        self._unlisten = self._session.listen(hear)
        self._kept: deque[tuple[int, EventFrame | MessageAccepted]] = deque(maxlen=_MOST_KEPT)
        """What the client may not have heard, each with the number of the event that it is, or comes before."""
        self._last: list[tuple[str, ServerFrame]] = []
        """How turns ended while the link was down, for a client without events."""
        self._told_ends: set[str] = set()
        """Turns whose end such a client was told when it came back."""
        self._unkept: dict[str, Say] = {}
        """Messages of the client that are not part of the session yet, by their ids."""
        self._accepted: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """Those that are: the hash of the words, and the turn that answers them."""
        self._refused: OrderedDict[str, ErrorFrame] = OrderedDict()
        """Messages that were refused while the link was down: this is the answer when they are sent again."""

    def say(self, frame: Say) -> None:
        """Let a message of the client be answered."""
        said = frame if "resume" in self._peer.can else structs.replace(frame, id="")
        if not self._is_new(said):
            return
        message, bound = UserMessage((Text(said.text),), said.id), self._bound
        try:
            handle = self._session.say(
                self._peer.who,
                message,
                self._hear,
                agent=bound.persona,
                name=bound.name,
                join=said.join,
                debug=said.debug,
            )
        except TurnRefused as error:
            self._refuse(error, said)
        else:
            self._follow(handle, said)

    def take(self, frame: Abort | Regenerate | AnswerFrame) -> None:
        """Do what else the client asks for."""
        match frame:
            case Regenerate():
                self._regenerate(frame)
            case Abort():
                was_running = self._session.abort()
                self._peer.send(AbortAck("aborted" if was_running else "no_active_response"))
            case AnswerFrame():
                self._do(self._answer(frame))

    # The link.

    def up(self, last_event: int | None) -> None:
        """The client is back: it hears what it missed."""
        for seq, kept in self._kept:
            if last_event is None or seq > last_event:
                self._peer.send(kept)
        missed, self._last = self._last, []
        self._told_ends = {turn for turn, _ in missed}
        for _, frame in missed:
            self._peer.send(frame)

    def down(self) -> None:
        """The link is gone. Whoever can't come back has no more turn (SPEC W7)."""
        if "resume" not in self._peer.can:
            for handle in self._running:
                handle.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs that the client began."""
        return bool(self._running)

    def end(self) -> None:
        """The client will not come back: what runs goes on to its end, and is kept; nobody hears it."""
        self._kept.clear()
        self._last.clear()
        self._unlisten()

    # Turns.

    def _is_new(self, frame: Say) -> bool:
        """Whether this has to be said: a message on its way needs no second one, a refused one has its answer."""
        if not frame.text.strip():
            self._peer.send(ErrorFrame("A message needs words in its content.", "EMPTY_CONTENT", frame.id))
        elif frame.id in self._refused:
            self._peer.send(self._refused.pop(frame.id))
        elif turn := self._answered_in(frame):
            self._peer.send(MessageAccepted(frame.id, turn))
        elif frame.id not in self._unkept:
            if frame.id:
                self._unkept[frame.id] = frame
            return True
        return False

    def _regenerate(self, frame: Regenerate) -> None:
        try:
            handle = self._session.regenerate(self._peer.who, self._hear, debug=frame.debug)
        except TurnRefused as error:
            self._refuse(error, None)
        else:
            self._follow(handle, None)

    async def _answer(self, frame: AnswerFrame) -> None:
        answer = Answer(frame.decision, frame.always, frame.arguments, value=frame.value)
        try:
            if not await self._questions.answer(frame.id, answer, owner=self._peer.who.owner, by=self._peer.id):
                self._peer.send(QuestionClosed(frame.id, False))
        except InvalidAnswer as error:
            self._peer.send(ErrorFrame(str(error), "INVALID_ANSWER", frame.id))

    def _hear(self, happening: Happening, turn: str) -> None:
        """Tell the client, in the words that it knows."""
        if isinstance(happening, MessageStored):
            self._accept(happening.id, turn)
        elif not (isinstance(happening, AnsweredBefore) and self._has_been_told(turn)):
            for frame in self._frames.frames(happening, turn):
                if isinstance(frame, EventFrame) and "resume" in self._peer.can:
                    self._kept.append((frame.seq, frame))
                self._put(frame, turn)

    def _accept(self, message_id: str, turn: str) -> None:
        if message_id in self._unkept:
            self._accepted[message_id] = (hash(self._unkept.pop(message_id).text), turn)
            _forget_oldest(self._accepted)
        accepted = MessageAccepted(message_id, turn)
        if isinstance(self._frames, EventFrames):  # who comes back hears first which events are the answer
            self._kept.append((self._frames.seq + 1, accepted))
        self._peer.send(accepted)

    def _answered_in(self, frame: Say) -> str:
        """The turn that has answered this message, if the client has heard how: a failed one is not tried again."""
        words, turn = self._accepted.get(frame.id, (0, ""))
        return turn if turn and words == hash(frame.text) and self._has_been_told(turn) else ""

    def _has_been_told(self, turn: str) -> bool:
        """Whether the client has this turn's end, or is sent it when it comes back."""
        return turn in self._told_ends or any(_is_end(kept, turn) for _, kept in self._kept)

    def _put(self, frame: ServerFrame, turn: str = "") -> None:
        if self._peer.line is None and isinstance(frame, ChunkReset | Done | TitleUpdated | AbortedFrame | ErrorFrame):
            self._last.append((turn, frame))
        self._peer.send(frame)

    def _fail(self, error: ErrorFrame) -> None:
        """Say why something was not begun. Who is not there hears it when the message is sent again (ws.md 6.5)."""
        if not error.id or self._peer.line is not None:
            self._put(error)
            return
        self._refused[error.id] = error
        _forget_oldest(self._refused)

    # Work that belongs to this client.

    def _follow(self, handle: Handle, message: Say | None) -> None:
        """Tell the client if its request comes to nothing. Without a way to come back, its turn ends with the link."""
        self._running.add(handle)
        self._do(self._wait(handle, message), message)

    async def _wait(self, handle: Handle, message: Say | None) -> None:
        try:
            ended = await handle.end()
        finally:
            self._running.discard(handle)
        if message is not None and self._unkept.get(message.id) is message:
            self._fail(_not_kept(ended, message.id))

    def _do(self, work: Coroutine[Any, Any, None], message: Say | None = None) -> None:
        """Do this to its end, also when the link is down: what a person has decided counts all the same."""
        task = asyncio.create_task(self._tell_failure(work, message))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _tell_failure(self, work: Coroutine[Any, Any, None], message: Say | None) -> None:
        message_id = "" if message is None else message.id
        try:
            await work
        except TurnRefused as error:
            self._fail(ErrorFrame(str(error), error.code, message_id))
        except HandspanError as error:
            self._fail(ErrorFrame(str(error), "AGENT_ERROR", message_id))
        except Exception:  # whatever it was: the client waits for a word
            _log.exception("A turn failed")
            self._fail(ErrorFrame("The turn failed inside the gateway; its log says more.", "AGENT_ERROR", message_id))
        finally:
            self._forget(message)

    def _refuse(self, error: TurnRefused, message: Say | None) -> None:
        self._fail(ErrorFrame(str(error), error.code, "" if message is None else message.id))
        self._forget(message)

    def _forget(self, message: Say | None) -> None:
        """The message is not on its way any more. Another one of its id may have come meanwhile."""
        if message is not None and self._unkept.get(message.id) is message:
            del self._unkept[message.id]


def _forget_oldest(messages: OrderedDict[str, Any]) -> None:
    if len(messages) > _MOST_MESSAGES:
        messages.popitem(last=False)


def _not_kept(ended: Ended, message_id: str) -> ErrorFrame:
    """Why a message is not part of the session, by the end of the turn that should have answered it."""
    if ended.reason == "aborted":
        return ErrorFrame(_STOPPED, "ABORTED", message_id)
    failed = error_frame(ended if ended.reason == "error" else Ended("error", _NOT_TAKEN))
    return ErrorFrame(failed.message, failed.code, message_id)


def _is_end(frame: EventFrame | MessageAccepted, turn: str) -> bool:
    if not isinstance(frame, EventFrame) or frame.turn != turn or not isinstance(frame.event, dict):
        return False
    return frame.event["type"] == "ended" and frame.event["reason"] != "pending"


def _hear_nothing(_: Happening, turn: str) -> None:
    """For a client that only hears of its own turns."""
