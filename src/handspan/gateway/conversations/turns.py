"""Turns of sessions, for every door alike: one at a time, heard by all who watch, stopped when somebody says so.

A turn belongs to the gateway, not to who wanted it: `abort`, another front or the end of the gateway reach it too.
What can't be begun is a `TurnRefused`; what has begun ends with `Ended`, whatever happens.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias, TypeVar

from handspan.agent.session import Session
from handspan.core.conversations import Store
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import Ended, Event, QuestionAsked, RoundBegan
from handspan.core.messages import UserMessage
from handspan.core.principals import Principal
from handspan.core.questions import Answer, Question
from handspan.gateway.conversations.agents import Agents
from handspan.gateway.conversations.conversing import Conversing, open_calls, waits_for
from handspan.gateway.conversations.open_sessions import ChooseModel, OpenSessions
from handspan.gateway.conversations.past_turns import last_turn
from handspan.gateway.conversations.prompts import prompt_of
from handspan.gateway.conversations.rooms import PATIENCE, Room, Turn
from handspan.gateway.conversations.turn_events import Emit, Happening, QuestionOver, Titled
from handspan.gateway.conversations.turn_facts import Bound, RunningTurn, running_in
from handspan.gateway.conversations.turn_refusals import (
    STOPPING,
    NoUserMessage,
    SessionBusy,
    SessionRefused,
    TurnRefused,
)

__all__ = ["Bound", "NoUserMessage", "RunningTurn", "SessionBusy", "SessionRefused", "TurnRefused", "Turns"]

_T = TypeVar("_T")
Heard: TypeAlias = Callable[[str, str, Happening], None]
"""Hears what happens: owner, session, and what it is. Never blocks, never fails."""
Answering: TypeAlias = Callable[[Turn], Awaitable[Ended]]
"""What a turn does when it is its turn."""
Equip: TypeAlias = Callable[[Session], AbstractContextManager[None]]
"""Gives a session what it has for the length of one turn, such as the tools of who asked."""

_log = logging.getLogger(__name__)

_TIDY_SECONDS: Final = 10.0
_NO_TITLE_AFTER: Final = ("error", "aborted", "pending")
_NOTHING_TO_DO: Final = Ended("pending")


def _as_it_is(session: Session) -> AbstractContextManager[None]:
    """A session has what it has."""
    return nullcontext()


class Turns:
    """Runs the turns of all sessions of this gateway."""

    def __init__(
        self,
        store: Store,
        conversing: Conversing,
        agents: Agents,
        choose_model: ChooseModel,
        patience: float = PATIENCE,
    ) -> None:
        self._conversing = conversing
        self._sessions = OpenSessions(conversing, store.conversations, agents, choose_model)
        self._patience = patience
        self._rooms: dict[str, Room] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_open = True
        self.heard: list[Heard] = []
        """They hear all that happens in all turns: whoever counts, and live views."""

    def __len__(self) -> int:
        """How many sessions somebody talks in or watches."""
        return len(self._rooms)

    # What people do.

    async def bind(self, session_id: str | None, who: Principal, *, name: str = "", agent: str = "") -> Bound:
        """The session of this id, or a new one; nothing is written. `SessionRefused` when it can't be had."""
        if not session_id:
            if agent:  # the default one is looked for when something is said: devices never do
                await self._sessions.agent(agent, None, who.owner)
            return Bound(os.urandom(12).hex(), 0, name, agent, agent)
        self._refuse_stranger(session_id, who.owner)
        known = await self._sessions.find(session_id, who.owner)
        await self._sessions.agent(agent, known, who.owner)
        if known is None:
            return Bound(session_id, 0, name, agent, agent)
        return Bound(session_id, known.length, known.name or name, agent or known.agent, agent)

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
        turn that waits for a client over HTTP is ended first (http.md 4.8).
        """
        room = self._room(session_id, who.owner)
        running, its_own = room.running, room.turn_of(message.id)
        if its_own is not None:
            its_own.hear_again(message, emit)
            return await _end_of(its_own)
        if running is not None and running.knows(message.id):
            return running.say_again(message, emit) or await _end_of(running)
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
            if not known.name and ended.reason not in _NO_TITLE_AFTER:
                await self._give_title(room, turn, session)
            return ended

        turn = Turn(emit, debug=debug)
        saying = turn.say(message, emit)
        return await self._wanted(room, turn, answer)

    async def regenerate(self, session_id: str, who: Principal, emit: Emit, *, debug: bool = False) -> Ended:
        """The end of another turn that answers the last message, in place of the answer that it had."""
        room = self._room(session_id, who.owner)

        async def answer(turn: Turn) -> Ended:
            session = await self._sessions.reopen(session_id, who.owner, who)
            if session is None:
                raise NoUserMessage
            ended = await self._conversing.regenerate(session, self._begun(room, turn, session))
            if ended is None:
                raise NoUserMessage
            return ended

        return await self._wanted(room, Turn(emit, debug=debug), answer)

    async def abort(self, session_id: str, owner: str) -> bool:
        """Stop the session's turn, and those that wait for theirs; False when there is none. What arrived is kept."""
        room = self._rooms.get(session_id)
        if room is None or room.owner != owner:
            return False
        stopped = [turn.abort() for turn in room.turns]
        return any(stopped)

    # Going on.

    async def go_on(self, session_id: str, owner: str) -> None:
        """Let a turn that waited go on, if all its calls have their results now; who watches the session hears it.

        Whoever cancels this call does not stop the turn.
        """
        room, turn = self._room(session_id, owner), Turn()
        try:
            self._start(room, turn, self._going_on(room, None, _as_it_is))
            await asyncio.wait([turn.task])
            if not turn.task.cancelled():
                turn.task.result()
        except TurnRefused as refused:
            _log.warning("The session %s could not go on: %s", session_id, refused)

    async def resume(self, session_id: str, who: Principal, emit: Emit, equip: Equip = _as_it_is) -> Ended:
        """The end of a turn that waited, for who brought the results of its calls; `pending` while some have none."""
        room = self._room(session_id, who.owner)
        return await self._wanted(room, Turn(emit), self._going_on(room, who, equip))

    async def give_up(self, session_id: str, who: Principal) -> bool:
        """End a turn that waits for a client over HTTP; False when there is none. `SessionBusy`."""
        room = self._room(session_id, who.owner)
        has_ended = False

        async def answer(turn: Turn) -> Ended:
            nonlocal has_ended
            session = await self._sessions.reopen(session_id, who.owner, who)
            if session is not None:
                has_ended = await self._conversing.give_up(session, self._begun(room, turn, session))
            return self._end(room, turn, Ended("aborted")) if has_ended else Ended("done")

        await self._wanted(room, Turn(), answer)
        return has_ended

    def _going_on(self, room: Room, who: Principal | None, equip: Equip) -> Answering:
        async def answer(turn: Turn) -> Ended:
            session = await self._sessions.reopen(room.id, room.owner, who)
            if session is None:
                return _NOTHING_TO_DO
            turn.id = room.waiting or last_turn(session.messages) or turn.id  # it is the same turn
            with equip(session):
                return await self._conversing.go_on(session, self._begun(room, turn, session)) or _NOTHING_TO_DO

        return answer

    # Watching.

    def watch(self, session_id: str, owner: str, emit: Emit) -> Callable[[], None]:
        """Let a front hear all turns of the session, until it calls what it gets. `SessionRefused` for a stranger.

        A front that also says something hears each event once, if it gives the same `emit`.
        """
        room, place = self._room(session_id, owner), object()
        room.watch(place, emit)

        def unwatch() -> None:
            room.unwatch(place)
            self._tidy(room)

        return unwatch

    def tell(self, session_id: str, owner: str, happening: Happening) -> None:
        """Let the fronts of a session hear this."""
        room = self._rooms.get(session_id)
        if room is not None and room.owner == owner:
            room.tell(happening, room.turn)

    def question_asked(self, question: Question) -> None:
        """Let the fronts of its session know that a person is asked."""
        self.tell(question.session, question.owner, QuestionAsked(question))

    def question_closed(self, question: Question, answer: Answer | None, by: str) -> None:
        """Let the fronts of its session know that nobody is asked any more."""
        self.tell(question.session, question.owner, QuestionOver(question.id, by))

    def running(self, owner: str) -> list[RunningTurn]:
        """The owner's turns that run here."""
        rooms = (room for room in self._rooms.values() if room.owner == owner and room.turns)
        return [running_in(room) for room in rooms]

    def state(self, session_id: str, owner: str) -> RunningTurn | None:
        """The turn that runs in this session, if there is one here."""
        room = self._rooms.get(session_id)
        return running_in(room) if room is not None and room.owner == owner and room.turns else None

    # The end.

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work beside the turns; it ends with them. Nobody waits for it: what goes wrong is in the log."""
        self._task(work).add_done_callback(_log_failure)

    async def drain(self, seconds: float) -> None:
        """Begin no more turns, let those that run end for so long, then abort them. Nothing is left running."""
        self._is_open = False
        for room in self._rooms.values():
            for turn in room.turns:
                turn.may_begin.set()  # those that wait see that it is over
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        left = set(self._tasks)
        for task in left:
            if not task.cancelling():
                task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=_TIDY_SECONDS)
            for task in stuck:
                _log.error("A turn did not end when it was aborted: %r", task)

    # Inside.

    def _room(self, session_id: str, owner: str) -> Room:
        self._refuse_stranger(session_id, owner)
        room = self._rooms.get(session_id)
        if room is None:
            room = self._rooms[session_id] = Room(session_id, owner, self._patience)
        return room

    def _refuse_stranger(self, session_id: str, owner: str) -> None:
        """A session that has not been written yet is already somebody's: of who talks in it, or watches it."""
        room = self._rooms.get(session_id)
        if room is not None and room.owner != owner:
            text = f"The session {session_id[:60]!r} belongs to somebody else: choose another id."
            raise SessionRefused("SESSION_OWNER_MISMATCH", text)

    def _tidy(self, room: Room) -> None:
        if room.is_empty and self._rooms.get(room.id) is room:
            del self._rooms[room.id]

    async def _wanted(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        self._start(room, turn, answer)
        try:
            await asyncio.wait([turn.task])
        except asyncio.CancelledError:
            turn.abort()
            await asyncio.wait([turn.task])
            raise
        return Ended("aborted") if turn.task.cancelled() else turn.task.result()

    async def _joined(self, turn: Turn, message: UserMessage, emit: Emit) -> Ended:
        joining = turn.join(message, emit)
        ended = await _end_of(turn)
        if not turn.task.cancelled() and turn.has_left(joining):
            raise SessionBusy("The session waits for the outcome of a call: say it again later.")
        return ended

    def _start(self, room: Room, turn: Turn, answer: Answering) -> None:
        try:
            if not self._is_open:
                raise SessionBusy(STOPPING)
            room.enter(turn)
        except SessionBusy:
            self._tidy(room)
            raise
        turn.task = self._task(self._run(room, turn, answer))
        turn.task.add_done_callback(lambda _: self._left(room, turn))

    def _left(self, room: Room, turn: Turn) -> None:
        """The turn is over. This is heard of one that was stopped before its first step, too."""
        room.leave(turn)
        self._tidy(room)
        if turn.task.cancelled() and not turn.is_over:  # it never began: nobody else has heard of it
            turn.tell(Ended("aborted"))

    def _task(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it hears of it; nobody may be left who does

    async def _run(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        await room.wait(turn)
        if not self._is_open:
            raise SessionBusy(STOPPING)
        try:
            return await self._ended(room, turn, answer)
        finally:
            turn.is_over = True

    async def _ended(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        """The turn's end, told to everybody, whatever happens in it; `TurnRefused` when it did not begin."""
        try:
            return await answer(turn)
        except asyncio.CancelledError:
            self._end(room, turn, Ended("aborted"))
            raise
        except TurnRefused:
            raise
        except ToolError as error:
            if error.code == "busy" and not turn.was_heard:
                raise SessionBusy(error.message) from None
            return self._end(room, turn, Ended("error", error.message))
        except HandspanError as error:  # such as a model without its key
            return self._end(room, turn, Ended("error", str(error)))
        except Exception as error:  # of a model's adapter: the session goes on
            _log.exception("A turn of the session %s failed", room.id)
            text = f"The turn failed inside the gateway ({type(error).__name__}): its log says more. Say it again."
            return self._end(room, turn, Ended("error", text))

    def _end(self, room: Room, turn: Turn, ended: Ended) -> Ended:
        """Tell the end, if the loop has not."""
        if not turn.is_over:
            turn.is_over = True
            self._tell(room, ended, turn.id)
        return ended

    def _tell(self, room: Room, happening: Happening, turn: str) -> None:
        if type(happening) is Ended:
            room.waiting = turn if happening.reason == "pending" else ""
        for hear in self.heard:
            hear(room.owner, room.id, happening)
        room.tell(happening, turn)

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
            return await self._conversing.answer(session, self._begun(room, turn, session)) or _NOTHING_TO_DO
        turn.is_over = True
        return ended

    def _begun(self, room: Room, turn: Turn, session: Session, turn_id: str = "") -> Callable[[Event], None]:
        """What hears the turn's events; with an id, those of another turn that ends before this one begins."""
        turn.begin(session)

        def hear(event: Event) -> None:
            kind = type(event)
            turn.was_heard = True
            if kind is QuestionAsked:  # who is to answer hears it when it is kept: `question_asked`
                return
            if kind is RoundBegan and turn.shows_prompt:
                turn.shows_prompt = False
                turn.tell(prompt_of(session))  # for who asked: others only watch
            if kind is Ended:
                turn.is_over = True
            self._tell(room, event, turn_id or turn.id)

        return hear

    async def _end_waiting(self, room: Room, turn: Turn, session: Session) -> None:
        """End a turn that waited, before another one begins; `SessionBusy` while it waits on."""
        waiting = room.waiting or last_turn(session.messages)
        await self._conversing.go_on(session, self._begun(room, turn, session, waiting))
        if waited_for := open_calls(session.last):
            raise SessionBusy(waits_for(waited_for))
        turn.begin(session)

    async def _give_title(self, room: Room, turn: Turn, session: Session) -> None:
        try:
            if title := await self._sessions.give_title(session, room.owner):
                self._tell(room, Titled(title), turn.id)
        except ToolError as error:  # the turn is over and kept all the same
            _log.warning("The session %s got no name: %s", room.id, error.message)


def _log_failure(done: asyncio.Task[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        _log.error("Work beside the turns failed: %s", error, exc_info=error)


async def _end_of(turn: Turn) -> Ended:
    """How it ends, for who did not begin it: cancelling this does not stop it."""
    await asyncio.wait([turn.task])
    return Ended("aborted") if turn.task.cancelled() else turn.task.result()
