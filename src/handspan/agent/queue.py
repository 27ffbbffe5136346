"""The turns of one session: one at a time, in the order of the requests. Every turn has an end, even if it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar
from weakref import WeakMethod

from handspan.agent.refusals import GatewayStops, NoTurnsHere, SessionBusy, TurnMoved, TurnRefused
from handspan.agent.turn import Handle, Turn
from handspan.agent.turn_events import failed_end
from handspan.core.errors import HandspanError, TakenOver, ToolError
from handspan.core.events import Ended
from handspan.core.tasks import Tasks

Work: TypeAlias = Callable[[Turn], Awaitable[Ended]]
"""The work of a turn, done when the turns before it are over."""

MAX_WAITING: Final = 8
"""How many turns of a session may wait."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class TurnHost(Protocol):
    """What turns need from their host."""

    tasks: Tasks
    wait_seconds: float
    """Seconds that a turn waits for the turns before it."""
    is_open: bool
    """Whether new turns may begin."""
    runs_turns: bool
    """Whether turns run on this node at all."""


class TurnQueue:
    """The first turn runs, the others wait in their order."""

    __slots__ = (
        "_end_of_session",
        "_host",
        "_left_of_session",
        "_moved_of_session",
        "_session_id",
        "_taken_of_session",
        "turns",
    )

    def __init__(
        self,
        session_id: str,
        host: TurnHost,
        end: Callable[[Turn, Ended], Ended],
        left: Callable[[], None],
        moved: Callable[[Turn], Awaitable[Ended]],
        taken: Callable[[Turn], Awaitable[Ended]],
    ) -> None:
        """`end` publishes the end of a turn, if the loop has not; `left` is called when a turn has left the queue.
        `moved` waits for the end of a turn that another node goes on with, `taken` for that of one that another node
        has taken over, because it counted this one as lost.

        All of them are methods of the session that has this queue. The queue refers to them weakly, so that it does not
        keep the session in memory.
        """
        self.turns: list[Turn] = []
        self._session_id = session_id
        self._host = host
        self._end_of_session = WeakMethod(end)
        self._left_of_session = WeakMethod(left)
        self._moved_of_session = WeakMethod(moved)
        self._taken_of_session = WeakMethod(taken)

    @property
    def running(self) -> Turn | None:
        """The turn that runs, if its end was not published yet."""
        return self.turns[0] if self.turns and not self.turns[0].is_over else None

    def turn_of(self, message_id: str) -> Turn | None:
        """Return the running or waiting turn that has this message."""
        turns = (turn for turn in self.turns if not turn.is_over and turn.has(message_id))
        return next(turns, None) if message_id else None

    def line_up(self, turn: Turn, *, asks_model: bool = True) -> Turn:
        """Put a turn at the end of the queue, and return it. Raises `SessionBusy` when too many turns wait.

        `asks_model`: False for a turn that only changes what is stored. Raises `NoTurnsHere` for any other turn, if
        this node runs no turns. Raises `GatewayStops` when the gateway is being stopped.
        """
        try:
            if asks_model and not self._host.runs_turns:
                raise NoTurnsHere
            if not self._host.is_open:
                raise GatewayStops
            if (waiting := len(self.turns) - 1) >= MAX_WAITING:
                raise SessionBusy(f"Session {self._session_id} queue full ({waiting} pending requests)")
        except TurnRefused:
            self._left()
            raise
        self.turns.append(turn)
        return turn

    def follow(self, turn: Turn, task: asyncio.Task[Ended], *, raises: tuple[type[ToolError], ...] = ()) -> Handle:
        """Return the handle of a turn. `task` runs the turn, which leaves the queue when the task is done."""
        turn.task = task
        self._host.tasks.hold(task)
        task.add_done_callback(lambda _: self._leave(turn))
        return Handle(turn, raises=raises)

    async def run(self, turn: Turn, work: Work) -> Ended:
        """Do the work of a turn. Return its end, which all listeners get. Raises `TurnRefused` if it can't begin."""
        await self._wait(turn)
        try:
            return await self._work(turn, work)
        except asyncio.CancelledError:
            self._end(turn, Ended("aborted"))
            raise
        except TurnMoved:
            moved = self._moved_of_session()
            if moved is None:
                raise
            return await moved(turn)
        except TurnRefused:
            raise
        except ToolError as error:
            if error.code == "busy" and not turn.has_published:
                raise SessionBusy(error.message) from None
            turn.failure = error
            return self._end(turn, failed_end(error))
        except HandspanError as error:  # such as a model without its key
            return self._end(turn, failed_end(error))
        except Exception as error:  # such as a fault in a model's adapter: the session goes on
            _log.exception("A turn of the session %s failed", self._session_id)
            return self._end(turn, failed_end(error))
        finally:
            turn.is_over = True

    async def _work(self, turn: Turn, work: Work) -> Ended:
        try:
            return await work(turn)
        except TakenOver:
            taken = self._taken_of_session()
            if taken is None or not turn.may_move:
                raise
        return await taken(turn)

    async def _wait(self, turn: Turn) -> None:
        """Wait for the turns before this turn. Raises `SessionBusy` when that takes too long."""
        if self.turns[0] is not turn:
            try:
                async with asyncio.timeout(self._host.wait_seconds):
                    await turn.may_begin.wait()
            except TimeoutError:
                raise SessionBusy(f"Timed out waiting for session {self._session_id}") from None
        if not self._host.is_open:
            raise GatewayStops

    def _leave(self, turn: Turn) -> None:
        """Remove a turn that is over, or was cancelled before it began, and let the next turn begin."""
        self.turns.remove(turn)
        turn.leave()
        if self.turns:
            self.turns[0].may_begin.set()
        self._left()
        if turn.task.cancelled() and not turn.is_over:  # the turn never began, so no end was published
            turn.tell(Ended("aborted"))

    def _end(self, turn: Turn, ended: Ended) -> Ended:
        end = self._end_of_session()
        return ended if end is None else end(turn, ended)

    def _left(self) -> None:
        left = self._left_of_session()
        if left is not None:
            left()
