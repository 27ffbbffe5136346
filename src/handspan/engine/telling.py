"""Publishes the calls that have their result: doors acknowledge, count and show by it."""

import asyncio
from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any

from handspan.core.bus import Bus, CallCompleted
from handspan.core.calls import CallRecord
from handspan.core.results import Failure


def publish_when_stored(bus: Bus | None, written: Awaitable[bool] | bool, record: CallRecord) -> Awaitable[bool] | bool:
    """Returns the ledger's answer. Publishes the call once its result is stored, even if the caller was cancelled."""
    if bus is None:
        return written
    if type(written) is bool:
        if written:
            _publish(bus, record)
        return written
    stored = asyncio.ensure_future(written)
    stored.add_done_callback(partial(_publish_if_stored, bus, record))
    return _Shielded(stored)


class _Shielded:
    """Waits for a write that goes on when the waiting is cancelled."""

    __slots__ = ("_stored",)

    def __init__(self, stored: asyncio.Future[bool]) -> None:
        self._stored = stored

    def __await__(self) -> Generator[Any, None, bool]:
        return asyncio.shield(self._stored).__await__()


def _publish_if_stored(bus: Bus, record: CallRecord, stored: asyncio.Future[bool]) -> None:
    if not stored.cancelled() and stored.exception() is None and stored.result():
        _publish(bus, record)


def _publish(bus: Bus, record: CallRecord) -> None:
    result = record.result
    status = result.code if type(result) is Failure else "success"
    bus.publish(
        CallCompleted(record.owner, record.session, record.id, record.name, record.tool, status, record.duration)
    )
