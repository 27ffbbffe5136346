"""One session in this process: its queue of turns, its listeners and, once it is loaded, its conversation.

A door makes a request and gets a handle with the end of the turn that answers it. All requests (say, regenerate,
resume, give up) go through one queue: one turn at a time, in the order of the requests. A turn belongs to its session,
not to the client that asked for it. A request that is refused raises `TurnRefused`; a turn that has begun always ends
with `Ended`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, TypeAlias

from handspan.agent.conversation import Conversation, open_calls, waits_for
from handspan.agent.queue import TurnQueue
from handspan.agent.refusals import NoUserMessage, SessionBusy, TurnMoved
from handspan.agent.session_host import SessionHost
from handspan.agent.stored_turns import StoredTurn
from handspan.agent.turn import Handle, Listener, Turn, tell_each
from handspan.agent.turn_events import RoundSoFar, SessionEvent, find_answer, last_turn, render_prompt
from handspan.core.bus import AbortRequested, TurnEvent
from handspan.core.errors import StoreError, ToolError
from handspan.core.events import GATEWAY_STOPPED, CallFinished, Ended, Event, QuestionAsked, RoundBegan, Titled
from handspan.core.messages import Message, UserMessage
from handspan.core.principals import Principal
from handspan.core.records import SessionRecord

AddForTurn: TypeAlias = Callable[[Conversation], AbstractContextManager[None]]
"""Gives a conversation something for one turn, such as the tools of the client that made the request."""
EmitEvent: TypeAlias = Callable[[Event | Titled], None]
"""Takes an event of a turn."""
First: TypeAlias = Callable[[], Awaitable[bool]]
"""Is called before a resumed turn goes on. Returns False when the turn must not go on."""

NOTHING_TO_DO: Final = Ended("pending")
"""The end of a request that found nothing to go on with."""
GIVEN_UP: Final = Ended("aborted")
"""The end of a turn that waited and was given up."""


def _add_nothing(conversation: Conversation) -> AbstractContextManager[None]:
    """Give the conversation nothing."""
    return nullcontext()


async def _resume_at_once() -> bool:
    """Let the turn go on."""
    return True


class Session:
    """One session. Any client of its owner can make requests at any time."""

    __slots__ = (
        "__weakref__",
        "_ended",
        "_host",
        "_listeners",
        "_moved",
        "_queue",
        "_so_far",
        "_turn_elsewhere",
        "_unwatch",
        "_waiting",
        "conversation",
        "id",
        "owner",
        "turns",
        "unstored",
    )

    def __init__(self, session_id: str, owner: str, host: SessionHost) -> None:
        self.id = session_id
        self.owner = owner
        self.conversation: Conversation | None = None
        """Loaded for the first turn; the host may release it and load it again."""
        self.unstored: SessionRecord | None = None
        """The session as others see it, from the moment that a client knows its id until it is stored (SPEC W7)."""
        self._host = host
        self._queue = TurnQueue(session_id, host, self._end, self._release, self._follow_moved, self._follow_taken_over)
        self.turns = self._queue.turns
        """The first turn runs, the others wait in their order."""
        self._listeners: dict[object, Listener] = {}
        self._so_far = RoundSoFar()
        self._ended: tuple[str, Ended] | None = None
        """The last turn whose end the listeners got, and that end; a turn that waits (`pending`) has none yet."""
        self._unwatch: Callable[[], None] | None = None
        """Ends listening for turns on other nodes."""
        self._turn_elsewhere = ""
        """The id of the turn that runs on another node, as far as this node knows; empty: none."""
        self._moved: dict[str, asyncio.Future[Ended]] = {}
        """The ends of turns that began on this node and that other nodes go on with."""
        self._waiting = ""
        """The id of the turn that waits for results of calls, if it ran on this node."""

    @property
    def is_used(self) -> bool:
        """Whether a turn or a listener needs this session."""
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
        add_for_turn: AddForTurn = _add_nothing,
        gives_up: bool = False,
        history: Sequence[Message] = (),
        replaces: int = 0,
    ) -> Handle:
        """Answer this message in a turn.

        A message with a known id is not added twice: its sender gets the answer that it has, or will have.

        `agent` and `name`: the agent of a new session, and the session's name. `join`: the message becomes part of the
        running turn, if there is one. `debug`: the listener gets the model's prompt, too. `add_for_turn`: see
        `AddForTurn`. `gives_up`: a turn that waits for a page is ended first (graph.md 4.8), and the handle's end
        raises a `StoreError`. `history`: messages that a new session begins with. `replaces`: the number of an earlier
        message of the person; that message and all that follows it are removed.
        """
        running, turn_of_message = self._queue.running, self._queue.turn_of(message.id)
        if turn_of_message is not None:  # the message was sent before
            turn_of_message.listen_again(message, listener)
            return Handle(turn_of_message, is_own=False)
        if running is not None and running.knows(message.id):
            return Handle(running, is_own=False, ended=running.say_again(message, listener))
        if join and not replaces and running is not None and running.can_be_joined:
            return Handle(running, is_own=False, joined=running.join(message, listener))
        turn = self._queue.line_up(Turn(listener, shows_prompt=debug))
        turn.may_move = add_for_turn is _add_nothing
        work = partial(
            self._say, who, turn.add(message, listener), agent, name, add_for_turn, gives_up, history, replaces
        )
        task = asyncio.create_task(self._queue.run(turn, work))
        return self._queue.follow(turn, task, raises=(StoreError,) if gives_up else ())

    def regenerate(
        self, who: Principal, listener: Listener, *, debug: bool = False, add_for_turn: AddForTurn = _add_nothing
    ) -> Handle:
        """Answer the last message again, in place of its old answer. The handle's end raises `NoUserMessage`."""
        turn = self._queue.line_up(Turn(listener, shows_prompt=debug))
        turn.may_move = add_for_turn is _add_nothing
        work = partial(self._regenerate, who, add_for_turn)
        return self._queue.follow(turn, asyncio.create_task(self._queue.run(turn, work)))

    def resume(
        self,
        who: Principal | None = None,
        listener: Listener | None = None,
        add_for_turn: AddForTurn = _add_nothing,
        first: First = _resume_at_once,
        *,
        cut_off: bool = False,
    ) -> Handle:
        """Resume a waiting turn if all its calls have their results; otherwise the end is `NOTHING_TO_DO`.

        `first` is called when no other turn runs, and may give the calls their results: a request that is refused
        before that changes nothing. `cut_off`: also resume a turn whose process has ended. The handle's end raises a
        `StoreError`.
        """
        turn = self._queue.line_up(Turn(listener, checks_first=True))
        turn.may_move = add_for_turn is _add_nothing
        work = partial(self._resume, who, add_for_turn, first, cut_off)
        task = asyncio.create_task(self._queue.run(turn, work))
        return self._queue.follow(turn, task, raises=(StoreError,))

    def resume_once(self) -> Turn:
        """Resume a waiting turn as `resume` does, and return the turn. The session's listeners get its events.

        If a request to resume still waits in the queue, no second one is made: that request sees every result that is
        stored before it runs.
        """
        queued = next((turn for turn in self.turns[1:] if turn.is_resumption), None)
        if queued is None:
            queued = self.resume().turn
            queued.is_resumption = True
        return queued

    def take_over_turn(self) -> None:
        """Go on with a turn that another node has handed over, if there is one. The session's listeners get its events.

        If a request to take over is in the queue, no second one is made.
        """
        if any(turn.takes_over for turn in self.turns):
            return
        turn = self._queue.line_up(Turn(checks_first=True))
        turn.takes_over = True
        self._queue.follow(turn, asyncio.create_task(self._queue.run(turn, self._take_over_turn)))

    def give_up(self, who: Principal, *, expired: bool = False) -> Handle:
        """End a turn that waits for a page: the end is `GIVEN_UP`, or `NOTHING_TO_DO` when no turn waits.

        `expired`: only if none of the turn's calls is open when this request runs (graph.md 5.5). The handle's end
        raises a `ToolError`.
        """
        turn = self._queue.line_up(Turn(checks_first=True), asks_model=False)
        task = asyncio.create_task(self._queue.run(turn, partial(self._give_up, who, expired)))
        return self._queue.follow(turn, task, raises=(ToolError,))

    def undo(self, who: Principal) -> Handle:
        """Remove the person's last message and all that follows it; the end is `NOTHING_TO_DO`.

        What the calls of that turn did stays done. The handle's end raises `NoUserMessage`, and `SessionBusy` while a
        call is open.
        """
        turn = self._queue.line_up(Turn(checks_first=True), asks_model=False)
        task = asyncio.create_task(self._queue.run(turn, partial(self._undo, who)))
        return self._queue.follow(turn, task, raises=(ToolError,))

    def abort(self) -> bool:
        """Stop the running and the waiting turns. Return False when there is no turn. The text so far is stored."""
        stopped = [turn.abort() for turn in self.turns]  # a list: `any` alone would end with the first turn
        if self._turn_elsewhere and self._host.bus is not None:
            self._host.bus.publish(AbortRequested(self.owner, self.id))
            return True
        return any(stopped)

    def move_turns(self) -> None:
        """Let other nodes go on with the running turn, after its step."""
        self._watch()
        for turn in self.turns[:1]:
            turn.move()

    def stop_turns(self) -> None:
        """Cancel the step of the running turn, because the gateway stops: see `Turn.stop`."""
        for turn in self.turns[:1]:
            turn.stop()

    # Listeners.

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Give this listener all events of the session, until the returned function is called.

        A client that also makes requests gets each event once, if it makes them with the same listener.
        """
        key = object()
        self._listeners[key] = listener
        self._watch()

        def unlisten() -> None:
            self._listeners.pop(key, None)
            self._release()

        return unlisten

    def catch_up(self, listener: Listener) -> None:
        """Give this listener the events of the running round so far."""
        for event, turn in self._so_far.events():
            tell_each([listener], event, turn)

    def tell(self, event: SessionEvent, *, beside_turns: bool = False) -> None:
        """Give the listeners an event of the running or waiting turn.

        `beside_turns`: the event belongs to no turn, and only the session's own listeners get it.
        """
        if beside_turns:
            tell_each(self._listeners.values(), event, "")
        else:
            self._tell(event, self.turns[0].id if self.turns else self._waiting)

    def _tell(self, event: SessionEvent, turn: str) -> None:
        of_turn = self.turns[0].listeners if self.turns else []
        tell_each([*self._listeners.values(), *of_turn], event, turn)

    @property
    def turn_elsewhere(self) -> str:
        """The id of the turn that runs on another node, as far as this node knows; empty: none."""
        return self._turn_elsewhere

    def tell_elsewhere(self, event: Event | Titled, turn: str) -> None:
        """Give the listeners an event of a turn that runs on another node."""
        if self._is_repeated(event, turn):
            return
        self._note(event, turn)
        if type(event) is not Titled:  # the title comes after the end
            self._turn_elsewhere = "" if type(event) is Ended else turn
        tell_each(self._listeners.values(), event, turn)
        moved = self._moved.get(turn)
        if moved is not None and type(event) is Ended and not moved.done():
            moved.set_result(event)

    def _watch(self) -> None:
        """Listen for this session's turns on other nodes, if there are other nodes."""
        if self._host.watch is not None and self._unwatch is None:
            self._unwatch = self._host.watch(self.id)

    def _publish(self, event: Event | Titled, turn: str) -> None:
        """Publish an event of a turn to the bus and to all listeners."""
        if type(event) is Ended and event.reason == "aborted":
            event = self._aborted(event.text)
        if self._is_repeated(event, turn):
            return
        self._note(event, turn)
        if type(event) is Ended:
            self._waiting = turn if event.reason == "pending" else ""
        if self._host.bus is not None:
            self._host.bus.publish(TurnEvent(self.owner, self.id, turn, event))
        self._tell(event, turn)

    def _aborted(self, text: str = "") -> Ended:
        """Return the end of a turn that is aborted now: by a person, or by the stop of the gateway."""
        return Ended("aborted", text) if self._host.is_open else Ended("aborted", text, GATEWAY_STOPPED)

    def _is_repeated(self, event: Event | Titled, turn: str) -> bool:
        """Whether the listeners have this event from another node, which has taken the turn over; or this from them."""
        if type(event) is CallFinished and self._so_far.has_finished(event.id):
            return True
        is_over = self._ended is not None and self._ended[0] == turn
        return is_over and type(event) is not RoundBegan and type(event) is not Titled

    def _note(self, event: Event | Titled, turn: str) -> None:
        """Note an event that the listeners get now."""
        self._so_far.note(event, turn)
        if type(event) is Ended and event.reason != "pending":
            self._ended = (turn, event)
        elif type(event) is not Titled:  # the title comes after the end
            self._ended = None

    def _end(self, turn: Turn, ended: Ended) -> Ended:
        """Publish the end of a turn, if the loop has not published it."""
        if not turn.is_over:
            turn.is_over = True
            self._publish(ended, turn.id)
        return ended

    def _release(self) -> None:
        if not self.is_used:
            self._waiting = ""  # without listeners, the conversation alone remembers the turn
            if self._unwatch is not None:
                self._unwatch()
                self._unwatch, self._turn_elsewhere = None, ""
            self._host.release(self)

    # The work of turns.

    async def _say(
        self,
        who: Principal,
        message: UserMessage,
        agent: str,
        name: str,
        add_for_turn: AddForTurn,
        gives_up: bool,
        history: Sequence[Message],
        replaces: int,
        turn: Turn,
    ) -> Ended:
        host = self._host
        conversation, record = await host.open(self, who, agent=agent, name=name)
        with add_for_turn(conversation):
            if conversation.find_message(message.id) is not None:
                return await self._say_again(turn, conversation, message)
            emit = self._begin(turn, conversation)
            if record.state == "waiting" and not gives_up:
                await self._end_waiting(turn, conversation)
            async with host.stored_turns.turn(conversation, self._aborted) as stored:
                if conversation.find_message(message.id) is not None:  # another node has stored the message meanwhile
                    return await self._answer_known(turn, conversation, message, stored, emit)
                if gives_up and record.state == "waiting":
                    await host.loop.give_up(conversation)
                    stored.waits = False
                elif (waited_for := open_calls(conversation.last)) and (await stored.advance(emit)).reason == "pending":
                    raise ToolError("busy", waits_for(waited_for))
                conversation.end_turn_skills()  # of a turn that ended just before
                if replaces:
                    await host.stored_turns.rewind(conversation, before=replaces)
                for earlier in () if conversation.messages else history:
                    await conversation.append(earlier)
                await conversation.append(message)
                ended = await stored.advance(emit)
            return ended

    async def _answer_known(
        self, turn: Turn, conversation: Conversation, message: UserMessage, stored: StoredTurn, emit: EmitEvent
    ) -> Ended:
        """Answer a message that another node has stored while this turn waited. Return the end of its turn."""
        before = conversation.find_message(message.id)
        turn.id = before.turn if before is not None and before.turn else turn.id
        await self._host.stored_turns.load_ends(conversation)
        ended = turn.report_known(conversation, message)
        if ended is not None:
            turn.is_over = True
            return ended
        return await stored.advance(emit)

    async def _say_again(self, turn: Turn, conversation: Conversation, message: UserMessage) -> Ended:
        """Answer a known message if it has no answer yet, because the process that ran its turn has ended."""
        before = conversation.find_message(message.id)
        turn.id = before.turn if before is not None and before.turn else turn.id
        await self._host.stored_turns.load_ends(conversation)
        ended = turn.report_known(conversation, message)
        if ended is not None:
            turn.is_over = True
            return ended
        emit = self._begin(turn, conversation)
        ended = await self._go_on(conversation, lambda: emit, cut_off=True)
        if ended is None and (ended := turn.report_answer(conversation, message)) is not None:
            turn.is_over = True  # another node has answered the message meanwhile
        return ended or NOTHING_TO_DO

    async def _regenerate(self, who: Principal, add_for_turn: AddForTurn, turn: Turn) -> Ended:
        host = self._host
        conversation = await host.reopen(self, who)
        if conversation is None:
            raise NoUserMessage
        with add_for_turn(conversation):
            emit = self._begin(turn, conversation)
            async with host.stored_turns.turn(conversation, self._aborted) as stored:
                if waited_for := open_calls(conversation.last):
                    raise ToolError("busy", waits_for(waited_for))
                await host.stored_turns.rewind(conversation)
                return await stored.advance(emit)

    async def _undo(self, who: Principal, turn: Turn) -> Ended:
        host = self._host
        conversation = await host.reopen(self, who)
        if conversation is None:
            raise NoUserMessage
        async with host.stored_turns.turn(conversation, self._aborted) as stored:
            if waited_for := open_calls(conversation.last):
                raise ToolError("busy", waits_for(waited_for))
            await host.stored_turns.rewind(conversation, with_message=True)
            stored.waits = False
        return NOTHING_TO_DO

    async def _resume(
        self, who: Principal | None, add_for_turn: AddForTurn, first: First, cut_off: bool, turn: Turn
    ) -> Ended:
        conversation = await self._host.reopen(self, who)
        if conversation is None or not await first():
            return NOTHING_TO_DO
        turn.id = self._waiting or last_turn(conversation.messages) or turn.id  # a resumed turn keeps its id
        with add_for_turn(conversation):
            begin = partial(self._begin, turn, conversation)
            return await self._go_on(conversation, begin, cut_off=cut_off) or NOTHING_TO_DO

    async def _take_over_turn(self, turn: Turn) -> Ended:
        host = self._host
        conversation = await host.reopen(self)
        if conversation is None:
            return NOTHING_TO_DO
        try:
            async with host.stored_turns.turn(conversation, self._aborted, takes=True) as stored:
                turn.id = last_turn(conversation.messages) or turn.id  # a turn that was handed over keeps its id
                emit = self._begin(turn, conversation)
                ended = await stored.advance(emit)
        except ToolError as error:
            if error.code == "busy" and not turn.has_published:  # another node was faster
                return NOTHING_TO_DO
            raise
        return ended

    async def _follow_moved(self, turn: Turn) -> Ended:
        """Return the end of a turn that another node goes on with.

        Raises `TurnMoved` if no request waits for it, if there is no other node, and if the turn waits: that may last.
        """
        host = self._host
        waits = self.conversation is not None and bool(open_calls(self.conversation.last))
        ended = self._moved.setdefault(turn.id, asyncio.get_running_loop().create_future())
        self._turn_elsewhere = turn.id
        try:
            if host.hand_over is not None:
                host.hand_over(self.id, self.owner)
            if waits or host.watch is None or not turn.is_awaited_elsewhere:
                raise TurnMoved
            return await ended
        except asyncio.CancelledError:
            raise TurnMoved from None
        finally:
            del self._moved[turn.id]

    async def _follow_taken_over(self, turn: Turn) -> Ended:
        """Return the end of a turn that another node has taken over. If no node goes on with it, this one does."""
        host = self._host
        conversation = await host.reopen(self)
        if conversation is None:  # the session was deleted
            return self._end(turn, self._aborted())
        await host.stored_turns.wait_for_others(conversation)
        if self._ended is not None and self._ended[0] == turn.id:
            return self._ended[1]
        ended = await self._go_on(conversation, partial(self._begin, turn, conversation), cut_off=True)
        await host.stored_turns.load_ends(conversation)
        return ended or self._tell_stored_end(turn, conversation)

    def _tell_stored_end(self, turn: Turn, conversation: Conversation) -> Ended:
        """Give the listeners of this node the end of a turn that is over in the store, unless they have it."""
        if self._ended is not None and self._ended[0] == turn.id:
            return self._ended[1]
        asked = next((one for one in reversed(conversation.messages) if type(one) is UserMessage), None)
        messages, limits, ends = conversation.messages, conversation.limits, conversation.ends
        answered = None if asked is None else find_answer(asked, messages, limits, ends)
        if answered is None:  # the turn waits for the result of a call: its end comes later
            return NOTHING_TO_DO
        turn.is_over = True
        self._note(answered.ended, turn.id)
        turn.tell(answered)  # with the whole text
        tell_each([one for one in self._listeners.values() if one not in turn.listeners], answered.ended, turn.id)
        return answered.ended

    async def _give_up(self, who: Principal, expired: bool, turn: Turn) -> Ended:
        host = self._host
        conversation = await host.reopen(self, who)
        if conversation is None:
            return NOTHING_TO_DO
        async with host.stored_turns.turn(conversation, self._aborted) as stored:
            waited = await host.loop.can_go_on(conversation) if expired else bool(open_calls(conversation.last))
            if waited:
                self._begin(turn, conversation)
                await host.loop.give_up(conversation)
                stored.waits, stored.ended = False, GIVEN_UP
        return self._end(turn, GIVEN_UP) if waited else NOTHING_TO_DO

    async def _go_on(
        self, conversation: Conversation, begin: Callable[[], EmitEvent], *, cut_off: bool = False
    ) -> Ended | None:
        """Run the rest of a turn whose calls all have their results. Return None when a result is missing.

        `begin` begins the turn and returns the function for its events. It is called only if there is a rest to run: a
        message that comes again before that gets a turn of its own. `cut_off`: also run the rest of a turn whose
        process has ended.
        """
        host = self._host
        async with host.stored_turns.turn(conversation, self._aborted) as stored:
            if not (cut_off and conversation.is_cut_off) and not await host.loop.can_go_on(conversation):
                return None
            emit = begin()
            ended = await stored.advance(emit)
        return ended

    async def _end_waiting(self, turn: Turn, conversation: Conversation) -> None:
        """End a waiting turn before another turn begins. Raises `SessionBusy` if the waiting turn can't go on yet."""
        waiting = self._waiting or last_turn(conversation.messages)
        emit = self._begin(turn, conversation, waiting)
        await self._go_on(conversation, lambda: emit)
        if waited_for := open_calls(conversation.last):
            raise SessionBusy(waits_for(waited_for))
        turn.begin(conversation)

    def _begin(self, turn: Turn, conversation: Conversation, turn_id: str = "") -> EmitEvent:
        """Begin a turn. Return the function for its events; with `turn_id`, the events count as that turn's events."""
        turn.leaves = turn.leaves or (turn.may_move and self._host.is_leaving)
        if self._host.is_leaving:
            self._watch()  # before the turn is handed over: its end must not be missed
        self._turn_elsewhere = ""
        turn.begin(conversation)

        def emit(event: Event | Titled) -> None:
            kind = type(event)
            turn.has_published = True
            if kind is QuestionAsked and self._host.bus is not None:  # the bus has `QuestionOpened` once it is stored
                return
            if kind is RoundBegan and turn.shows_prompt:
                turn.shows_prompt = False
                turn.tell(render_prompt(conversation))  # only for the client that asked for the prompt
            if kind is Ended:
                turn.is_over = True
            self._publish(event, turn_id or turn.id)

        return emit
