"""Sessions that last for one request, or until its client has brought the results of its tools (SPEC F3).

A request without a key of a chat is a conversation of its own. It has a session like any other, so that its calls are
in the ledger and its costs count; the session is removed when its turn has ended. Its ended calls stay in the journal,
as long as other calls do: a person looks up there what a tool has done (SPEC E8). A session whose process died, or
whose client never came back, is found by its id and removed later.
"""

import logging
import os
from typing import Final

from handspan.agent.sessions import Sessions
from handspan.core.errors import HandspanError
from handspan.core.records import BRIEF_SESSION
from handspan.core.store import Store

_LEFT_SECONDS: Final = 60.0
"""A session that no turn has used for so long was left: another node may just have made a younger one."""
_log = logging.getLogger(__name__)


class BriefSessions:
    """Names brief sessions, and removes them."""

    def __init__(self, store: Store, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def new_id(self) -> str:
        """Return an id that nobody can guess."""
        return f"{BRIEF_SESSION}{os.urandom(16).hex()}"

    def is_brief(self, session_id: str) -> bool:
        """Whether the session of this id is brief."""
        return session_id.startswith(BRIEF_SESSION)

    async def remove(self, session_id: str, owner: str) -> None:
        """Remove a brief session whose turn has ended, if it is still there. Its usage and its calls stay."""
        try:
            await self._store.conversations.delete(session_id, owner=owner, keeps_records=True)
        except HandspanError as error:  # it is gone, or a turn runs: `remove_left` finds it later
            _log.debug("The brief session %s stays for now: %s", session_id, error)

    async def remove_left(self) -> None:
        """Remove the brief sessions that were left: by a process that died, or by a client that never came back."""
        before = self._store.ledger.now() - _LEFT_SECONDS
        for session_id, owner in await self._store.conversations.find_idle(BRIEF_SESSION, before):
            if self._sessions.find(session_id, owner) is None:
                await self.remove(session_id, owner)
