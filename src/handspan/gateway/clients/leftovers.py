"""Calls that an earlier life of this gateway had handed to a client who can come back (ws.md 6.7 i, j)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

from handspan.core.artifacts import Artifacts
from handspan.core.calls import CallRecord
from handspan.core.context import Deadline, ToolContext, no_progress
from handspan.core.errors import ToolError
from handspan.core.principals import Principal
from handspan.core.results import Failure, ToolResult
from handspan.engine.engine import Engine
from handspan.sources.ws.calls import LostCall, RemoteCall, RemoteCalls
from handspan.sources.ws.outcome import read_outcome

_log = logging.getLogger(__name__)

GoOn = Callable[[str, str], Awaitable[None]]
"""Lets the turn of a session go on: session, owner."""


class Leftovers:
    """Waits for the clients of such calls, not longer than the calls themselves may take, nor than the grace time."""

    def __init__(self, engine: Engine, artifacts: Artifacts, workspace: Path, go_on: GoOn) -> None:
        self._engine = engine
        self._artifacts = artifacts
        self._workspace = workspace
        self._go_on = go_on
        self._calls: dict[str, list[RemoteCall]] = {}
        """By peer."""
        self._ending: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.TimerHandle] = []

    def open(self, records: Iterable[CallRecord], grace: float) -> None:
        """Wait for the outcomes of these."""
        for record in records:
            assert record.tool.origin is not None
            left = grace if record.expires_at is None else min(grace, record.expires_at - time.time())
            arguments = record.arguments if isinstance(record.arguments, dict) else {}
            call = RemoteCall(record.id, "", arguments, Deadline(time.monotonic() + left, "the tool's own limit"))
            call.known_as = record.name
            call.was_sent = True  # nobody knows better any more
            call.outcome.add_done_callback(partial(self._ended, call, record))
            self._calls.setdefault(record.tool.origin.connection, []).append(call)
            lost = LostCall(True, "The gateway was restarted, and the client did not come back in time")
            self._timers.append(asyncio.get_running_loop().call_later(max(0.0, left), call.end, lost))

    def adopt(self, peer: str, calls: RemoteCalls) -> None:
        """The client of some of them is back: it may answer them."""
        for call in self._calls.pop(peer, ()):
            if not call.outcome.done():
                call.outcome.add_done_callback(partial(_forget, calls, call))
                calls.ask(call)

    async def close(self) -> None:
        """Wait no longer. The calls stay open in the ledger."""
        for timer in self._timers:
            timer.cancel()
        self._calls.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _ended(self, call: RemoteCall, record: CallRecord, _: object) -> None:
        if not call.outcome.cancelled():
            task = asyncio.ensure_future(self._settle(call, record))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _settle(self, call: RemoteCall, record: CallRecord) -> None:
        try:
            await self._engine.settle(record.id, await self._result(call, record))
            if record.session:
                await self._go_on(record.session, record.owner)
        except Exception:  # of a model, or a full disk: the call stays open, and expires
            _log.exception("The call %s of %r could not be settled", record.id, record.name)

    async def _result(self, call: RemoteCall, record: CallRecord) -> ToolResult:
        who = Principal(record.owner)
        ctx = ToolContext(record.id, who, record.session, None, no_progress, self._artifacts, self._workspace)
        try:
            return await read_outcome(call.outcome.result(), record.name, ctx)
        except ToolError as error:
            return Failure(error.code, error.message)


def _forget(calls: RemoteCalls, call: RemoteCall, _: object) -> None:
    calls.forget(call)
