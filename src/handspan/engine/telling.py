"""Telling whoever listens of the calls that have their result: doors acknowledge, count and show by it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, TypeAlias

from handspan.core.calls import CallRecord

_log = logging.getLogger(__name__)

Finished: TypeAlias = Callable[[CallRecord], None]
"""Hears of a call once its result is kept. What it raises is logged, and hurts nobody."""


def tell_of(finished: Finished | None, written: Awaitable[bool] | bool, record: CallRecord) -> Awaitable[bool] | bool:
    """What the ledger said of a result; and `finished` hears of it when it is kept, even if nobody waits for that."""
    if finished is None:
        return written
    if type(written) is bool:
        if written:
            _tell(finished, record)
        return written
    kept = asyncio.ensure_future(written)
    kept.add_done_callback(partial(_tell_if_kept, finished, record))
    return _Unharmed(kept)


class _Unharmed:
    """Waits for a write that goes on when the waiting is cancelled."""

    __slots__ = ("_kept",)

    def __init__(self, kept: asyncio.Future[bool]) -> None:
        self._kept = kept

    def __await__(self) -> Generator[Any, None, bool]:
        return asyncio.shield(self._kept).__await__()


def _tell_if_kept(finished: Finished, record: CallRecord, kept: asyncio.Future[bool]) -> None:
    if not kept.cancelled() and kept.exception() is None and kept.result():
        _tell(finished, record)


def _tell(finished: Finished, record: CallRecord) -> None:
    try:
        finished(record)
    except Exception:  # code of a door
        _log.exception("The end of the call %s (%s) was not heard", record.id, record.name)
