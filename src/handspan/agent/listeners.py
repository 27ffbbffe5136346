"""The listeners of one session, and what they were told: events of its turns, on this node and on others."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handspan.agent.turn import Listener, Turn, tell_each
from handspan.agent.turn_events import RoundSoFar, SessionEvent
from handspan.core.bus import TurnEvent
from handspan.core.events import GATEWAY_STOPPED, CallFinished, Ended, Event, QuestionAsked, RoundBegan, SessionChange

if TYPE_CHECKING:
    from handspan.agent.sessions import Sessions


class Listeners:
    """Gives every event once to each listener of a session, and to those of its running turn."""

    __slots__ = (
        "_awaited",
        "_ended",
        "_host",
        "_listeners",
        "_owner",
        "_session",
        "_so_far",
        "_turns",
        "_unwatch",
        "elsewhere",
        "waiting",
    )

    def __init__(self, session: str, owner: str, host: "Sessions", turns: Sequence[Turn]) -> None:
        """`turns`: those of the session's queue. The first one runs."""
        self._session = session
        self._owner = owner
        self._host = host
        self._turns = turns
        self._listeners: dict[object, Listener] = {}
        self._so_far = RoundSoFar()
        self._ended: tuple[str, Ended] | None = None
        """The last turn whose end the listeners got, and that end; a turn that waits (`pending`) has none yet."""
        self._unwatch: Callable[[], None] | None = None
        """Ends listening for turns on other nodes."""
        self._awaited: dict[str, asyncio.Future[Ended]] = {}
        """The ends of turns that other nodes go on with and that requests on this node wait for."""
        self.elsewhere = ""
        """The id of the turn that runs on another node, as far as this node knows; empty: none."""
        self.waiting = ""
        """The id of the turn that waits for results of calls, if it ran on this node."""

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Give this listener all events of the session, until the returned function is called."""
        key = object()
        self._listeners[key] = listener
        self.watch()

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    def watch(self) -> None:
        """Listen for this session's turns on other nodes, if there are other nodes."""
        if self._unwatch is None:
            self._unwatch = self._host.nodes.bus.follow_session(self._session)

    def release(self) -> None:
        """Stop listening for turns on other nodes: neither a turn nor a listener needs the session any more."""
        self.waiting = ""  # without listeners, the conversation alone remembers the turn
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch, self.elsewhere = None, ""

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
            self._tell(event, self._turns[0].id if self._turns else self.waiting)

    def tell_elsewhere(self, event: Event | SessionChange, turn: str) -> None:
        """Give the listeners an event of a turn that runs on another node."""
        if self._is_repeated(event, turn):
            return
        self._note(event, turn)
        if not isinstance(event, SessionChange):  # it may come after the end
            self.elsewhere = "" if isinstance(event, Ended) else turn
        tell_each(self._listeners.values(), event, turn)
        awaited = self._awaited.get(turn)
        if awaited is not None and isinstance(event, Ended) and not awaited.done():
            awaited.set_result(event)

    async def wait_elsewhere(self, turn: str) -> Ended:
        """Return the end of a turn that another node goes on with."""
        ended = self._awaited.setdefault(turn, asyncio.get_running_loop().create_future())
        try:
            return await ended
        finally:
            self._awaited.pop(turn, None)

    def tell_stored_end(self, turn: Turn, answered: SessionEvent, ended: Ended) -> None:
        """Give the listeners the end of a turn that is over in the store.

        Those of the turn have missed its text: they get `answered`, which has it. The others get `ended`.
        """
        self._note(ended, turn.id)
        turn.tell(answered)
        tell_each([one for one in self._listeners.values() if one not in turn.listeners], ended, turn.id)

    def begin_turn(self) -> bool:
        """Expect the events of a turn of this node. Return whether other nodes take over its turns."""
        self.elsewhere = ""
        if self._host.hands_over:
            self.watch()  # before the turn is handed over: its end must not be missed
        return self._host.hands_over

    def publish(self, event: Event | SessionChange, turn: str) -> None:
        """Publish an event of a turn to the bus and to all listeners."""
        if isinstance(event, Ended) and event.reason == "aborted":
            event = self.aborted_end(event.text)
        bus = self._host.bus
        if bus is not None and isinstance(event, QuestionAsked):  # the bus has `QuestionOpened` once it is stored
            return
        if self._is_repeated(event, turn):
            return
        self._note(event, turn)
        if isinstance(event, Ended):
            self.waiting = turn if event.reason == "pending" else ""
        if bus is not None:
            bus.publish(TurnEvent(self._owner, self._session, turn, event))
        self._tell(event, turn)

    def aborted_end(self, text: str = "") -> Ended:
        """Return the end of a turn that is aborted now: by a person, or by the stop of the gateway."""
        return Ended("aborted", text) if self._host.is_open else Ended("aborted", text, GATEWAY_STOPPED)

    def find_end(self, turn: str) -> Ended | None:
        """Return the end of this turn if it is the last one that the listeners got."""
        return self._ended[1] if self._ended is not None and self._ended[0] == turn else None

    def _tell(self, event: SessionEvent, turn: str) -> None:
        of_turn = self._turns[0].listeners if self._turns else []
        tell_each([*self._listeners.values(), *of_turn], event, turn)

    def _is_repeated(self, event: Event | SessionChange, turn: str) -> bool:
        """Whether the listeners have this event from another node, which has taken the turn over; or this from them."""
        if isinstance(event, CallFinished) and self._so_far.has_finished(event.id):
            return True
        return (
            not isinstance(event, RoundBegan)
            and not isinstance(event, SessionChange)
            and self.find_end(turn) is not None
        )

    def _note(self, event: Event | SessionChange, turn: str) -> None:
        """Note an event that the listeners get now."""
        self._so_far.note(event, turn)
        if isinstance(event, Ended) and event.reason != "pending":
            self._ended = (turn, event)
        elif not isinstance(event, SessionChange):  # it may come after the end
            self._ended = None
