"""Sessions as others see them, from the moment that a client knows the id until they are stored (SPEC W7)."""

import time
from collections.abc import Callable

from msgspec import structs

from handspan.agent.opening import MAX_NAME, SessionOpening
from handspan.core.errors import NotYours, SessionDeleted
from handspan.core.records import SessionEdit, SessionKind, SessionRecord
from handspan.core.store import Conversations
from handspan.core.titles import shorten


class UnstoredSessions:
    """The records of sessions that have no message yet. They go when their client leaves, or with the first message."""

    def __init__(
        self, conversations: Conversations, opening: SessionOpening, is_used: Callable[[str, str], bool]
    ) -> None:
        """`is_used`: whether a client uses this session of this owner."""
        self._conversations = conversations
        self._opening = opening
        self._is_used = is_used
        self._records: dict[str, SessionRecord] = {}

    def add(self, session_id: str, owner: str, agent: str, name: str, *, kind: SessionKind) -> None:
        """Add a session, unless it is there."""
        if session_id not in self._records:
            self._records[session_id] = new_record(session_id, owner, agent, name, kind=kind)

    def get(self, session_id: str) -> SessionRecord | None:
        """Return what is known of this session, also when another node has stored it meanwhile."""
        return self._records.get(session_id)

    def forget(self, session_id: str) -> None:
        """Forget this session, if it is there."""
        self._records.pop(session_id, None)

    async def find(self, session_id: str, owner: str) -> SessionRecord | None:
        """Return the owner's session of this id if a client knows it and no node has stored it yet; else None."""
        if session_id not in self._records or not self._is_used(session_id, owner):
            return None
        try:
            is_stored = await self._conversations.find(session_id, owner=owner) is not None
        except (NotYours, SessionDeleted):
            is_stored = True
        if is_stored:  # by its first message, on another node
            self.forget(session_id)
        record = self._records.get(session_id)
        return None if record is None else await self._with_agent(record)

    async def all(self, owner: str) -> list[SessionRecord]:
        """Return the owner's sessions that are not stored yet, the newest first."""
        known = [session_id for session_id, record in self._records.items() if record.owner == owner]
        found = [await self.find(session_id, owner) for session_id in reversed(known)]
        return [record for record in found if record is not None]

    async def edit(self, session_id: str, edit: SessionEdit, owner: str) -> bool:
        """Change what a person set of the session. Return False if it is not one of these."""
        if await self.find(session_id, owner) is None:
            return False
        given = {field: value for field, value in structs.asdict(edit).items() if value is not None}
        changed = structs.replace(self._records[session_id], **given)
        self._records[session_id] = structs.replace(changed, name=shorten(changed.name, MAX_NAME))
        return True

    async def _with_agent(self, record: SessionRecord) -> SessionRecord:
        """Return the record with the name of the default agent, if the client named none."""
        if record.agent:
            return record
        return structs.replace(record, agent=(await self._opening.find_agent("", None, record.owner)).name)


def new_record(session_id: str, owner: str, agent: str, name: str, *, kind: SessionKind) -> SessionRecord:
    """Return the record of a session that begins now."""
    now = time.time()
    return SessionRecord(session_id, owner, agent, name, created=now, active=now, state="idle", length=0, kind=kind)
