"""The turns of one session: one at a time, in the order of the requests. Every turn has an end, even if it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import ref

from handspan.agent.refusals import GatewayStops, NoTurnsHere, SessionBusy, TurnRefused
from handspan.agent.turn import Handle, Turn
from handspan.agent.turn_events import failed_end
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import Ended

if TYPE_CHECKING:
    from handspan.agent.session import Session
    from handspan.agent.sessions import Sessions

Work: TypeAlias = Callable[[Turn], Awaitable[Ended]]
"""The work of a turn, done when the turns before it are over."""

MAX_WAITING: Final = 8
"""How many turns of a session may wait."""

_log = logging.getLogger(__name__)


class TurnQueue:
    """The first turn runs, the others wait in their order."""

    __slots__ = ("_host", "_id", "_session", "turns")

    def __init__(self, session: "Session", host: "Sessions") -> None:
        """The queue refers weakly to its session, so that it does not keep the session in memory."""
        self.turns: list[Turn] = []
        self._id = session.id
        self._host = host
        self._session = ref(session)

    @property
    def running(self) -> Turn | None:
        """The turn that runs, if its end was not published yet."""
        return self.turns[0] if self.turns and not self.turns[0].is_over else None

    def turn_of(self, message_id: str) -> Turn | None:
        """Return the running or waiting turn that has this message."""
        turns = (turn for turn in self.turns if not turn.is_over and turn.has(message_id))
        return next(turns, None) if message_id else None

    def check_free(self, *, asks_model: bool = True) -> None:
        """Raise `SessionBusy` when too many turns wait, and `GatewayStops` when the gateway is being stopped.

        `asks_model`: raise `NoTurnsHere`, too, if this node runs no turns.
        """
        try:
            if asks_model and not self._host.nodes.runs_turns:
                raise NoTurnsHere
            if not self._host.is_open:
                raise GatewayStops
            if (waiting := len(self.turns) - 1) >= MAX_WAITING:
                raise SessionBusy(f"Session {self._id} queue full ({waiting} pending requests)")
        except TurnRefused:
            self._release()
            raise

    def add(self, turn: Turn, work: Work) -> Handle:
        """Put a turn at the end of the queue. Its task does this work when the turns before it are over.

        Raises `TurnRefused` as `check_free` does.
        """
        self.check_free(asks_model=turn.request.asks_model)
        self.turns.append(turn)
        turn.task = asyncio.create_task(self._run(turn, work))
        self._host.tasks.hold(turn.task)
        turn.task.add_done_callback(lambda _: self._remove(turn))
        return Handle(turn)

    async def _run(self, turn: Turn, work: Work) -> Ended:
        """Do the work of a turn. Return its end, which all listeners get. Raises `TurnRefused` if it can't begin."""
        await self._wait(turn)
        try:
            return await work(turn)
        except asyncio.CancelledError:
            self._end(turn, Ended("aborted"))
            raise
        except TurnRefused:
            raise
        except ToolError as error:
            if error.code == "busy" and not turn.has_published:
                raise SessionBusy(error.message) from None
            turn.fail(error)
            return self._end(turn, failed_end(error))
        except HandspanError as error:  # such as a model without its key
            return self._end(turn, failed_end(error))
        except Exception as error:  # such as a fault in a model's adapter: the session goes on
            _log.exception("A turn of the session %s failed", self._id)
            return self._end(turn, failed_end(error))
        finally:
            turn.is_over = True

    async def _wait(self, turn: Turn) -> None:
        """Wait for the turns before this turn. Raises `SessionBusy` when that takes too long."""
        if self.turns[0] is not turn:
            try:
                async with asyncio.timeout(self._host.wait_seconds):
                    await turn.may_begin.wait()
            except TimeoutError:
                raise SessionBusy(f"Timed out waiting for session {self._id}") from None
        if not self._host.is_open:
            raise GatewayStops

    def _remove(self, turn: Turn) -> None:
        """Remove a turn that is over, or was cancelled before it began, and let the next turn begin."""
        self.turns.remove(turn)
        turn.stop_listening()
        if self.turns:
            self.turns[0].may_begin.set()
        self._release()
        if turn.task.cancelled() and not turn.is_over:  # the turn never began, so no end was published
            turn.tell(Ended("aborted"))

    def _end(self, turn: Turn, ended: Ended) -> Ended:
        session = self._session()
        return ended if session is None else session.end_turn(turn, ended)

    def _release(self) -> None:
        session = self._session()
        if session is not None:
            session.release()
