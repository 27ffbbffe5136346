"""The floor of every session: whose turn it is, who waits for theirs, and that each turn ends, whatever happens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from handspan.core.bus import Bus, TurnEvent
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import Ended, Event, Titled
from handspan.gateway.conversations.rooms import PATIENCE, Room, Turn
from handspan.gateway.conversations.tasks import Tasks
from handspan.gateway.conversations.turn_facts import RunningTurn, running_in
from handspan.gateway.conversations.turn_refusals import GatewayStops, SessionBusy, SessionRefused, TurnRefused

Answering: TypeAlias = Callable[[Turn], Awaitable[Ended]]
"""What a turn does when it is its turn."""

_log = logging.getLogger(__name__)

_TIDY_SECONDS: Final = 10.0


class Floor:
    """Lets turns run: in each session one at a time, and none after the end of the gateway has begun."""

    def __init__(self, bus: Bus, patience: float = PATIENCE) -> None:
        """`bus` is told of all that happens; `patience`: seconds that a turn waits for the one before it."""
        self._bus = bus
        self._patience = patience
        self._rooms: dict[str, Room] = {}
        self._tasks = Tasks()
        self._is_open = True

    def __len__(self) -> int:
        """How many sessions somebody talks in or watches."""
        return len(self._rooms)

    # Rooms.

    def room(self, session_id: str, owner: str) -> Room:
        """The room of this session, for who wants to say or hear something in it; then `tidy`. `SessionRefused`."""
        self.refuse_stranger(session_id, owner)
        room = self._rooms.get(session_id)
        if room is None:
            room = self._rooms[session_id] = Room(session_id, owner, self._patience)
        return room

    def refuse_stranger(self, session_id: str, owner: str) -> None:
        """A session that has not been written yet is already somebody's: of who talks in it, or watches it."""
        room = self._rooms.get(session_id)
        if room is not None and room.owner != owner:
            text = f"The session {session_id[:60]!r} belongs to somebody else: choose another id."
            raise SessionRefused("SESSION_OWNER_MISMATCH", text)

    def tidy(self, room: Room) -> None:
        """Let the room go if nobody needs it any more."""
        if room.is_empty and self._rooms.get(room.id) is room:
            del self._rooms[room.id]

    def find(self, session_id: str, owner: str) -> Room | None:
        """The owner's room of this session, if somebody is in it."""
        room = self._rooms.get(session_id)
        return room if room is not None and room.owner == owner else None

    def running(self, owner: str) -> list[RunningTurn]:
        """The owner's turns that run here."""
        rooms = (room for room in self._rooms.values() if room.owner == owner and room.turns)
        return [running_in(room) for room in rooms]

    def state(self, session_id: str, owner: str) -> RunningTurn | None:
        """The turn that runs in this session, if there is one here."""
        room = self.find(session_id, owner)
        return running_in(room) if room is not None and room.turns else None

    # Turns.

    async def wanted(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        """The end of this turn, when it has had it. Whoever cancels this call aborts it. `TurnRefused`."""
        self.start(room, turn, answer)
        try:
            await asyncio.wait([turn.task])
        except asyncio.CancelledError:
            turn.abort()
            await asyncio.wait([turn.task])
            raise
        return Ended("aborted") if turn.task.cancelled() else turn.task.result()

    def start(self, room: Room, turn: Turn, answer: Answering) -> None:
        """Let this turn run when it is its turn; `SessionBusy` when too many wait, or the gateway ends."""
        try:
            if not self._is_open:
                raise GatewayStops
            room.enter(turn)
        except SessionBusy:
            self.tidy(room)
            raise
        turn.task = self._tasks.start(self._run(room, turn, answer))
        turn.task.add_done_callback(lambda _: self._left(room, turn))

    def _left(self, room: Room, turn: Turn) -> None:
        """The turn is over. This is heard of one that was stopped before its first step, too."""
        room.leave(turn)
        self.tidy(room)
        if turn.task.cancelled() and not turn.is_over:  # it never began: nobody else has heard of it
            turn.tell(Ended("aborted"))

    async def _run(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        await room.wait(turn)
        if not self._is_open:
            raise GatewayStops
        try:
            return await self._ended(room, turn, answer)
        finally:
            turn.is_over = True

    async def _ended(self, room: Room, turn: Turn, answer: Answering) -> Ended:
        """The turn's end, told to everybody, whatever happens in it; `TurnRefused` when it did not begin."""
        try:
            return await answer(turn)
        except asyncio.CancelledError:
            self.end(room, turn, Ended("aborted"))
            raise
        except TurnRefused:
            raise
        except ToolError as error:
            if error.code == "busy" and not turn.was_heard:
                raise SessionBusy(error.message) from None
            turn.failure = error
            return self.end(room, turn, Ended("error", error.message))
        except HandspanError as error:  # such as a model without its key
            return self.end(room, turn, Ended("error", str(error)))
        except Exception as error:  # of a model's adapter: the session goes on
            _log.exception("A turn of the session %s failed", room.id)
            text = f"The turn failed inside the gateway ({type(error).__name__}): its log says more. Say it again."
            return self.end(room, turn, Ended("error", text))

    def end(self, room: Room, turn: Turn, ended: Ended) -> Ended:
        """Tell the end, if the loop has not."""
        if not turn.is_over:
            turn.is_over = True
            self.tell(room, ended, turn.id)
        return ended

    def tell(self, room: Room, happening: Event | Titled, turn: str) -> None:
        """Let everybody hear what happens in a turn of this room."""
        if type(happening) is Ended:
            room.waiting = turn if happening.reason == "pending" else ""
        self._bus.publish(TurnEvent(room.owner, room.id, turn, happening))
        room.tell(happening, turn)

    # The end.

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work beside the turns; it ends with them. Nobody waits for it: what goes wrong is in the log."""
        self._tasks.start(work).add_done_callback(_log_failure)

    async def drain(self, seconds: float) -> None:
        """Begin no more turns, let those that run end for so long, then abort them. Nothing is left running."""
        self._is_open = False
        for room in self._rooms.values():
            for turn in room.turns:
                turn.may_begin.set()  # those that wait see that it is over
        if self._tasks.left:
            await asyncio.wait(self._tasks.left, timeout=seconds)
        left = set(self._tasks.left)
        for task in left:
            if not task.cancelling():
                task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=_TIDY_SECONDS)
            for task in stuck:
                _log.error("A turn did not end when it was aborted: %r", task)


def _log_failure(done: asyncio.Task[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        _log.error("Work beside the turns failed: %s", error, exc_info=error)


async def end_of(turn: Turn) -> Ended:
    """How it ends, for who did not begin it: cancelling this does not stop it."""
    await asyncio.wait([turn.task])
    return Ended("aborted") if turn.task.cancelled() else turn.task.result()
