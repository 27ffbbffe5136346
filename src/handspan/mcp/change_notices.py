"""Tells the sessions of the older era that lists have changed: each by itself, so none waits for another one."""

import asyncio
import contextlib
from typing import Final

from mcp.server.session import ServerSession

_MAX_SESSIONS: Final = 1000


class _Told:
    """A session, and whether it still has to be told of a change."""

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        self.is_due = False
        self.task: asyncio.Task[None] | None = None
        """Tells the session now. It waits as long as the client does not read."""


class ChangeNotices:
    """The sessions by their ids. One whose client reads slowly is told once of all changes that it has missed."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Told] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, name: str, session: ServerSession) -> None:
        """Remember the session. The oldest ones are forgotten: whether one has ended is not told."""
        known = self._sessions.get(name)
        if known is not None:
            known.session = session
            return
        self._sessions[name] = _Told(session)
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def send(self) -> None:
        """Begin to tell all sessions that tools and prompts may have changed."""
        for told in self._sessions.values():
            told.is_due = True
            if told.task is None:
                told.task = asyncio.create_task(self._tell(told))
                self._tasks.add(told.task)
                told.task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop telling: all sessions end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, told: _Told) -> None:
        while told.is_due:
            told.is_due = False
            with contextlib.suppress(Exception):  # one that is gone needs to hear nothing
                await told.session.send_tool_list_changed()
                await told.session.send_prompt_list_changed()
        told.task = None
