"""Results that come when no call waits for them: after a timeout, a cancel, or a restart (ws.md 5.3, 5.4, 6.7 c, k)."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from handspan.core.errors import HandspanError
from handspan.core.store import Ledger
from handspan.core.tasks import Tasks
from handspan.gateway.clients.peer import Peer
from handspan.wire.ws_frames import FailureFrame, ResultFrame

if TYPE_CHECKING:  # loaded only with other nodes
    from handspan.sources.nodes.mirror import Mirror

_log = logging.getLogger(__name__)


LateClient: TypeAlias = "Peer | Mirror"
"""A client whose answer came too late: one that is connected here, or to another node."""


class LateResults:
    """Notes late results beside their calls, and acknowledges them."""

    def __init__(self, ledger: Ledger, limit: int, count: Callable[[str], None]) -> None:
        """`limit`: how many are noted at a time. `count` gets "late" or "unknown" for each result."""
        self._ledger = ledger
        self._limit = limit
        self._count = count
        self._tasks = Tasks()

    def take(self, client: LateClient, frame: ResultFrame | FailureFrame) -> None:
        """Acknowledge a result that no open call of the client waits for, and note it in the background."""
        can_resume = "resume" in client.can
        self._count("late" if can_resume else "unknown")
        if not can_resume:
            client.calls.acknowledge(frame.call)
        if len(self._tasks) < self._limit:  # else a client with `resume` sends it again on its next link
            self._tasks.start(self._note(client, frame))

    async def close(self) -> None:
        """Wait until all that was taken is noted."""
        await self._tasks.wait()

    async def _note(self, client: LateClient, frame: ResultFrame | FailureFrame) -> None:
        """Store a late result beside its call, and let the client forget it."""
        try:
            record = await self._ledger.find(frame.call)
            origin = None if record is None else record.tool.origin
            if record is not None and (origin is None or origin.connection != client.id):  # SPEC W6
                who = client.label or f"session {client.session}"
                text = "A result of %r for the call %s of %r was dropped: that call was sent to another client."
                _log.warning(text, who, record.id, record.name)
            elif record is not None and "resume" in client.can:
                if record.state != "done" or self._ledger.unwritten(frame.call) is not None:
                    _pass_on(client, frame)
                    return
                await self._ledger.note(frame.call, msgspec.json.encode(frame).decode())
            if "resume" in client.can:
                client.calls.acknowledge(frame.call)
        except HandspanError as error:
            _log.warning("A late result of the call %s was not stored: %s", frame.call, error)


def _pass_on(client: LateClient, frame: ResultFrame | FailureFrame) -> None:
    """Give the result to its call if that is open, here or on another node; else acknowledge it when it is stored."""
    is_open = frame.call in client.calls.open
    if is_open and client.calls.receive_answer(frame):
        return  # this node took the call over just now
    if not is_open and isinstance(client, Peer):
        client.relay.keep_early(frame)  # another node has the call, and will ask for it here
    else:
        client.calls.acknowledge_later(frame.call)  # its first copy is not on the disk yet
