"""A conversation over the gateway: what is said, and what happens then, whatever becomes of the link."""

import asyncio
from types import TracebackType
from typing import Final

from handspan.client.connection import ClientConnection, Options, State
from handspan.client.faults import GatewayUnreachable
from handspan.client.memory import CallMemory
from handspan.client.peer import ClientState
from handspan.client.talk import ChatState, Opening
from handspan.client.tools import Tools
from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError
from handspan.core.events import Ended, Event
from handspan.core.question_checks import check_answer
from handspan.core.questions import Answer
from handspan.core.values import Json, JsonObject
from handspan.wire.ws_frames import (
    Abort,
    AbortAck,
    AnswerFrame,
    Connect,
    Connected,
    Decision,
    QuestionClosed,
    Regenerate,
    Say,
    ServerFrame,
    SessionStart,
    TitleUpdated,
)

_SECONDS_TO_OPEN: Final = 30.0
_LEAST_GRACE: Final = 30.0
_CLOSED: Final = "The chat was closed."


class Events:
    """What happens, in order, as an async iterator: `async for event in chat.send("…")`."""

    def __init__(self, chat: "Chat", opening: Opening | None, is_endless: bool = False) -> None:
        self._chat = chat
        self._opening = opening
        self.is_endless = is_endless
        self._is_over = False
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Event:
        """The next event; the last one of a turn is `Ended`."""
        if self._is_over:
            raise StopAsyncIteration
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await self._chat._begin(opening, self)
        event = await self._events.get()
        if event is None:
            self._is_over = True
            raise StopAsyncIteration
        self._is_over = self._is_last(event)
        return event

    def put(self, event: Event | None) -> bool:
        """One more event, None for the end; False when no other will be wanted."""
        self._events.put_nowait(event)
        return event is not None and not self._is_last(event)

    def _is_last(self, event: Event) -> bool:
        return isinstance(event, Ended) and event.reason != "pending" and not self.is_endless


class Chat:
    """One session, on a connection of its own. `async with` opens and closes it."""

    def __init__(
        self, options: Options, capabilities: list[str], tools: Tools, session: str, agent: str, name: str
    ) -> None:
        self._options = options
        self._talk = ChatState()
        self._talk.session_id = session
        self._agent = agent
        self._name = name
        hello = Connect(device_name=options.device_name, capabilities=capabilities)
        self._peer = ClientState(hello, tools, CallMemory(is_kept=False), options.concurrency, self._talk)
        self._connection = ClientConnection(options, self._peer, tools, None, self)
        self._state: State = "disconnected"
        self._listeners: list[Events] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._aborts: list[asyncio.Future[bool]] = []
        self._closed: dict[str, asyncio.Future[bool]] = {}
        """Questions that somebody waits for to be over."""
        self._giving_up: asyncio.TimerHandle | None = None
        self._serving: asyncio.Task[None]
        self._connected: asyncio.Future[None]
        self.message_count = 0
        """Messages that the session had when it was opened."""
        self.title = ""
        """The session's name, when it has one."""
        self.tool = tools.tool
        """Offers a function as a tool to this session."""
        self.register = tools.register
        """Offers a tool by its spec."""
        self.unregister = tools.unregister
        """Takes a tool back."""

    @property
    def session_id(self) -> str:
        """The session's id: `client.chat(id)` goes on with it."""
        return self._talk.session_id

    @property
    def state(self) -> State:
        """Where the connection is."""
        return self._state

    @property
    def rejected(self) -> dict[str, str]:
        """Tools that the gateway did not take, and why."""
        return dict(self._peer.rejected)

    async def __aenter__(self) -> "Chat":
        """Connect; `GatewayRefused` or `GatewayUnreachable` when that is not possible."""
        self._connected = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._connection.serve(is_patient=False))
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
        self._serving.add_done_callback(lambda _: self._over())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        await self._serving

    def send(self, text: str, *, join: bool = False, debug: bool = False) -> Events:
        """Say something; what is iterated over is the turn that comes of it, up to its `Ended`.

        `MessageTooLarge` comes in place of the first event when the gateway takes less in one message.

        One turn at a time: a second one begins when the first has ended. With `join` the text becomes part of the turn
        that runs, if one does, and the events from then on are those of that turn.
        """
        return Events(self, Say(text, debug, join, new_call_id()))

    def regenerate(self) -> Events:
        """Let the last answer be given anew."""
        return Events(self, Regenerate())

    def watch(self) -> Events:
        """Everything that happens from now on, in all turns, until the chat is closed."""
        watching = Events(self, None, is_endless=True)
        self._listeners.append(watching)
        return watching

    async def abort(self) -> bool:
        """Stop the turn; False when none ran."""
        stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._aborts.append(stopped)
        self._connection.say(Abort())
        return await stopped

    async def answer(
        self,
        question_id: str,
        decision: Decision,
        *,
        always: bool = False,
        arguments: JsonObject | None = None,
        value: Json = None,
    ) -> None:
        """Answer a question (`QuestionAsked`): with `always` for ever, with `arguments` for other ones than asked.

        A question with a schema is allowed with a `value` that fits it. Raises `InvalidAnswer` when it does not, and
        `MessageTooLarge` when no message can hold it; then nothing is sent, and the question stays open.
        """
        question = self._talk.questions.get(question_id)
        if question is not None:
            check_answer(question, Answer(decision, always, arguments, value=value))
        answer = AnswerFrame(question_id, decision, always, arguments, value)
        self._connection.check(answer)
        self._connection.say(answer)

    async def closed(self, question_id: str) -> bool:
        """Wait until a question is over; whether the answer of this chat was the one that counts."""
        if question_id not in self._talk.questions:
            return False
        over = self._closed.setdefault(question_id, asyncio.get_running_loop().create_future())
        return await asyncio.shield(over)

    async def _begin(self, opening: Opening, listener: Events) -> None:
        """Say what begins a turn, and let somebody listen."""
        if not (isinstance(opening, Say) and opening.join):
            while not self._idle.is_set():
                await self._idle.wait()
        if self._serving.done():
            raise HandspanError(_CLOSED)
        self._connection.check(opening)
        self._idle.clear()
        self._listeners.append(listener)
        self._connection.say(opening)

    # What the connection asks and says.

    def url(self) -> str:
        """Where the next link is opened: in the session that was begun."""
        return self._options.address.socket(self.session_id, self._agent, self._name)

    def became(self, state: State) -> None:
        """The connection is somewhere else now."""
        self._state = state
        if state == "connected" and self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        elif state == "reconnecting" and self._giving_up is None:
            seconds = max(self._peer.grace, _LEAST_GRACE)
            self._giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)

    async def gone(self) -> None:
        """The link has dropped; it comes back by itself."""

    def hear(self, frame: ServerFrame) -> None:
        """The gateway said something that is no event."""
        match frame:
            case SessionStart(message_count=count, name=name):
                self.message_count, self.title = count, name
            case Connected():
                if not self._connected.done():
                    self._connected.set_result(None)
                elif self._aborts:  # the first one may have gone down with the link
                    self._connection.say(Abort())
            case TitleUpdated(title=title):
                self.title = title
            case AbortAck(status=status):
                self._aborted(status == "aborted")
            case QuestionClosed(id=question_id, accepted=accepted) if question_id in self._closed:
                self._closed.pop(question_id).set_result(accepted)

    def happen(self, event: Event, is_own: bool) -> None:
        """Something happened in the session. Turns of others are for those who watch."""
        self._listeners = [
            listener for listener in self._listeners if not (is_own or listener.is_endless) or listener.put(event)
        ]
        if is_own and isinstance(event, Ended):
            self._idle.set()

    def _aborted(self, did_run: bool) -> None:
        waiting, self._aborts = self._aborts, []
        for one in waiting:
            if not one.done():
                one.set_result(did_run)

    def _give_up(self, seconds: float) -> None:
        self._giving_up = None
        self._connection.give_up(f"The link to the gateway has been down for {seconds:.3g} s.")
        self._aborted(False)

    def _over(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._aborted(False)
        for over in self._closed.values():
            over.set_result(False)
        self._closed.clear()
        for listener in self._listeners:
            listener.put(None)
        self._listeners.clear()
        self._idle.set()
