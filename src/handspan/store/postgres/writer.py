"""The one task that writes. All jobs that came since the last commit go into the next one (micro-batches).

The future of a job gets its value after the commit: acknowledged means committed (SPEC A2). When the connection breaks,
a job that certainly was not stored is tried again on the next connection, for `timeout` seconds. A job whose commit was
under way gets an error that says so: it is not known whether it is stored.
"""

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from handspan.core.errors import HandspanError, StoreError
from handspan.core.tasks import finish
from handspan.store.postgres.batches import Batch, BatchGroup, find_batch, plan_groups
from handspan.store.postgres.connections import (
    Connector,
    PostgresConnection,
    Raw,
    can_try_again,
    close_quietly,
    has_certainly_failed,
    is_database_error,
    needs_new_connection,
    refuses_writes,
    store_error,
)
from handspan.store.tables.database import (
    AllWorks,
    TableConnection,
    WaitingWork,
    Work,
    WriteJob,
    WriteOutcome,
    set_futures,
)
from handspan.store.tables.rows import Row

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_MAX_IN_ONE_COMMIT: Final = 500
_LONGEST_PAUSE: Final = 0.05
"""Seconds at most between two tries of a transaction that fails because of another one."""
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 1.0


class OneStatement(Struct, frozen=True):
    """A work that needs no transaction around it."""

    sql: str
    values: Row

    async def __call__(self, connection: TableConnection) -> int:
        """Run it and return the number of changed rows."""
        return await connection.execute(self.sql, self.values)


class _WaitingJob(Struct, frozen=True):
    """A job in the queue."""

    job: WriteJob
    batch: Batch | None
    """How the job joins others in one statement; None: it has a transaction of its own."""
    since: float
    """When the job came, by the monotonic clock."""


class _Undecided(Exception):
    """The connection broke while a commit was under way."""


class PostgresWriter:
    """Runs jobs in their order, many in one transaction. A job that fails does not harm the others."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._address = connector.address
        self._raw: Raw | None = None
        self._jobs: deque[_WaitingJob] = deque()
        self._has_work = asyncio.Event()
        """Is set when a job has come, or when the writer is to close."""
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self.commits = 0
        self.wrote_at = -math.inf
        """When the last transaction was committed, by the monotonic clock; minus infinity after a failed one."""
        self.lacked_at = -math.inf
        """When the server last refused a write because it lacks room or another resource, or takes no writes."""
        self.lack = ""
        """Why the server refused that write, for people."""

    def has_lacked(self, seconds: float) -> bool:
        """Whether the server has refused a write for lack of a resource in the last `seconds`."""
        return time.monotonic() - self.lacked_at < seconds

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._main())

    def put(self, job: WriteJob) -> None:
        """Add a job to the queue."""
        self._jobs.append(_WaitingJob(job, find_batch(job.work), time.monotonic()))
        self._has_work.set()

    async def close(self) -> None:
        """Write everything in the queue, then close the connection."""
        self._is_closing = True
        self._has_work.set()
        if self._task is not None:
            await finish(self._task)

    async def _main(self) -> None:
        """Run jobs until the writer is closed and the queue is empty. Wait longer after each failure."""
        delay = _FIRST_DELAY
        while self._jobs or not self._is_closing:
            if not self._jobs:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            try:
                raw = await self._connect()
            except StoreError as error:
                self._give_up(error, 0.0 if self._is_closing else self._address.timeout)
            else:
                if await self._run(raw, self._take_jobs()):
                    delay = _FIRST_DELAY
                    continue
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
        if self._raw is not None:
            await close_quietly(self._raw)

    async def _connect(self) -> Raw:
        if self._raw is None or self._raw.is_closed():
            self._raw = None  # a connect that fails leaves no dead connection behind
            self._raw = await self._connector.connect("writer")
        return self._raw

    def _give_up(self, error: Exception, seconds: float) -> None:
        """Give this error to the jobs that have waited for so many seconds."""
        self.wrote_at = -math.inf
        too_old = time.monotonic() - seconds
        while self._jobs and self._jobs[0].since <= too_old:
            set_futures([WriteOutcome(self._jobs.popleft().job.future, None, error)])

    def _put_back(self, waiting: Sequence[_WaitingJob], *, is_alone: bool = False) -> None:
        """Put these jobs first in the queue, in their order; `is_alone`: each in its own transaction."""
        jobs = [structs.replace(one, batch=None) for one in waiting] if is_alone else waiting
        self._jobs.extendleft(reversed(jobs))

    def _take_jobs(self) -> list[_WaitingJob]:
        """Return the jobs of the next commit: all that can go together, or a single one."""
        jobs = [self._jobs.popleft()]
        if jobs[0].batch is None:
            return jobs
        while self._jobs and len(jobs) < _MAX_IN_ONE_COMMIT and self._jobs[0].batch is not None:
            jobs.append(self._jobs.popleft())
        return jobs

    async def _run(self, raw: Raw, waiting: list[_WaitingJob]) -> bool:
        """Run these jobs and set their futures. Jobs that were certainly not stored may go back to the queue.

        Return False when the connection broke, so that the caller waits before the next try.
        """
        try:
            outcomes = await self._commit(raw, waiting)
        except _Undecided as undecided:
            failure = store_error(undecided.__cause__ or undecided, self._address)
            text = f"{failure.message} The connection broke in a commit: look whether this was stored."
            outcomes = [WriteOutcome(one.job.future, None, StoreError(text)) for one in waiting]
            self._drop()
        except Exception as error:  # the database, a late refusal or a bug in a work: other jobs must not fail with it
            self.wrote_at = -math.inf
            if is_database_error(error) and needs_new_connection(error, raw):
                self._drop()
                self._put_back(waiting)
                self._give_up(self._convert(error), self._address.timeout)
                return False
            if len(waiting) > 1 or (waiting[0].batch is not None and can_try_again(error)):
                self._put_back(waiting, is_alone=True)
                return True
            outcomes = [WriteOutcome(waiting[0].job.future, None, self._convert(error))]
        set_futures(outcomes)
        return True

    def _drop(self) -> None:
        """Drop a connection that is broken."""
        self.wrote_at = -math.inf
        raw, self._raw = self._raw, None
        if raw is not None and not raw.is_closed():
            raw.terminate()

    async def _commit(self, raw: Raw, waiting: list[_WaitingJob]) -> list[WriteOutcome]:
        """Run these jobs and commit. Return their outcomes. A job whose row did not fit may go back to the queue."""
        batched = [(one.batch, one.job) for one in waiting if one.batch is not None]
        if not batched:
            outcomes = [await self._commit_one(raw, waiting[0].job)]
        elif len(groups := plan_groups(batched)) > 1:
            outcomes = await _in_transaction(raw, _run_groups(raw, groups), "read committed")
        else:  # one statement is a transaction of its own
            fitting = await _undecided_if_broken(raw, _run_group(raw, groups[0]))
            outcomes = [outcome for outcome in fitting if outcome is not None]
            # A work that runs by itself says why its row did not fit, or fits by then. The others do not wait for it.
            self._put_back([one for one, found in zip(waiting, fitting, strict=True) if found is None], is_alone=True)
        self.commits += 1
        self.wrote_at = time.monotonic()
        return outcomes

    async def _commit_one(self, raw: Raw, job: WriteJob) -> WriteOutcome:
        """Run a work in its own transaction, which sees one moment, or waits for others (`WaitingWork`).

        Try again for `timeout` seconds while it fails because of another transaction: one of the two always succeeds.
        """
        if isinstance(job.work, OneStatement):
            changed = await _undecided_if_broken(raw, job.work(PostgresConnection(raw)))
            return WriteOutcome(job.future, changed, None)
        isolation = "read committed" if isinstance(job.work, WaitingWork) else "repeatable read"
        deadline, pause = time.monotonic() + self._address.timeout, 0.001
        while True:
            try:
                return WriteOutcome(job.future, await _in_transaction(raw, _run_work(raw, job.work), isolation), None)
            except Exception as error:
                if not can_try_again(error) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(random.uniform(0.0, pause))  # else two nodes in step may hinder each other for long
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _convert(self, error: Exception) -> Exception:
        """Return the error for the caller: a refusal as it is, any other as `StoreError`. Note a lack of resources."""
        if isinstance(error, HandspanError):
            return error
        if not is_database_error(error):
            _log.error("A work of the store failed", exc_info=error)
        failure = store_error(error, self._address)
        if refuses_writes(error):
            self.lacked_at, self.lack = time.monotonic(), failure.message
        return failure


async def _run_work(raw: Raw, work: Work[Any]) -> Any:
    """Run a work, or all works of `AllWorks`, and return its value. A work with a batch is one statement, too."""
    if isinstance(work, WaitingWork):
        return await _run_work(raw, work.work)
    if isinstance(work, AllWorks):
        for one in work.works:
            await _run_work(raw, one)
        return None
    batch = find_batch(work)
    fitting = {} if batch is None else await _run_batch(raw, batch, [work])
    return fitting[1] if fitting else await work(PostgresConnection(raw))


async def _run_batch(raw: Raw, batch: Batch, works: Sequence[Work[Any]]) -> dict[int, Any]:
    """Run one statement for these works. Return the value of each work whose row fitted, by its place from 1."""
    found = await raw.fetch(batch.statement, *batch.arrays(works))
    return {row["place"]: None if batch.value is None else batch.value(tuple(row)) for row in found}


async def _run_group(raw: Raw, group: BatchGroup) -> list[WriteOutcome | None]:
    """Run one statement for these jobs. Return the outcome of each; None for a job whose row did not fit."""
    values = await _run_batch(raw, group.batch, [job.work for job in group.jobs])
    return [
        WriteOutcome(job.future, values[place], None) if place in values else None
        for place, job in enumerate(group.jobs, 1)
    ]


async def _run_groups(raw: Raw, groups: Sequence[BatchGroup]) -> list[WriteOutcome]:
    """Run all groups in the transaction around them. Return the outcomes; a refusal is one, and changes nothing."""
    outcomes: list[WriteOutcome] = []
    for group in groups:
        for outcome, job in zip(await _run_group(raw, group), group.jobs, strict=True):
            outcomes.append(outcome or await _run_alone(raw, job))
    return outcomes


async def _run_alone(raw: Raw, job: WriteJob) -> WriteOutcome:
    """Run a job whose row did not fit by itself: mostly it says why it refuses."""
    try:
        return WriteOutcome(job.future, await job.work(PostgresConnection(raw)), None)
    except HandspanError as refusal:
        return WriteOutcome(job.future, None, refusal)


async def _in_transaction(raw: Raw, work: Coroutine[Any, Any, _T], isolation: str) -> _T:
    """Return the value of the work after the commit. Raises `_Undecided` when the commit itself broke."""
    try:
        await raw.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        value = await work
    except BaseException:
        work.close()
        if not raw.is_closed():
            await _roll_back(raw)
        raise
    await _undecided_if_broken(raw, raw.execute("COMMIT"))
    return value


async def _roll_back(raw: Raw) -> None:
    try:
        await raw.execute("ROLLBACK")
    except Exception:
        raw.terminate()  # the caller raises the error that led here


async def _undecided_if_broken(raw: Raw, statement: Coroutine[Any, Any, _T]) -> _T:
    """Return the value of a statement that commits. Raises `_Undecided` when the connection broke meanwhile."""
    try:
        return await statement
    except Exception as error:
        if is_database_error(error) and needs_new_connection(error, raw) and not has_certainly_failed(error):
            raise _Undecided from error
        raise
