"""One session alive in this process: its queue of turns, its listeners and, once it is loaded, its conversation.

A door says something, and gets a handle with the end of the turn that answers it. Everything that a client can ask for
(say, regenerate, resume, give up) is a request in the same queue: one turn at a time, in the order of the requests. A
turn belongs to its session, not to the client that asked for it. A request that can't be taken is a `TurnRefused`; a
turn that has begun ends with `Ended`, whatever happens.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, Protocol, TypeAlias

from handspan.agent.conversation import Conversation, open_calls, waits_for
from handspan.agent.loop import Loop
from handspan.agent.queue import TurnHost, TurnQueue
from handspan.agent.refusals import NoUserMessage, SessionBusy
from handspan.agent.stored_turns import StoredTurns
from handspan.agent.turn import Handle, Listener, Turn, tell_each
from handspan.agent.turn_events import Happening, last_turn, render_prompt
from handspan.core.bus import Bus, TurnEvent
from handspan.core.errors import StoreError, ToolError
from handspan.core.events import Ended, Event, QuestionAsked, RoundBegan, Titled
from handspan.core.messages import UserMessage
from handspan.core.principals import Principal
from handspan.core.records import SessionRecord

Equip: TypeAlias = Callable[[Conversation], AbstractContextManager[None]]
"""Gives a conversation what it has for the length of one turn, such as the tools of the client that asked."""
First: TypeAlias = Callable[[], Awaitable[bool]]
"""What a resumed turn does before it goes on; False: then it does not."""

NOTHING_TO_DO: Final = Ended("pending")
"""There was nothing to go on with, or not yet."""
GIVEN_UP: Final = Ended("aborted")
"""A turn that waited does not wait any more."""


class SessionHost(TurnHost, Protocol):
    """Keeps sessions: finds their conversations, and lets go of those that are not needed any more."""

    loop: Loop
    stored_turns: StoredTurns
    bus: Bus | None

    async def open(
        self, session: "Session", who: Principal, *, agent: str = "", name: str = ""
    ) -> tuple[Conversation, SessionRecord]:
        """The conversation, ready for a turn; made if it is not there. Raises `SessionRefused`, `ConfigError`."""
        ...

    async def reopen(self, session: "Session", who: Principal | None = None) -> Conversation | None:
        """The same for a session that has to be there; None when it is not."""
        ...

    def release(self, session: "Session") -> None:
        """The session may not be needed any more: see `is_used`."""
        ...


def _as_it_is(conversation: Conversation) -> AbstractContextManager[None]:
    """A conversation has what it has."""
    return nullcontext()


async def _nothing_first() -> bool:
    """The turn goes on as it is."""
    return True


class Session:
    """One session. `say` and the other requests can be called at any time, by any front of its owner."""

    __slots__ = ("_keeper", "_listeners", "_queue", "_waiting", "conversation", "id", "owner", "turns")

    def __init__(self, session_id: str, owner: str, keeper: SessionHost) -> None:
        self.id = session_id
        self.owner = owner
        self.conversation: Conversation | None = None
        """Loaded for the first turn; let go and loaded again when the keeper finds it right."""
        self._keeper = keeper
        self._queue = TurnQueue(session_id, keeper, self._end, self._release)
        self.turns = self._queue.turns
        """The first one runs, the others wait in their order."""
        self._listeners: dict[object, Listener] = {}
        self._waiting = ""
        """The turn that stopped at calls whose outcomes come from elsewhere, if it was told here."""

    @property
    def is_used(self) -> bool:
        """Whether a turn or a listener needs it."""
        return bool(self.turns or self._listeners)

    # Requests.

    def say(
        self,
        who: Principal,
        message: UserMessage,
        listener: Listener,
        *,
        agent: str = "",
        name: str = "",
        join: bool = False,
        debug: bool = False,
        equip: Equip = _as_it_is,
        gives_up: bool = False,
    ) -> Handle:
        """Answer this message.

        `join`: it becomes part of the turn that runs, where there is one. A message with an id that the session knows
        is not said twice: its sender hears how it is, or was, answered. `gives_up`: a turn that waits for a client over
        HTTP is ended first (graph.md 4.8), and the end raises a `StoreError`.
        """
        running, its_own = self._queue.running, self._queue.turn_of(message.id)
        if its_own is not None:
            its_own.listen_again(message, listener)
            return Handle(its_own, is_own=False)
        if running is not None and running.knows(message.id):
            return Handle(running, is_own=False, ended=running.say_again(message, listener))
        if join and running is not None and running.can_be_joined:
            return Handle(running, is_own=False, joined=running.join(message, listener))
        turn = self._queue.line_up(Turn(listener, shows_prompt=debug))
        work = partial(self._say, who, turn.add(message, listener), agent, name, equip, gives_up)
        task = asyncio.create_task(self._queue.run(turn, work))
        return self._queue.follow(turn, task, raises=(StoreError,) if gives_up else ())

    def regenerate(self, who: Principal, listener: Listener, *, debug: bool = False) -> Handle:
        """Answer the last message again, in place of the answer that it had. Its end raises `NoUserMessage`."""
        turn = self._queue.line_up(Turn(listener, shows_prompt=debug))
        return self._queue.follow(turn, asyncio.create_task(self._queue.run(turn, partial(self._regenerate, who))))

    def resume(
        self,
        who: Principal | None = None,
        listener: Listener | None = None,
        equip: Equip = _as_it_is,
        first: First = _nothing_first,
    ) -> Handle:
        """Go on with a turn that waited, if all its calls have their results; otherwise its end is `NOTHING_TO_DO`.

        `first` lets the calls have them when no other turn runs: a request that is refused before it took nothing. The
        end raises a `StoreError`.
        """
        turn = self._queue.line_up(Turn(listener))
        task = asyncio.create_task(self._queue.run(turn, partial(self._resume, who, equip, first)))
        return self._queue.follow(turn, task, raises=(StoreError,))

    def give_up(self, who: Principal, *, expired: bool = False) -> Handle:
        """End a turn that waits for a client over HTTP: the end is `GIVEN_UP`, or `NOTHING_TO_DO` when there is none.

        The end raises a `ToolError`.
        `expired`: only a turn none of whose calls is open any more, when it comes to that (graph.md 5.5).
        """
        turn = self._queue.line_up(Turn())
        task = asyncio.create_task(self._queue.run(turn, partial(self._give_up, who, expired)))
        return self._queue.follow(turn, task, raises=(ToolError,))

    def abort(self) -> bool:
        """Stop the turn that runs, and those that wait; False when there is none. What arrived is kept."""
        stopped = [turn.abort() for turn in self.turns]  # each of them, not only the first
        return any(stopped)

    # Listeners.

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell this listener all that happens in the session, until the returned function is called.

        A front that also says something hears each event once, if it gives the same listener.
        """
        key = object()
        self._listeners[key] = listener

        def unlisten() -> None:
            self._listeners.pop(key, None)
            self._release()

        return unlisten

    def tell(self, happening: Happening, *, beside_turns: bool = False) -> None:
        """Tell the listeners something of the turn that runs, or waits; `beside_turns`: of none.

        Then only the session's own hear it: a client that follows a turn is told nothing else.
        """
        if beside_turns:
            tell_each(self._listeners.values(), happening, "")
        else:
            self._tell(happening, self.turns[0].id if self.turns else self._waiting)

    def _tell(self, happening: Happening, turn: str) -> None:
        of_turn = self.turns[0].listeners if self.turns else []
        tell_each([*self._listeners.values(), *of_turn], happening, turn)

    def _publish(self, event: Event | Titled, turn: str) -> None:
        """Tell everybody what happens in a turn."""
        if type(event) is Ended:
            self._waiting = turn if event.reason == "pending" else ""
        if self._keeper.bus is not None:
            self._keeper.bus.publish(TurnEvent(self.owner, self.id, turn, event))
        self._tell(event, turn)

    def _end(self, turn: Turn, ended: Ended) -> Ended:
        """Tell the end, if the loop has not."""
        if not turn.is_over:
            turn.is_over = True
            self._publish(ended, turn.id)
        return ended

    def _release(self) -> None:
        if not self.is_used:
            self._waiting = ""  # no front remembers the turn: the conversation does
            self._keeper.release(self)

    # What turns do.

    async def _say(
        self, who: Principal, message: UserMessage, agent: str, name: str, equip: Equip, gives_up: bool, turn: Turn
    ) -> Ended:
        keeper = self._keeper
        conversation, record = await keeper.open(self, who, agent=agent, name=name)
        with equip(conversation):
            if conversation.find_message(message.id) is not None:
                return await self._say_again(turn, conversation, message)
            emit = self._begin(turn, conversation)
            if record.state == "waiting" and not gives_up:
                await self._end_waiting(turn, conversation)
            async with keeper.stored_turns.turn(conversation) as stored:
                if gives_up and record.state == "waiting":
                    await keeper.loop.give_up(conversation)
                    stored.waits = False
                elif waited_for := open_calls(conversation.last):
                    stored.waits = False
                    if stored.end(await keeper.loop.advance(conversation, emit)).reason == "pending":
                        raise ToolError("busy", waits_for(waited_for))
                await conversation.append(message)
                stored.waits = False
                ended = stored.end(await keeper.loop.advance(conversation, emit))
            self._tell_title(emit, stored.title)
            return ended

    async def _say_again(self, turn: Turn, conversation: Conversation, message: UserMessage) -> Ended:
        """A known message is answered now if it was not yet: its turn was cut off by the end of a process."""
        before = conversation.find_message(message.id)
        turn.id = before.turn if before is not None and before.turn else turn.id
        ended = turn.retell(conversation, message)
        if ended is not None:
            turn.is_over = True
            return ended
        return await self._go_on(conversation, self._begin(turn, conversation), cut_off=True) or NOTHING_TO_DO

    async def _regenerate(self, who: Principal, turn: Turn) -> Ended:
        keeper = self._keeper
        conversation = await keeper.reopen(self, who)
        if conversation is None:
            raise NoUserMessage
        emit = self._begin(turn, conversation)
        async with keeper.stored_turns.turn(conversation) as stored:
            if waited_for := open_calls(conversation.last):
                raise ToolError("busy", waits_for(waited_for))
            await keeper.stored_turns.rewind(conversation)
            stored.waits = False
            ended = stored.end(await keeper.loop.advance(conversation, emit))
        self._tell_title(emit, stored.title)
        return ended

    async def _resume(self, who: Principal | None, equip: Equip, first: First, turn: Turn) -> Ended:
        conversation = await self._keeper.reopen(self, who)
        if conversation is None or not await first():
            return NOTHING_TO_DO
        turn.id = self._waiting or last_turn(conversation.messages) or turn.id  # it is the same turn
        with equip(conversation):
            return await self._go_on(conversation, self._begin(turn, conversation)) or NOTHING_TO_DO

    async def _give_up(self, who: Principal, expired: bool, turn: Turn) -> Ended:
        keeper = self._keeper
        conversation = await keeper.reopen(self, who)
        if conversation is None:
            return NOTHING_TO_DO
        self._begin(turn, conversation)
        async with keeper.stored_turns.turn(conversation) as stored:
            waited = await keeper.loop.can_go_on(conversation) if expired else bool(open_calls(conversation.last))
            if waited:
                await keeper.loop.give_up(conversation)
                stored.waits = False
        return self._end(turn, GIVEN_UP) if waited else NOTHING_TO_DO

    async def _go_on(
        self, conversation: Conversation, emit: Callable[[Event | Titled], None], *, cut_off: bool = False
    ) -> Ended | None:
        """The rest of a turn whose outcomes are all there; None when there is nothing to do yet.

        `cut_off`: also of one that was cut off when its process ended.
        """
        keeper = self._keeper
        async with keeper.stored_turns.turn(conversation) as stored:
            if not (cut_off and conversation.is_cut_off) and not await keeper.loop.can_go_on(conversation):
                return None
            stored.waits = False
            ended = stored.end(await keeper.loop.advance(conversation, emit))
        self._tell_title(emit, stored.title)
        return ended

    async def _end_waiting(self, turn: Turn, conversation: Conversation) -> None:
        """End a turn that waited, before another one begins; raises `SessionBusy` while it waits on."""
        waiting = self._waiting or last_turn(conversation.messages)
        await self._go_on(conversation, self._begin(turn, conversation, waiting))
        if waited_for := open_calls(conversation.last):
            raise SessionBusy(waits_for(waited_for))
        turn.begin(conversation)

    def _begin(self, turn: Turn, conversation: Conversation, turn_id: str = "") -> Callable[[Event | Titled], None]:
        """What takes the turn's events; with an id, those of another turn that ends before this one begins."""
        turn.begin(conversation)

        def emit(event: Event | Titled) -> None:
            kind = type(event)
            turn.has_told = True
            if kind is QuestionAsked and self._keeper.bus is not None:  # told when it is stored: `QuestionOpened`
                return
            if kind is RoundBegan and turn.shows_prompt:
                turn.shows_prompt = False
                turn.tell(render_prompt(conversation))  # for the client that asked: others only listen
            if kind is Ended:
                turn.is_over = True
            self._publish(event, turn_id or turn.id)

        return emit

    def _tell_title(self, emit: Callable[[Event | Titled], None], title: str) -> None:
        if title:
            emit(Titled(title))
