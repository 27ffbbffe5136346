"""The conversation of one chat client: its messages become turns, the events of turns become frames (ws.md 3, 6.5)."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, NamedTuple

from msgspec import structs

from handspan.agent.refusals import TurnHandedOver, TurnRefused
from handspan.agent.sessions import Bound, Sessions
from handspan.agent.turn import Handle
from handspan.agent.turn_events import AnsweredBefore, MessageStored, SessionEvent
from handspan.core.artifacts import Artifacts
from handspan.core.bounded import BoundedDict
from handspan.core.errors import HandspanError, InvalidAnswer
from handspan.core.events import Compacted, Ended, QuestionAsked, WentBack
from handspan.core.messages import Media, Text, UserMessage
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.tasks import Tasks
from handspan.gateway.clients.chat_frames import ChatFrames, EventFrames, error_frame
from handspan.gateway.clients.peer import Peer
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.sources.ws.outcome import attachment
from handspan.wire.ws import ServerFrame
from handspan.wire.ws_chat_frames import (
    Abort,
    AbortAck,
    AbortedFrame,
    AnswerFrame,
    ChunkReset,
    Done,
    EventFrame,
    MessageAccepted,
    Regenerate,
    Say,
    TitleUpdated,
)
from handspan.wire.ws_frames import ErrorFrame, LoginStart, QuestionClosed

_log = logging.getLogger(__name__)
_MAX_REPLAYED: Final = 4096
"""Events that are stored for a client that comes back."""
_MAX_MESSAGES: Final = 64
"""Messages of which the outcome is remembered."""
_NOT_ACCEPTED: Final = "The message came when its turn was over, and was not accepted: send it again."
_NO_MESSAGE: Final = Say("")
"""In place of a message, for a turn that answers none of the client."""
_STOPPED: Final = "The message was still waiting when the session's turns were stopped, and is not part of it."


class _AcceptedText(NamedTuple):
    """What is kept of a message that is part of the session: enough to know it when it comes again."""

    text_hash: int
    """In place of the text, which may be long: the same id with another text is another message."""
    turn: str
    """The id of the turn that answers it."""


class ChatConnection:
    """Takes the frames of a chat client. Its turns go on while the link is down, if the client may come back."""

    def __init__(
        self,
        peer: Peer,
        sessions: Sessions,
        questions: AwaitedQuestions,
        artifacts: Artifacts,
        bound: Bound,
        seq: int = 0,
    ) -> None:
        """`seq` is the number of the last event that the client got over an earlier connection."""
        self._peer = peer
        self._artifacts = artifacts
        self._questions = questions
        self._answerer = person(peer.who)
        self._bound = bound
        self._running: set[Handle] = set()
        """The turns that the client began and that have not ended."""
        self._beside = Tasks()
        """The tasks of `_do`."""
        shows, all_kinds, versions = (one in peer.can for one in ("questions", "question_kinds", "versions"))
        self._gets_all = "events" in peer.can
        self._own_turns: BoundedDict[str, None] = BoundedDict(_MAX_MESSAGES)
        """Turns that answer this client. A client without the capability `events` gets only their events."""
        self._frames: EventFrames | ChatFrames = (
            EventFrames(questions=shows, all_kinds=all_kinds, versions=versions, me=peer.id, seq=seq)
            if self._gets_all
            else ChatFrames(questions=shows, all_kinds=all_kinds, versions=versions, me=peer.id)
        )
        self._session = sessions.get(bound.session_id, peer.who.owner)
        # Listens before any message: a turn that waited is resumed without its first listener.
        self._unlisten = self._session.listen(self._on_event)
        self._replay: deque[tuple[int, EventFrame | MessageAccepted]] = deque(maxlen=_MAX_REPLAYED)
        """Frames that the client may have missed, each with the number of the event that it is, or precedes."""
        self._missed_ends: list[tuple[str, ServerFrame]] = []
        """How turns ended while the link was down, for a client without events."""
        self._sent_ends: BoundedDict[str, None] = BoundedDict(_MAX_MESSAGES)
        """Turns whose end a client without events, which can come back, was sent over its present link."""
        self._unstored: dict[str, Say] = {}
        """Messages of the client that are not part of the session yet, by their ids."""
        self._accepted: BoundedDict[str, _AcceptedText] = BoundedDict(_MAX_MESSAGES)
        """Messages that are part of the session, by their ids."""
        self._refused: BoundedDict[str, ErrorFrame] = BoundedDict(_MAX_MESSAGES)
        """Messages that were refused while the link was down: the answer when they are sent again."""
        self._reading = asyncio.Lock()
        """Held while the parts of a message are read. The messages after it wait, in order."""
        self._unread: list[Say] = []
        """Messages that wait for their own parts, or for those of a message before them."""

    def say(self, frame: Say) -> None:
        """Answer a message of the client in a turn."""
        frame = frame if "resume" in self._peer.can else structs.replace(frame, id="")
        if not self._take_if_new(frame):
            return
        if frame.parts or self._unread:
            self._unread.append(frame)  # now: the next message may come before the task has begun
            self._do(self._say_with_parts(frame))
        else:
            self._say(frame, UserMessage((Text(frame.text),), frame.id))

    async def _say_with_parts(self, frame: Say) -> None:
        """Answer a message whose parts are read first; what comes meanwhile waits for it."""
        owner = self._peer.who.owner
        try:
            async with self._reading:
                media = [Media(await attachment(part, self._artifacts, owner)) for part in frame.parts]
                texts = (Text(frame.text),) if frame.text.strip() else ()
                self._say(frame, UserMessage((*texts, *media), frame.id))
        except HandspanError as error:
            self._fail(ErrorFrame(str(error), "AGENT_ERROR", frame.id))
            self._forget(frame)
        finally:
            self._unread.remove(frame)

    def _say(self, frame: Say, message: UserMessage) -> None:
        """Begin a turn for the message, or refuse it."""
        bound = self._bound
        try:
            handle = self._session.say(
                self._peer.who,
                message,
                self._on_event,
                agent=bound.named_agent,
                name=bound.name,
                kind=bound.kind,
                join=frame.join,
                debug=frame.debug,
                replaces=frame.replaces,
            )
        except TurnRefused as error:
            self._refuse(error, frame)
        else:
            self._follow(handle, frame)

    def take(self, frame: Abort | Regenerate | AnswerFrame | LoginStart) -> None:
        """Do what the client asks for, other than `say`."""
        match frame:
            case LoginStart():
                self._do(self._pass_on(frame.id, self._questions.start_login(frame.id, self._answerer)))
            case Regenerate():
                self._regenerate(frame)
            case Abort():
                if self._session.abort():
                    self._peer.send(AbortAck("aborted"))
                else:
                    self._do(self._abort_waiting())
            case AnswerFrame():
                answer = Answer(frame.decision, frame.always, frame.arguments, value=frame.value, reason=frame.reason)
                answering = self._questions.answer(frame.id, answer, self._answerer, by=self._peer.id)
                self._do(self._pass_on(frame.id, answering))

    # The link.

    def up(self, last_event: int | None) -> None:
        """Send the client what it missed: its link is back."""
        for seq, frame in self._replay:
            if last_event is None or seq > last_event:
                self._peer.send(frame)
        missed, self._missed_ends = self._missed_ends, []
        self._sent_ends.clear()
        for turn, end in missed:
            self._send(end, turn)

    def catch_up(self) -> None:
        """Send a new client the events of the round that runs, if it takes events."""
        if self._gets_all:
            self._session.listeners.catch_up(self._on_event)

    def down(self) -> None:
        """Abort the turns of a client that can't come back: its link is gone (SPEC W7)."""
        if "resume" not in self._peer.can:
            for handle in self._running:
                handle.abort()

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs that the client began. A turn whose end the client was sent runs no more."""
        return any(not handle.turn.is_over for handle in self._running)

    def end(self) -> None:
        """Stop listening: the client will not come back. Its turns go on to their end, and are stored."""
        self._replay.clear()
        self._missed_ends.clear()
        self._unlisten()

    # Turns.

    def _take_if_new(self, frame: Say) -> bool:
        """Note a message that needs a turn, and return True.

        Another message gets its answer at once: it is empty, or came before, which its id says.
        """
        if not frame.text.strip() and not frame.parts:
            self._peer.send(ErrorFrame("A message needs words in its content.", "EMPTY_CONTENT", frame.id))
        elif frame.id in self._refused:
            self._peer.send(self._refused.pop(frame.id))
        elif turn := self._known_turn(frame):
            self._peer.send(MessageAccepted(frame.id, turn))
        elif frame.id not in self._unstored:
            if frame.id:
                self._unstored[frame.id] = frame
            return True
        return False

    def _regenerate(self, frame: Regenerate) -> None:
        try:
            handle = self._session.regenerate(self._peer.who, self._on_event, debug=frame.debug)
        except TurnRefused as error:
            self._refuse(error, _NO_MESSAGE)
        else:
            self._follow(handle, _NO_MESSAGE)

    async def _abort_waiting(self) -> None:
        """Stop a turn that waits for another agent, without a process that runs it."""
        is_stopped = await self._session.abort_waiting()
        self._peer.send(AbortAck("aborted" if is_stopped else "no_active_response"))

    async def _pass_on(self, question_id: str, taking: Awaitable[bool]) -> None:
        """Wait for `taking`: whether the question took the client's answer or login. Tell the client if it did not."""
        try:
            if not await taking:
                self._peer.send(QuestionClosed(question_id, accepted=False))
        except InvalidAnswer as error:
            self._peer.send(ErrorFrame(str(error), "INVALID_ANSWER", question_id))

    def _on_event(self, event: SessionEvent, turn: str) -> None:
        """Send an event of the session to the client, in the frames that it knows, if it is for this client."""
        if isinstance(event, MessageStored):
            self._note_own_turn(turn)
            self._accept(event.id, turn)
        elif isinstance(event, AnsweredBefore):
            if not self._has_end(turn):
                self._send_event(event, turn)
        elif isinstance(event, QuestionAsked) and not self._answerer.may_answer(event.question):
            pass  # P7: it is for other clients
        elif self._gets_all or turn in self._own_turns or isinstance(event, WentBack | Compacted):
            self._send_event(event, turn)

    def _note_own_turn(self, turn: str) -> None:
        """Note that this turn answers the client."""
        if not self._gets_all:
            self._own_turns[turn] = None

    def _send_event(self, event: SessionEvent, turn: str) -> None:
        for frame in self._frames.frames(event, turn):
            if isinstance(frame, EventFrame) and "resume" in self._peer.can:
                self._replay.append((frame.seq, frame))
            self._send(frame, turn)

    def _accept(self, message_id: str, turn: str) -> None:
        """Tell the client that its message is part of the session, and which turn answers it."""
        if message_id in self._unstored:
            self._accepted[message_id] = _AcceptedText(hash(self._unstored.pop(message_id).text), turn)
        accepted = MessageAccepted(message_id, turn)
        if isinstance(self._frames, EventFrames):  # a client that comes back learns first which events are the answer
            self._replay.append((self._frames.seq + 1, accepted))
        self._peer.send(accepted)

    def _known_turn(self, frame: Say) -> str:
        """Return the turn that has answered this message, if the client has its end; else an empty string.

        A failed turn counts too: it is not tried again.
        """
        accepted = self._accepted.get(frame.id)
        if accepted is None or accepted.text_hash != hash(frame.text) or not self._has_end(accepted.turn):
            return ""
        return accepted.turn

    def _has_end(self, turn: str) -> bool:
        """Whether the client has this turn's end, or is sent it when it comes back.

        An end that came before the client learned that the turn is its own does not count: the client may have
        skipped that end.
        """
        was_named = False
        for _, frame in self._replay:
            if isinstance(frame, MessageAccepted):
                was_named = was_named or frame.turn == turn
            elif was_named and _is_end(frame, turn):
                return True
        return turn in self._sent_ends

    def _send(self, frame: ServerFrame, turn: str = "") -> None:
        """Send a frame. An absent client gets the end of a turn when it comes back."""
        if self._peer.socket is None and isinstance(
            frame, ChunkReset | Done | TitleUpdated | AbortedFrame | ErrorFrame
        ):
            self._missed_ends.append((turn, frame))
        elif "resume" in self._peer.can and isinstance(frame, Done | AbortedFrame | ErrorFrame):
            self._sent_ends[turn] = None
        self._peer.send(frame)

    def _fail(self, error: ErrorFrame) -> None:
        """Send why a turn did not begin. An absent client gets it when it sends the message again (ws.md 6.5)."""
        if not error.id or self._peer.socket is not None:
            self._send(error)
            return
        self._refused[error.id] = error

    # Work that belongs to this client.

    def _follow(self, handle: Handle, message: Say) -> None:
        """Wait for the end of a turn, and send the client an error if its message is not part of the session."""
        self._note_own_turn(handle.turn.id)
        self._running.add(handle)
        self._do(self._wait(handle, message), message)

    async def _wait(self, handle: Handle, message: Say) -> None:
        """Wait for the end of a turn. Its message gets an error if it is not part of the session."""
        try:
            ended = await handle.wait_for_end(elsewhere="resume" not in self._peer.can)
        except TurnHandedOver:
            if self._unstored.get(message.id) is message:
                raise
            return  # this node stops: the client comes back on another one, and sees the rest there
        finally:
            self._running.discard(handle)
        if self._unstored.get(message.id) is message:
            self._fail(_not_stored_error(ended, message.id))

    def _do(self, work: Coroutine[Any, Any, None], message: Say = _NO_MESSAGE) -> None:
        """Do this work to its end, even if the link goes down: the person's decision still counts."""
        self._beside.start(self._send_failure(work, message))

    async def _send_failure(self, work: Coroutine[Any, Any, None], message: Say) -> None:
        """Do the work. Send the client an error if it fails."""
        try:
            await work
        except TurnRefused as error:
            self._fail(ErrorFrame(str(error), error.code, message.id))
        except HandspanError as error:
            self._fail(ErrorFrame(str(error), "AGENT_ERROR", message.id))
        except Exception:  # a fault of ours: the client still needs an answer
            _log.exception("A turn failed")
            self._fail(ErrorFrame("The turn failed inside the gateway; its log says more.", "AGENT_ERROR", message.id))
        finally:
            self._forget(message)

    def _refuse(self, error: TurnRefused, message: Say) -> None:
        self._fail(ErrorFrame(str(error), error.code, message.id))
        self._forget(message)

    def _forget(self, message: Say) -> None:
        """Forget a message that will not be stored, unless a newer message has its id."""
        if self._unstored.get(message.id) is message:
            del self._unstored[message.id]


def _not_stored_error(ended: Ended, message_id: str) -> ErrorFrame:
    """Return why a message is not part of the session, from the end of the turn that should have answered it."""
    if ended.reason == "aborted":
        return ErrorFrame(_STOPPED, "ABORTED", message_id)
    failed = error_frame(ended if ended.reason == "error" else Ended("error", _NOT_ACCEPTED))
    return ErrorFrame(failed.message, failed.code, message_id)


def _is_end(frame: EventFrame, turn: str) -> bool:
    if frame.turn != turn or not isinstance(frame.event, dict):
        return False
    return frame.event["type"] == "ended" and frame.event["reason"] != "pending"
