"""A turn, one run of the loop in a session, from its request to its end (ws.md 3.1, 6.5)."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from handspan.agent.conversation import Conversation, ignore_stored
from handspan.agent.refusals import IdTaken, SessionBusy
from handspan.agent.turn_events import MessageStored, SessionEvent, find_answer, render_prompt
from handspan.core.calls import new_call_id
from handspan.core.errors import ToolError
from handspan.core.events import Ended, Event, RoundBegan, SessionChange
from handspan.core.messages import Message, UserMessage

if TYPE_CHECKING:
    from handspan.agent.listeners import Listeners
    from handspan.agent.requests import SessionRequest

Listener: TypeAlias = Callable[[SessionEvent, str], None]
"""Takes an event and the id of its turn, which is empty for an event outside turns. Never blocks."""

_log = logging.getLogger(__name__)


class Turn:
    """One turn: its request, its listeners, its messages, and the task that runs it."""

    def __init__(
        self,
        request: "SessionRequest",
        session_listeners: "Listeners",
        listener: Listener | None = None,
        *,
        shows_prompt: bool = False,
    ) -> None:
        self.id = new_call_id()
        """Names the turn in its events and its messages."""
        self.request = request
        self._session_listeners = session_listeners
        self.resumed_turn = ""
        """The id of the waiting turn whose rest this turn runs first, and the id of all events then. Else empty."""
        self.requested_at = time.time()
        """Seconds since 1970."""
        self.can_be_handed_over = request.add_for_turn is None
        """Whether another node can take the turn over. It can't if tools came with the request, such as a page's."""
        self.is_awaited_elsewhere = False
        """Whether a request on this node waits for the end of the turn, even if the turn ends on another node."""
        self.is_handed_over = False
        """Whether another node has to take the turn over after the step that runs."""
        self.listeners: list[Listener] = [] if listener is None else [listener]
        """Listeners of the clients that sent a message in this turn. They get what the session's listeners get."""
        self.shows_prompt = shows_prompt
        """Whether the turn's own listeners get the model's prompt in the first round (`Prompted`)."""
        self.may_begin = asyncio.Event()
        """Set when the turns before it are over, and when the gateway stops."""
        self.task: asyncio.Task[Ended]
        self.has_published = False
        """Whether the turn has published an event."""
        self.is_over = False
        """Whether the turn is over: no message can join it, and its end is not published again."""
        self.failure: ToolError | None = None
        """The error that ended the turn, if the error is not the model's."""
        self._conversation: Conversation | None = None
        """The conversation, once the turn has begun."""
        self._early: list[UserMessage] = []
        """Messages that joined before the turn had begun."""
        self._messages: dict[str, tuple[UserMessage, list[Listener]]] = {}
        """The turn's messages that have an id, each with the listeners that get `MessageStored`."""

    def begin(self, conversation: Conversation) -> None:
        """Start the turn in this conversation, with the messages that joined before."""
        self.is_handed_over |= self._session_listeners.begin_turn() and self.can_be_handed_over
        self._conversation = conversation
        conversation.handover = "after_step" if self.is_handed_over else "none"
        conversation.on_stored = self._tell_stored
        early, self._early = self._early, []
        for message in early:
            if conversation.find_message(message.id) is None:
                conversation.inbox.append(message)
                continue
            with contextlib.suppress(IdTaken):  # no `MessageStored` follows, so the door says that it was not stored
                self.report_known(conversation, message)
        self.is_over = False

    def emit(self, event: Event | SessionChange) -> None:
        """Publish an event of the turn."""
        self.has_published = True
        if self.shows_prompt and isinstance(event, RoundBegan) and self._conversation is not None:
            self.shows_prompt = False
            self.tell(render_prompt(self._conversation))  # only for the client that asked for the prompt
        if isinstance(event, Ended):
            self.is_over = True
        self._session_listeners.publish(event, self.resumed_turn or self.id)

    def stop_listening(self) -> None:
        """Stop listening to stored messages. The turn is over, and the conversation must not keep it in memory."""
        if self._conversation is not None and self._conversation.on_stored == self._tell_stored:
            self._conversation.on_stored = ignore_stored

    # Messages.

    def add(self, message: UserMessage, listener: Listener) -> UserMessage:
        """Add a message to this turn, and return the message with the turn's id. The listener gets `MessageStored`."""
        if message.id:
            self._messages[message.id] = (message, [listener])
        return structs.replace(message, turn=self.id)

    @property
    def can_be_joined(self) -> bool:
        """Whether a message can still join this turn."""
        may_be_empty = self.request.checks_first and self._conversation is None
        return not self.is_over and not may_be_empty and not self.task.cancelling()

    def join(self, message: UserMessage, listener: Listener) -> UserMessage:
        """Add a message to this turn from its next round on, and return the message with the turn's id."""
        joining = self.add(message, listener)
        (self._early if self._conversation is None else self._conversation.inbox).append(joining)
        self.listeners.append(listener)
        return joining

    def has(self, message_id: str) -> bool:
        """Whether this turn has the message of this id."""
        before = None if self._conversation is None else self._conversation.find_message(message_id)
        return message_id in self._messages or (before is not None and before.turn == self.id)

    def knows(self, message_id: str) -> bool:
        """Whether the turn's conversation has the message of this id."""
        return self._conversation is not None and self._conversation.find_message(message_id) is not None

    def listen_again(self, message: UserMessage, listener: Listener) -> None:
        """Add a listener for a message that this turn has. Raises `IdTaken` if the content of the message differs."""
        before = None if self._conversation is None else self._conversation.find_message(message.id)
        waiting, listeners = self._messages.get(message.id, (before, []))
        _check_same_content(before or waiting, message)
        if listener not in self.listeners:
            self.listeners.append(listener)
        if before is not None:
            tell_one(listener, MessageStored(message.id), before.turn)
        elif listener not in listeners:
            listeners.append(listener)

    def say_again(self, message: UserMessage, listener: Listener) -> Ended | None:
        """Call `report_known` for a message that the turn `knows`."""
        assert self._conversation is not None
        self._messages[message.id] = (message, [listener])
        return self.report_known(self._conversation, message)

    def report_known(self, conversation: Conversation, message: UserMessage) -> Ended | None:
        """Tell the sender of a known message the answer, and return its end; None if this turn has to answer it.

        Raises `IdTaken` if the message's content differs.
        """
        before = conversation.find_message(message.id)
        assert before is not None
        _check_same_content(before, message)
        answered = find_answer(before, conversation.messages, conversation.limits, conversation.ends)
        _, senders = self._messages.pop(message.id, (before, []))
        for sender in senders:
            tell_one(sender, MessageStored(before.id), before.turn if answered else self.id)
        if answered is None:
            self.listeners += [one for one in senders if one not in self.listeners]
            return None
        for listener in senders or self.listeners:  # without senders, they know already that the message is stored
            tell_one(listener, answered, before.turn)
        return answered.ended

    def leave_out(self, message: UserMessage) -> bool:
        """Remove this message if it came too late for this turn. Return whether it came too late."""
        left = self._early if self._conversation is None else self._conversation.inbox
        is_left = any(one is message for one in left)
        if is_left:
            left[:] = [one for one in left if one is not message]
        return is_left

    def _tell_stored(self, message: Message) -> None:
        if isinstance(message, UserMessage) and message.id in self._messages:
            for listener in self._messages[message.id][1]:
                tell_one(listener, MessageStored(message.id), message.turn)

    # The end.

    def tell(self, event: SessionEvent) -> None:
        """Give an event to the turn's own listeners only."""
        tell_each(self.listeners, event, self.id)

    def abort(self) -> bool:
        """Cancel the turn. Return False when it is over. A second call does nothing: it would disturb the cleanup."""
        if not self.is_over and not self.task.cancelling():
            self.task.cancel()
        return not self.is_over

    def hand_over(self) -> None:
        """Let another node take the turn over after the step that runs, if that is possible."""
        self.is_handed_over = self.can_be_handed_over
        if self._conversation is not None and self.is_handed_over and not self.is_over:
            self._conversation.handover = "after_step"

    def stop(self) -> None:
        """Cancel the step that runs, because the gateway stops.

        Another process takes over a turn that is handed over, or has calls that can wait. Any other turn is aborted.
        """
        if self._conversation is not None and not self.is_over and not self.task.cancelling():
            self._conversation.handover = "now" if self.is_handed_over else "if_waiting"
        self.abort()

    def fail(self, error: ToolError) -> None:
        """Note the error that ended the turn, which is not the model's."""
        self.failure = error

    @property
    def ended(self) -> Ended:
        """The end of the turn, once its task is done. Raises `TurnRefused` when the turn did not begin."""
        return Ended("aborted") if self.task.cancelled() else self.task.result()


class Handle:
    """What a door gets for its request: the turn that answers the request, and the end of that turn."""

    __slots__ = ("_ended", "_is_own", "_joined", "turn")

    def __init__(
        self,
        turn: Turn,
        *,
        is_own: bool = True,
        joined: UserMessage | None = None,
        ended: Ended | None = None,
    ) -> None:
        """`is_own`: the turn began for this request. `joined`: the message of this request that joined the turn.

        `ended`: the end, if it is known already.
        """
        self.turn = turn
        self._is_own = is_own
        self._joined = joined
        self._ended = ended

    def abort(self) -> None:
        """Stop the turn if it began for this request."""
        if self._is_own:
            self.turn.abort()

    async def wait_for_end(self, *, elsewhere: bool = True) -> Ended:
        """Wait for the end of the turn, and return the end. Raises `TurnRefused` when the turn did not begin.

        A cancelled caller aborts a turn that began for this request. `elsewhere`: when this node stops and another node
        takes the turn over, wait for its end, too; without `elsewhere` raise `TurnHandedOver`.
        """
        if self._ended is not None:
            return self._ended
        self.turn.is_awaited_elsewhere |= elsewhere
        task = self.turn.task
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if self._is_own:
                self.turn.abort()
                await asyncio.wait([task])
            raise
        ended = self.turn.ended
        if self._joined is not None and not task.cancelled() and self.turn.leave_out(self._joined):
            raise SessionBusy("The session waits for the outcome of a call: say it again later.")
        if self._is_own and isinstance(self.turn.failure, self.turn.request.raises):
            raise self.turn.failure
        return ended


def tell_each(listeners: Iterable[Listener], event: SessionEvent, turn: str) -> None:
    """Give an event to each listener once, even if a listener is listed twice."""
    done: list[Listener] = []
    for listener in tuple(listeners):
        if listener not in done:
            done.append(listener)
            tell_one(listener, event, turn)


def tell_one(listener: Listener, event: SessionEvent, turn: str) -> None:
    """Give an event to one listener. The failure of a listener disturbs no other listener and no turn."""
    try:
        listener(event, turn)
    except Exception:  # the listener is a door's own code
        _log.exception("A listener failed at the event %r", type(event).__name__)


def _check_same_content(before: UserMessage | None, message: UserMessage) -> None:
    """Raise `IdTaken` if the message differs from the one before that has the same id."""
    if before is not None and before.parts != message.parts:
        raise IdTaken(message.id)
