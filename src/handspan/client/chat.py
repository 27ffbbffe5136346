"""A conversation over the gateway: messages out, events in. It survives drops of the link."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.client.chat_state import ChatState, Opening
from handspan.client.client_state import ClientState
from handspan.client.connection import ClientConnection, ClientOptions, State
from handspan.client.errors import GatewayUnreachable
from handspan.client.memory import CallMemory
from handspan.client.tools import ClientTools
from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError
from handspan.core.events import Ended, Event, QuestionAsked
from handspan.core.question_checks import check_answer
from handspan.core.questions import Answer, Question
from handspan.core.tasks import Tasks
from handspan.core.values import Json, JsonObject, round_seconds
from handspan.wire.ws import ServerFrame
from handspan.wire.ws_chat_frames import (
    Abort,
    AbortAck,
    AnswerFrame,
    ChannelMessage,
    Regenerate,
    Say,
    SessionStart,
    TitleUpdated,
)
from handspan.wire.ws_frames import Capability, Connected, Decision, MediaPart, QuestionClosed

AnswerInChat: TypeAlias = Callable[[Question], Awaitable[Answer | bool | None]]
"""Asks the program's person: True, False or an `Answer`; None leaves the question to other clients.

It is cancelled when the question is answered elsewhere, has expired, or its call has ended.
"""
ChannelListener: TypeAlias = Callable[[ChannelMessage], None]
"""Gets what an agent writes to the person, outside of any answer (ws.md 3.9)."""
ChatKind: TypeAlias = Literal["chat", "one_shot"]
"""The kind of a session that begins (ws.md 1.1)."""
_SECONDS_TO_OPEN: Final = 30.0
_LEAST_GRACE: Final = 30.0
"""A chat waits at least so many seconds for its link to come back before it gives up."""
_CLOSED: Final = "The chat was closed."
_log = logging.getLogger(__name__)


class EventStream:
    """The events of a turn, in order, as an async iterator: `async for event in chat.send("…")`."""

    def __init__(self, chat: "Chat", opening: Opening | None, is_endless: bool = False) -> None:
        self._chat = chat
        self._opening = opening
        self.is_endless = is_endless
        self._is_over = False
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the last event of a turn is `Ended`."""
        if self._is_over:
            raise StopAsyncIteration
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await self._chat._start_turn(opening, self)
        event = await self._events.get()
        if event is None:
            self._is_over = True
            raise StopAsyncIteration
        self._is_over = self._is_last(event)
        return event

    def put(self, event: Event | None) -> bool:
        """Add an event, or None for the end. Return False when the stream takes no more events."""
        self._events.put_nowait(event)
        return event is not None and not self._is_last(event)

    def _is_last(self, event: Event) -> bool:
        return isinstance(event, Ended) and event.reason != "pending" and not self.is_endless


class ChatListeners(Struct, frozen=True):
    """The functions of a program that a chat calls."""

    question: AnswerInChat | None = None
    state: Callable[[State], None] | None = None
    channel_message: ChannelListener | None = None


class Chat:
    """One session, on a connection of its own. `async with` opens and closes it."""

    def __init__(
        self,
        options: ClientOptions,
        tools: ClientTools,
        listeners: ChatListeners,
        *,
        session: str,
        agent: str,
        name: str,
        kind: ChatKind,
    ) -> None:
        self._options = options
        self._on = listeners
        self._asking = Tasks()
        self._chat_state = ChatState(session)
        self._agent = agent
        self._name = name
        self._kind = kind
        can: list[Capability] = ["events", "questions", "question_kinds"]
        if listeners.channel_message is not None:
            can.append("messages")
        memory = CallMemory(is_saved=False)
        self._client_state = ClientState(
            options.introduce(*can), tools, memory, options.concurrency, chat=self._chat_state
        )
        self._connection = ClientConnection(options, self._client_state, tools, None, owner=self)
        self._state: State = "disconnected"
        self._listeners: list[EventStream] = []
        self._idle = asyncio.Event()
        """Set while no turn of this chat runs."""
        self._idle.set()
        self._aborts: list[asyncio.Future[bool]] = []
        """Futures of callers that wait in `abort`."""
        self._closing: dict[str, asyncio.Future[bool]] = {}
        """Futures of callers that wait for the end of a question, by its id."""
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None]
        self._connected: asyncio.Future[None]
        self.message_count = 0
        """How many messages the session had when it was opened."""
        self.title = ""
        """The title of the session; empty when it has none."""
        self.tool = tools.tool
        """Offers a function as a tool to this session."""
        self.register = tools.register
        """Offers a tool by its spec."""
        self.unregister = tools.unregister
        """Takes a tool back."""

    @property
    def session_id(self) -> str:
        """The id of the session: `client.chat(id)` continues it."""
        return self._chat_state.session_id

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._state

    @property
    def is_over(self) -> bool:
        """Whether the chat was closed, or given up after the link was down for too long: it can't be used any more."""
        return self._serving.done()

    @property
    def rejected(self) -> dict[str, str]:
        """Tools that the gateway did not take, and why."""
        return dict(self._client_state.rejected)

    async def __aenter__(self) -> "Chat":
        """Connect. Raises `GatewayRefused` or `GatewayUnreachable`."""
        self._connected = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._connection.serve(waits_for_gateway=False))
        try:
            await asyncio.wait(
                (self._connected, self._serving), timeout=_SECONDS_TO_OPEN, return_when=asyncio.FIRST_COMPLETED
            )
            if self._serving.done():
                await self._serving
            if not self._connected.done():
                raise GatewayUnreachable(f"{self._options.address} did not answer: is it a gateway?")
        except BaseException:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            raise
        self._serving.add_done_callback(lambda _: self._end())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        try:
            await self._serving
        finally:
            await self._asking.close()

    def send(
        self, text: str, *, join: bool = False, debug: bool = False, parts: Sequence[MediaPart] = ()
    ) -> EventStream:
        """Send a message, and iterate over the events of the turn that answers it, up to its `Ended`.

        `parts` are the images and files of the message, inline or as artifacts that were uploaded. The first `anext`
        raises `MessageTooLarge` when the message does not fit into one frame.

        One turn runs at a time: a second one begins when the first has ended. With `join` the message becomes part of
        the turn that runs, if one does, and the iterator gets the events of that turn from then on.
        """
        return EventStream(self, Say(text, debug, join, new_call_id(), parts=list(parts)))

    def regenerate(self) -> EventStream:
        """Let the model give its last answer again."""
        return EventStream(self, Regenerate())

    def watch(self) -> EventStream:
        """Return all events from now on, of all turns, until the chat is closed."""
        stream = EventStream(self, None, is_endless=True)
        self._listeners.append(stream)
        return stream

    async def abort(self) -> bool:
        """Stop the turn. Return False when no turn ran."""
        stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._aborts.append(stopped)
        self._connection.send(Abort())
        return await stopped

    async def answer(
        self,
        question_id: str,
        decision: Decision,
        *,
        always: bool = False,
        arguments: JsonObject | None = None,
        value: Json = None,
        reason: str = "",
    ) -> None:
        """Answer a question (`QuestionAsked`): `always` remembers the decision, `arguments` replaces those of the call.

        `reason` says why the answer is no, in words that the model reads.

        A question with a schema is allowed with a `value` that fits it. Raises `InvalidAnswer` when the value does not
        fit, and `MessageTooLarge` when the frame is too large; then nothing is sent, and the question stays open.
        """
        await self.give(question_id, Answer(decision, always, arguments, value=value, reason=reason))

    async def give(self, question_id: str, answer: Answer) -> None:
        """Answer a question as `answer` does. An answer that has expired sends nothing: only time decides that."""
        if answer.decision == "expired":
            return
        question = self._chat_state.questions.get(question_id)
        if question is not None:
            check_answer(question, answer)
        arguments = None if answer.arguments is None else dict(answer.arguments)
        about = (question_id, answer.decision, answer.always, arguments)
        self._connection.send(AnswerFrame(*about, value=answer.value, reason=answer.reason))

    async def closed(self, question_id: str) -> bool:
        """Wait until a question is closed. Return whether the answer of this chat was the one that counts."""
        if question_id not in self._chat_state.questions:
            return False
        waiting = self._closing.setdefault(question_id, asyncio.get_running_loop().create_future())
        return await asyncio.shield(waiting)

    async def _ask(self, question: Question, ask: AnswerInChat) -> None:
        """Ask the program's person, until the question is closed."""
        asking: asyncio.Future[Answer | bool | None] = asyncio.ensure_future(ask(question))
        over = asyncio.create_task(self.closed(question.id))
        try:
            await asyncio.wait((asking, over), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() or (given := asking.result()) is None:
                return
            await self.give(question.id, given if isinstance(given, Answer) else Answer("allow" if given else "deny"))
        except Exception:  # the program's own code; the question stays open for other clients
            _log.exception("The question %s could not be answered by on_question", question.id)
        finally:
            for task in (asking, over):
                task.cancel()
            await asyncio.gather(asking, over, return_exceptions=True)

    async def _start_turn(self, opening: Opening, listener: EventStream) -> None:
        """Send the frame that begins a turn, and give its events to this stream."""
        if not (isinstance(opening, Say) and opening.join):
            while not self._idle.is_set():
                await self._idle.wait()
        if self._serving.done():
            raise HandspanError(_CLOSED)
        self._connection.check_size(opening)
        self._idle.clear()
        self._listeners.append(listener)
        self._connection.send(opening)

    # Called by the connection.

    def url(self) -> str:
        """Return the URL for the next link: it continues the session."""
        return self._options.address.socket(self.session_id, self._agent, self._name, self._kind)

    def on_state(self, state: State) -> None:
        """The state of the connection has changed."""
        self._state = state
        if self._on.state is not None:
            self._on.state(state)
        if state == "connected" and self._give_up_timer is not None:
            self._give_up_timer.cancel()
            self._give_up_timer = None
        elif state == "reconnecting" and self._give_up_timer is None:
            seconds = max(self._client_state.link.greeting.grace_ms / 1000, _LEAST_GRACE)
            self._give_up_timer = asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)

    async def on_drop(self) -> None:
        """The link has dropped; `Link` opens the next one."""

    def on_frame(self, frame: ServerFrame) -> None:
        """A frame has arrived that is no event."""
        match frame:
            case SessionStart(message_count=count, name=name):
                self.message_count, self.title = count, name
            case Connected():
                if not self._connected.done():
                    self._connected.set_result(None)
                elif self._aborts:  # the drop may have lost the first `Abort`
                    self._connection.send(Abort())
            case TitleUpdated(title=title):
                self.title = title
            case AbortAck(status=status):
                self._finish_aborts(did_run=status == "aborted")
            case QuestionClosed(id=question_id, accepted=accepted) if question_id in self._closing:
                self._closing.pop(question_id).set_result(accepted)
            case ChannelMessage():
                self._show(frame)

    def on_event(self, event: Event, is_own: bool) -> None:
        """An event has arrived. Events of other turns go only to streams made with `watch`."""
        if isinstance(event, QuestionAsked) and self._on.question is not None:
            self._asking.start(self._ask(event.question, self._on.question))
        self._listeners = [
            listener for listener in self._listeners if not (is_own or listener.is_endless) or listener.put(event)
        ]
        if is_own and isinstance(event, Ended):
            self._idle.set()

    def _show(self, message: ChannelMessage) -> None:
        try:
            if self._on.channel_message is not None:
                self._on.channel_message(message)
        except Exception:  # the program's own code
            _log.exception("on_channel_message failed")

    def _finish_aborts(self, *, did_run: bool) -> None:
        """Answer the callers of `abort`: whether a turn ran."""
        aborts, self._aborts = self._aborts, []
        for abort in aborts:
            if not abort.done():
                abort.set_result(did_run)

    def _give_up(self, seconds: float) -> None:
        self._give_up_timer = None
        why = f"The link to the gateway has been down for {round_seconds(seconds)}."
        self._connection.do(self._client_state.give_up(why))
        self._finish_aborts(did_run=False)

    def _end(self) -> None:
        """Release all callers and streams that wait: the connection is over."""
        if self._give_up_timer is not None:
            self._give_up_timer.cancel()
        self._finish_aborts(did_run=False)
        for waiting in self._closing.values():
            waiting.set_result(False)
        self._closing.clear()
        self._asking.cancel()
        for listener in self._listeners:
            listener.put(None)
        self._listeners.clear()
        self._idle.set()
