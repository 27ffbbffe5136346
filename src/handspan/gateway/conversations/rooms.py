"""One session in this process: who watches it, whose turn it is, who waits for theirs (ws.md 3.1)."""

import asyncio
import contextlib
import logging
import time
from typing import Final

from msgspec import structs

from handspan.agent.session import Session
from handspan.core.calls import new_call_id
from handspan.core.errors import ToolError
from handspan.core.events import Ended
from handspan.core.messages import Message, UserMessage
from handspan.gateway.conversations.past_turns import how_answered
from handspan.gateway.conversations.turn_events import Accepted, Emit, Happening
from handspan.gateway.conversations.turn_refusals import IdTaken, SessionBusy

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
        self.failure: ToolError | None = None
        """What ended it, where that is nothing of the model's."""
        self._session: Session | None = None
        self._early: list[UserMessage] = []
        self._said: dict[str, tuple[UserMessage, list[Emit]]] = {}
        """What was said in it under an id, and who waits to hear that it is kept."""

    def begin(self, session: Session) -> None:
        """It runs in this session from now on; what was said meanwhile is part of it."""
        self._session = session
        session.kept = self._is_kept
        early, self._early = self._early, []
        for message in early:
            before = session.said(message.id)
            if before is None:
                session.inbox.append(message)
                continue
            with contextlib.suppress(IdTaken):  # who said it hears that it was not kept
                self.retell(session, message)
        self.is_over = False

    def say(self, message: UserMessage, emit: Emit) -> UserMessage:
        """The message as a part of this turn. Who says it hears when it is kept."""
        if message.id:
            self._said[message.id] = (message, [emit])
        return structs.replace(message, turn=self.id)

    @property
    def may_be_joined(self) -> bool:
        """Whether what is said now can become part of it."""
        return not self.is_over and not self.task.cancelling()

    def join(self, message: UserMessage, emit: Emit) -> UserMessage:
        """The message as a part of this turn, from its next round."""
        joining = self.say(message, emit)
        (self._early if self._session is None else self._session.inbox).append(joining)
        self.emits.append(emit)
        return joining

    def has(self, message_id: str) -> bool:
        """Whether this is the turn of what was said under this id."""
        before = None if self._session is None else self._session.said(message_id)
        return message_id in self._said or (before is not None and before.turn == self.id)

    def hear_again(self, message: UserMessage, emit: Emit) -> None:
        """Let who says again what is part of it hear of it too. `IdTaken` when it is something else."""
        before = None if self._session is None else self._session.said(message.id)
        waiting, emits = self._said.get(message.id, (before, []))
        _refuse_other(before or waiting, message)
        if emit not in self.emits:
            self.emits.append(emit)
        if before is not None:
            _tell(emit, Accepted(message.id), before.turn)
        elif emit not in emits:
            emits.append(emit)

    def knows(self, message_id: str) -> bool:
        """Whether this was said in an earlier turn of the session in which it runs."""
        return self._session is not None and self._session.said(message_id) is not None

    def say_again(self, message: UserMessage, emit: Emit) -> Ended | None:
        """What `retell` gives for something that it `knows`."""
        assert self._session is not None
        self._said[message.id] = (message, [emit])
        return self.retell(self._session, message)

    def retell(self, session: Session, message: UserMessage) -> Ended | None:
        """Let who says it again hear how it was answered; None if it was not: then this turn does. `IdTaken`."""
        before = session.said(message.id)
        assert before is not None
        _, emits = self._said.pop(message.id)
        _refuse_other(before, message)
        answered = how_answered(before, session.messages)
        for emit in emits:
            _tell(emit, Accepted(before.id), before.turn if answered else self.id)
            if answered is not None:
                _tell(emit, answered, before.turn)
            elif emit not in self.emits:
                self.emits.append(emit)
        return None if answered is None else answered.ended

    def _is_kept(self, message: Message) -> None:
        if type(message) is UserMessage and message.id in self._said:
            for emit in self._said[message.id][1]:
                _tell(emit, Accepted(message.id), message.turn)

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
            _tell(emit, happening, self.id)

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
        self.waiting = ""
        """The turn that stopped at calls whose outcomes are somebody else's, if it was heard of here."""
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

    @property
    def running(self) -> Turn | None:
        """The turn that runs, if its end was not told yet."""
        return self.turns[0] if self.turns and not self.turns[0].is_over else None

    @property
    def turn(self) -> str:
        """The turn that runs, or waits for outcomes; empty when there is none."""
        return self.turns[0].id if self.turns else self.waiting

    def turn_of(self, message_id: str) -> Turn | None:
        """The turn in which this was said, if it runs or waits for its turn."""
        turns = (turn for turn in self.turns if not turn.is_over and turn.has(message_id))
        return next(turns, None) if message_id else None

    def tell(self, happening: Happening, turn: str) -> None:
        """Let everybody hear it once: who watches, and who said something in the turn that runs."""
        heard: list[Emit] = []
        for emit in [*self._watchers.values(), *(self.turns[0].emits if self.turns else ())]:
            if emit not in heard:
                heard.append(emit)
                _tell(emit, happening, turn)

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


def _refuse_other(before: UserMessage | None, message: UserMessage) -> None:
    if before is not None and before.parts != message.parts:
        raise IdTaken(message.id)


def _tell(emit: Emit, happening: Happening, turn: str) -> None:
    """Let one front hear it. One that fails disturbs nobody else, and no turn."""
    try:
        emit(happening, turn)
    except Exception:  # a front's own code
        _log.exception("A front could not be told %r", type(happening).__name__)
