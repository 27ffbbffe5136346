"""Turns of sessions, for every door alike: one at a time, heard by all who watch, stopped when somebody says so.

A turn belongs to the gateway, not to who wanted it: `abort`, another front or the end of the gateway reach it too.
What can't be begun is a `TurnRefused`; what has begun ends with `Ended`, whatever happens.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

from handspan.agent.session import Session
from handspan.core.bus import Bus, QuestionEnded, QuestionOpened
from handspan.core.errors import StoreError
from handspan.core.events import Ended, Event, QuestionAsked, RoundBegan, Titled
from handspan.core.messages import UserMessage
from handspan.core.principals import Principal
from handspan.core.store import Store
from handspan.gateway.conversations.agents import Agents
from handspan.gateway.conversations.conversing import Conversing, Hear, open_calls, waits_for
from handspan.gateway.conversations.floor import Answering, Floor, end_of
from handspan.gateway.conversations.open_sessions import ChooseModel, OpenSessions
from handspan.gateway.conversations.past_turns import last_turn
from handspan.gateway.conversations.prompts import prompt_of
from handspan.gateway.conversations.rooms import PATIENCE, Room, Turn
from handspan.gateway.conversations.turn_events import Emit, Happening, QuestionOver
from handspan.gateway.conversations.turn_facts import Bound, RunningTurn
from handspan.gateway.conversations.turn_refusals import (
    NoUserMessage,
    SessionBusy,
    SessionRefused,
    TurnRefused,
)

__all__ = ["Bound", "NoUserMessage", "RunningTurn", "SessionBusy", "SessionRefused", "TurnRefused", "Turns"]

Equip: TypeAlias = Callable[[Session], AbstractContextManager[None]]
"""Gives a session what it has for the length of one turn, such as the tools of who asked."""
First: TypeAlias = Callable[[], Awaitable[bool]]
"""What a turn does before it goes on; False: then it does not."""

_log = logging.getLogger(__name__)

NOTHING_TO_DO: Final = Ended("pending")
"""There was nothing to go on with, or not yet."""


def _as_it_is(session: Session) -> AbstractContextManager[None]:
    """A session has what it has."""
    return nullcontext()


def _refuse_what_is_not_kept(turn: Turn) -> None:
    """A client over HTTP hears of the store's failure by its code, not as an end of the turn (http.md 1.7)."""
    if isinstance(turn.failure, StoreError):
        raise turn.failure


async def _nothing_first() -> bool:
    """It goes on as it is."""
    return True


class Turns:
    """Runs the turns of all sessions of this gateway."""

    def __init__(
        self,
        store: Store,
        conversing: Conversing,
        agents: Agents,
        choose_model: ChooseModel,
        bus: Bus,
        patience: float = PATIENCE,
    ) -> None:
        """`bus` is told of all that happens in all turns; the fronts of a session hear of its questions by it."""
        self._conversing = conversing
        self._sessions = OpenSessions(conversing, store.conversations, agents, choose_model)
        self._floor = Floor(bus, patience)
        bus.subscribe(QuestionOpened, self._question_opened)
        bus.subscribe(QuestionEnded, self._question_ended)

    def __len__(self) -> int:
        """How many sessions somebody talks in or watches."""
        return len(self._floor)

    # What people do.

    async def bind(self, session_id: str | None, who: Principal, *, name: str = "", agent: str = "") -> Bound:
        """The session of this id, or a new one; nothing is written. `SessionRefused` when it can't be had."""
        if not session_id:
            if agent:  # the default one is looked for when something is said: devices never do
                await self._sessions.agent(agent, None, who.owner)
            return Bound(os.urandom(12).hex(), 0, name, agent, agent)
        self._floor.refuse_stranger(session_id, who.owner)
        known = await self._sessions.find(session_id, who.owner)
        await self._sessions.agent(agent, known, who.owner)
        if known is None:
            return Bound(session_id, 0, name, agent, agent)
        return Bound(session_id, known.length, known.name or name, agent or known.agent, agent, known.removed)

    async def say(
        self,
        session_id: str,
        who: Principal,
        message: UserMessage,
        emit: Emit,
        *,
        agent: str = "",
        name: str = "",
        join: bool = False,
        debug: bool = False,
        equip: Equip = _as_it_is,
        gives_up: bool = False,
    ) -> Ended:
        """The end of the turn that answers this. Whoever cancels this call aborts the turn.

        `join`: become part of the turn that runs, where there is one; cancelling does not abort that. A message with an
        id that the session knows is not said twice: who says it again hears how it is, or was, answered. `gives_up`: a
        turn that waits for a client over HTTP is ended first (http.md 4.8), and a `StoreError` is raised.
        """
        room = self._floor.room(session_id, who.owner)
        running, its_own = room.running, room.turn_of(message.id)
        if its_own is not None:
            its_own.hear_again(message, emit)
            return await end_of(its_own)
        if running is not None and running.knows(message.id):
            return running.say_again(message, emit) or await end_of(running)
        if join and running is not None and running.may_be_joined:
            return await self._joined(running, message, emit)

        async def answer(turn: Turn) -> Ended:
            session, known = await self._sessions.open(session_id, who.owner, who, agent=agent, name=name)
            with equip(session):
                if session.said(saying.id) is not None:
                    ended = await self._answer_again(room, turn, session, saying)
                elif gives_up:
                    hear = self._begun(room, turn, session)
                    ended = await self._conversing.say(session, saying, hear, gives_up=known.state == "waiting")
                else:
                    ended = await self._answer(room, turn, session, saying, was_waiting=known.state == "waiting")
            return ended

        turn = Turn(emit, debug=debug)
        saying = turn.say(message, emit)
        ended = await self._floor.wanted(room, turn, answer)
        if gives_up:
            _refuse_what_is_not_kept(turn)
        return ended

    async def regenerate(self, session_id: str, who: Principal, emit: Emit, *, debug: bool = False) -> Ended:
        """The end of another turn that answers the last message, in place of the answer that it had."""
        room = self._floor.room(session_id, who.owner)

        async def answer(turn: Turn) -> Ended:
            session = await self._sessions.reopen(session_id, who.owner, who)
            if session is None:
                raise NoUserMessage
            ended = await self._conversing.regenerate(session, self._begun(room, turn, session))
            if ended is None:
                raise NoUserMessage
            return ended

        return await self._floor.wanted(room, Turn(emit, debug=debug), answer)

    async def abort(self, session_id: str, owner: str) -> bool:
        """Stop the session's turn, and those that wait for theirs; False when there is none. What arrived is kept."""
        room = self._floor.find(session_id, owner)
        if room is None:
            return False
        stopped = [turn.abort() for turn in room.turns]
        return any(stopped)

    # Going on.

    async def go_on(self, session_id: str, owner: str) -> None:
        """Let a turn that waited go on, if all its calls have their results now; who watches the session hears it.

        Whoever cancels this call does not stop the turn.
        """
        room, turn = self._floor.room(session_id, owner), Turn()
        try:
            self._floor.start(room, turn, self._going_on(room, None))
            await asyncio.wait([turn.task])
            if not turn.task.cancelled():
                turn.task.result()
        except TurnRefused as refused:
            _log.warning("The session %s could not go on: %s", session_id, refused)

    async def resume(
        self, session_id: str, who: Principal, emit: Emit, equip: Equip = _as_it_is, first: First = _nothing_first
    ) -> Ended:
        """The end of a turn that waited, for who brings the results of its calls; `pending` while some have none.

        `first` lets the calls have them, when nobody else has the session: what is refused before it took nothing. A
        `StoreError` is raised.
        """
        room, turn = self._floor.room(session_id, who.owner), Turn(emit)
        ended = await self._floor.wanted(room, turn, self._going_on(room, who, equip, first))
        _refuse_what_is_not_kept(turn)
        return ended

    async def give_up(self, session_id: str, who: Principal, *, expired: bool = False) -> bool:
        """End a turn that waits for a client over HTTP; False when there is none. `SessionBusy`, `StoreError`.

        `expired`: only one none of whose calls is open any more, when it comes to that.
        """
        room = self._floor.room(session_id, who.owner)
        has_ended = False

        async def answer(turn: Turn) -> Ended:
            nonlocal has_ended
            session = await self._sessions.reopen(session_id, who.owner, who)
            if session is not None:
                hear = self._begun(room, turn, session)
                has_ended = await self._conversing.give_up(session, hear, expired=expired)
            return self._floor.end(room, turn, Ended("aborted")) if has_ended else Ended("done")

        turn = Turn()
        await self._floor.wanted(room, turn, answer)
        if turn.failure is not None:
            raise turn.failure
        return has_ended

    def _going_on(
        self, room: Room, who: Principal | None, equip: Equip = _as_it_is, first: First = _nothing_first
    ) -> Answering:
        async def answer(turn: Turn) -> Ended:
            session = await self._sessions.reopen(room.id, room.owner, who)
            if session is None or not await first():
                return NOTHING_TO_DO
            turn.id = room.waiting or last_turn(session.messages) or turn.id  # it is the same turn
            with equip(session):
                return await self._conversing.go_on(session, self._begun(room, turn, session)) or NOTHING_TO_DO

        return answer

    # Watching.

    def watch(self, session_id: str, owner: str, emit: Emit) -> Callable[[], None]:
        """Let a front hear all turns of the session, until it calls what it gets. `SessionRefused` for a stranger.

        A front that also says something hears each event once, if it gives the same `emit`.
        """
        room, place = self._floor.room(session_id, owner), object()
        room.watch(place, emit)

        def unwatch() -> None:
            room.unwatch(place)
            self._floor.tidy(room)

        return unwatch

    def tell(self, session_id: str, owner: str, happening: Happening) -> None:
        """Let the fronts of a session hear this."""
        room = self._floor.find(session_id, owner)
        if room is not None:
            room.tell(happening, room.turn)

    def _question_opened(self, event: QuestionOpened) -> None:
        """Let the fronts of its session know that a person is asked."""
        self.tell(event.question.session, event.owner, QuestionAsked(event.question))

    def _question_ended(self, event: QuestionEnded) -> None:
        """Let the fronts of its session know that nobody is asked any more."""
        self.tell(event.session, event.owner, QuestionOver(event.id, event.by))

    def running(self, owner: str) -> list[RunningTurn]:
        """The owner's turns that run here."""
        return self._floor.running(owner)

    def state(self, session_id: str, owner: str) -> RunningTurn | None:
        """The turn that runs in this session, if there is one here."""
        return self._floor.state(session_id, owner)

    # The end.

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work beside the turns; it ends with them. Nobody waits for it: what goes wrong is in the log."""
        self._floor.beside(work)

    async def drain(self, seconds: float) -> None:
        """Begin no more turns, let those that run end for so long, then abort them. Nothing is left running."""
        await self._floor.drain(seconds)

    # Inside.

    async def _joined(self, turn: Turn, message: UserMessage, emit: Emit) -> Ended:
        joining = turn.join(message, emit)
        ended = await end_of(turn)
        if not turn.task.cancelled() and turn.has_left(joining):
            raise SessionBusy("The session waits for the outcome of a call: say it again later.")
        return ended

    async def _answer(
        self, room: Room, turn: Turn, session: Session, message: UserMessage, *, was_waiting: bool
    ) -> Ended:
        hear = self._begun(room, turn, session)
        if was_waiting:
            await self._end_waiting(room, turn, session)
        return await self._conversing.say(session, message, hear)

    async def _answer_again(self, room: Room, turn: Turn, session: Session, message: UserMessage) -> Ended:
        """What was said before is answered now if it was not yet: its turn was cut off by the end of a process."""
        before = session.said(message.id)
        turn.id = before.turn if before is not None and before.turn else turn.id
        ended = turn.retell(session, message)
        if ended is None:
            return await self._conversing.answer(session, self._begun(room, turn, session)) or NOTHING_TO_DO
        turn.is_over = True
        return ended

    def _begun(self, room: Room, turn: Turn, session: Session, turn_id: str = "") -> Hear:
        """What hears the turn's events; with an id, those of another turn that ends before this one begins."""
        turn.begin(session)

        def hear(event: Event | Titled) -> None:
            kind = type(event)
            turn.was_heard = True
            if kind is QuestionAsked:  # who is to answer hears it when it is kept: `QuestionOpened`
                return
            if kind is RoundBegan and turn.shows_prompt:
                turn.shows_prompt = False
                turn.tell(prompt_of(session))  # for who asked: others only watch
            if kind is Ended:
                turn.is_over = True
            self._floor.tell(room, event, turn_id or turn.id)

        return hear

    async def _end_waiting(self, room: Room, turn: Turn, session: Session) -> None:
        """End a turn that waited, before another one begins; `SessionBusy` while it waits on."""
        waiting = room.waiting or last_turn(session.messages)
        await self._conversing.go_on(session, self._begun(room, turn, session, waiting))
        if waited_for := open_calls(session.last):
            raise SessionBusy(waits_for(waited_for))
        turn.begin(session)
