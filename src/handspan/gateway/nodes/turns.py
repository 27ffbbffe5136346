"""Sessions whose turn runs on another node: clients of this node see the turn, and catch up when an event was lost."""

import asyncio
import logging
import time
from typing import Final

from msgspec import Struct

from handspan.core.bus import AbortRequested, TurnEvent
from handspan.core.errors import HandspanError
from handspan.core.events import Ended, SessionChange
from handspan.core.messages import AssistantMessage, Text
from handspan.core.records import SessionRecord
from handspan.core.store import Conversations
from handspan.core.tasks import wait_for
from handspan.gateway.parts import Here

_LOOK_SECONDS: Final = 2.0
_WAIT_SECONDS: Final = 0.25
_log = logging.getLogger(__name__)


class _Watched(Struct):
    """A turn on another node whose session has listeners on this node."""

    owner: str
    turn: str
    heard_at: float
    """When its last event came."""


class TurnsElsewhere:
    """Passes the events of turns on other nodes to the clients of this node."""

    def __init__(self, here: Here, conversations: Conversations) -> None:
        self._here = here
        self._conversations = conversations
        self._running: dict[str, _Watched] = {}
        """The turns on other nodes, by their sessions."""
        self._ended: dict[str, asyncio.Event] = {}
        """For each session whose next turn waits on this node: is set when the turn on another node ends."""

    def on_event(self, published: TurnEvent) -> None:
        """Pass an event of a turn on another node to the listeners of its session on this node."""
        is_over = type(published.event) is Ended
        if is_over:
            self._running.pop(published.session, None)
            if published.session in self._ended:
                self._ended[published.session].set()
        session = self._here().sessions.find(published.session, published.owner)
        if session is None:
            return
        if not is_over and not isinstance(published.event, SessionChange):  # it may come after the end
            self._running[published.session] = _Watched(published.owner, published.turn, time.monotonic())
        session.listeners.tell_elsewhere(published.event, published.turn)

    def on_abort(self, event: AbortRequested) -> None:
        """Stop the turns of this session that run on this node."""
        session = self._here().sessions.find(event.session, event.owner)
        if session is not None:
            for turn in session.turns:
                turn.abort()

    async def wait(self, session: str) -> None:
        """Wait for the end of a turn on another node, for a quarter of a second at most."""
        ended = self._ended.setdefault(session, asyncio.Event())
        try:
            await wait_for(_WAIT_SECONDS, ended)  # the event may be lost: the store is asked again
        finally:
            ended.clear()
            self._ended.pop(session, None)

    async def look(self) -> None:
        """Give the listeners the ends of turns whose last event was lost."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            before = time.monotonic() - _LOOK_SECONDS
            for session, watched in list(self._running.items()):
                if watched.heard_at < before:
                    try:
                        await self._catch_up(session, watched)
                    except HandspanError as error:
                        _log.debug("The session %s can't be looked up: %s", session, error)

    async def _catch_up(self, session_id: str, watched: _Watched) -> None:
        """Read from the store whether a turn is over. If so, tell the listeners its end and its last text."""
        record = await self._conversations.find(session_id, owner=watched.owner)
        if record is not None and record.state == "running":
            return
        self._running.pop(session_id, None)
        session = self._here().sessions.find(session_id, watched.owner)
        if session is None or session.listeners.elsewhere != watched.turn:
            return
        session.listeners.tell_elsewhere(
            Ended("aborted") if record is None else await self._read_end(record), watched.turn
        )

    async def _read_end(self, record: SessionRecord) -> Ended:
        """Return how the last turn of a session ended, or that it waits."""
        if record.state == "waiting":
            return Ended("pending")
        ends = await self._conversations.ends(record.id, owner=record.owner, after=record.length)
        text = await self._last_text(record)
        if record.length in ends:
            return ends[record.length].to_event(text)
        return Ended("done" if text else "aborted", text)

    async def _last_text(self, record: SessionRecord) -> str:
        """Return the text of the last message, if the assistant wrote it; else an empty text."""
        messages = await self._conversations.load(record.id, owner=record.owner, after=max(0, record.length - 1))
        parts = messages[-1].parts if messages and isinstance(messages[-1], AssistantMessage) else ()
        return "".join(part.text for part in parts if isinstance(part, Text))
