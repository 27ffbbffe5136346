"""Tells the sessions of the older era that lists have changed: each by itself, so none waits for another one."""

import asyncio
import contextlib
from typing import Final

from mcp.server.session import ServerSession
from msgspec import Struct

from handspan.core.bounded import BoundedDict
from handspan.core.tasks import Tasks

_MAX_SESSIONS: Final = 1000


class _NotifiedSession(Struct, eq=False):
    """A session, and whether it still has to be told of a change."""

    session: ServerSession
    is_due: bool = False
    task: asyncio.Task[None] | None = None
    """Sends the notices now. It waits as long as the client does not read."""


class ChangeNotices:
    """The sessions by their ids. A session whose client reads slowly gets one notice for all changes it has missed."""

    def __init__(self) -> None:
        self._sessions: BoundedDict[str, _NotifiedSession] = BoundedDict(_MAX_SESSIONS)
        self._tasks = Tasks()

    def add(self, name: str, session: ServerSession) -> None:
        """Remember the session. The oldest ones are forgotten: the SDK does not say when a session ends."""
        self._sessions.setdefault(name, _NotifiedSession(session)).session = session

    def send(self) -> None:
        """Begin to tell all sessions that tools and prompts may have changed."""
        for known in self._sessions.values():
            known.is_due = True
            if known.task is None:
                known.task = self._tasks.start(self._notify(known))

    async def close(self) -> None:
        """Stop telling: all sessions end."""
        await self._tasks.close()

    async def _notify(self, known: _NotifiedSession) -> None:
        while known.is_due:
            known.is_due = False
            with contextlib.suppress(Exception):  # a session that is gone needs no notice
                await known.session.send_tool_list_changed()
                await known.session.send_prompt_list_changed()
        known.task = None
