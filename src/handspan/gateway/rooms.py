"""One session in this process: who watches it, whose turn it is, who waits for theirs (ws.md 3.1)."""

import asyncio
import logging
import time
from typing import Final

from handspan.agent.session import Session
from handspan.core.calls import new_call_id
from handspan.core.events import Ended
from handspan.core.messages import UserMessage
from handspan.gateway.turn_events import Emit, Happening
from handspan.gateway.turn_refusals import SessionBusy

MOST_WAITING: Final = 8
PATIENCE: Final = 30.0
"""Seconds that a turn waits for the one before it."""

_log = logging.getLogger(__name__)


class Turn:
    """One turn of a session, from the moment somebody wants it."""

    def __init__(self, emit: Emit | None = None, *, debug: bool = False) -> None:
        self.id = new_call_id()
        self.wanted_at = time.time()
        self.emits: list[Emit] = [] if emit is None else [emit]
        """Of those who said something in it; they hear it as watchers do."""
        self.shows_prompt = debug
        self.may_begin = asyncio.Event()
        self.task: asyncio.Task[Ended]
        self.was_heard = False
        """Whether somebody was told of it."""
        self.is_over = False
        self._session: Session | None = None
        self._early: list[UserMessage] = []

    def begin(self, session: Session) -> None:
        """It runs in this session from now on; what was said meanwhile is part of it."""
        self._session = session
        session.inbox += self._early
        self._early = []
        self.is_over = False

    @property
    def may_be_joined(self) -> bool:
        """Whether what is said now can become part of it."""
        return not self.is_over and not self.task.cancelling()

    def join(self, message: UserMessage, emit: Emit) -> None:
        """Let this be part of it from its next round."""
        (self._early if self._session is None else self._session.inbox).append(message)
        self.emits.append(emit)

    def has_left(self, message: UserMessage) -> bool:
        """Whether this was said too late to be part of it; then it is part of nothing."""
        left = self._early if self._session is None else self._session.inbox
        is_left = any(one is message for one in left)
        if is_left:
            left[:] = [one for one in left if one is not message]
        return is_left

    def tell(self, happening: Happening) -> None:
        """Let those hear it who said something in it, and nobody else."""
        for emit in self.emits:
            _tell(emit, happening)

    def abort(self) -> bool:
        """Stop it; False when it is over. Once: a second time must not disturb the tidying up."""
        if not self.is_over and not self.task.cancelling():
            self.task.cancel()
        return not self.is_over


class Room:
    """The watchers of one session, and its turns: the first one runs, the others wait in their order."""

    def __init__(self, session_id: str, owner: str, patience: float = PATIENCE) -> None:
        self.id = session_id
        self.owner = owner
        self.turns: list[Turn] = []
        self._watchers: dict[object, Emit] = {}
        self._patience = patience

    @property
    def is_empty(self) -> bool:
        """Whether nobody needs it any more."""
        return not self.turns and not self._watchers

    def watch(self, place: object, emit: Emit) -> None:
        """Let this front hear all that happens."""
        self._watchers[place] = emit

    def unwatch(self, place: object) -> None:
        """Let it go; nothing happens when it has gone."""
        self._watchers.pop(place, None)

    def tell(self, happening: Happening) -> None:
        """Let everybody hear it once: who watches, and who said something in the turn that runs."""
        heard: list[Emit] = []
        for emit in [*self._watchers.values(), *(self.turns[0].emits if self.turns else ())]:
            if emit not in heard:
                heard.append(emit)
                _tell(emit, happening)

    def enter(self, turn: Turn) -> None:
        """Stand in line; `SessionBusy` when too many do. Then `leave`, in any case."""
        waiting = len(self.turns) - 1
        if waiting >= MOST_WAITING:
            raise SessionBusy(f"Session {self.id} queue full ({waiting} pending requests)")
        self.turns.append(turn)

    async def wait(self, turn: Turn) -> None:
        """Wait until it is this one's turn; `SessionBusy` when that takes too long."""
        if self.turns[0] is turn:
            return
        try:
            async with asyncio.timeout(self._patience):
                await turn.may_begin.wait()
        except TimeoutError:
            raise SessionBusy(f"Timed out waiting for session {self.id}") from None

    def leave(self, turn: Turn) -> None:
        """It is over, or nobody wants it any more: the next one may begin."""
        self.turns.remove(turn)
        if self.turns:
            self.turns[0].may_begin.set()


def _tell(emit: Emit, happening: Happening) -> None:
    """Let one front hear it. One that fails disturbs nobody else, and no turn."""
    try:
        emit(happening)
    except Exception:  # a front's own code
        _log.exception("A front could not be told %r", type(happening).__name__)
