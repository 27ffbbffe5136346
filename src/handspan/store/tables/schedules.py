"""Schedules and their runs as rows (SPEC J1).

One statement moves due schedules to their next times, each only from the time that this process has read: so of two
processes one gets each due time. The rows of the runs are written in the same transaction, under its lease.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct, structs

from handspan.core.errors import ToolError
from handspan.core.schedule_times import last_time, next_time, offset_of
from handspan.core.schedules import (
    FAILED,
    MAX_FAILURES,
    MAX_RUNS,
    MAX_SCHEDULES,
    Claim,
    ClaimedRun,
    Maker,
    RunEnd,
    RunOutcome,
    Schedule,
    ScheduledRun,
    SchedulePlan,
    fresh_session,
)
from handspan.core.store import Leases
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import Row

_SCHEDULE: Final = "id, plan, maker, created, next, paused, failures"
_RUN: Final = "schedule, due, since, began, session, state, ended, reason, text, problem"
_FIND: Final = f"SELECT {_SCHEDULE} FROM schedules WHERE id = ? AND owner = ?"
_ADD: Final = f"INSERT INTO schedules ({_SCHEDULE}, owner, token) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LAST_RUNS: Final = (
    f"SELECT {_RUN} FROM schedule_runs WHERE schedule IN (SELECT id FROM schedules WHERE owner = ?)"
    " AND due = (SELECT MAX(due) FROM schedule_runs AS others WHERE others.schedule = schedule_runs.schedule)"
)
# With whether all tokens that count for its maker were revoked, and whether an earlier run is not over.
_DUE: Final = (
    f"SELECT {_SCHEDULE},"
    " (SELECT COUNT(*) > 0 AND COUNT(revoked) = COUNT(*) FROM tokens"
    " WHERE tokens.owner = schedules.owner AND (schedules.token = '' OR tokens.hash = schedules.token)),"
    " EXISTS (SELECT 1 FROM schedule_runs WHERE schedule = schedules.id AND state <> 'done')"
    " FROM schedules WHERE next <= ? ORDER BY next, id LIMIT ?"
)
_MOVED: Final = "(?/*text*/, ?/*double precision*/, ?/*double precision*/, ?/*text*/)"
_END: Final = (
    "UPDATE schedule_runs SET state = ?, run = ?/*text*/, ended = ?, reason = ?, text = ?"
    " WHERE schedule = ? AND due = ? AND run = ? AND state = 'running'"
)
_DELIVERED: Final = (
    "UPDATE schedule_runs SET state = 'done', run = NULL, problem = ? WHERE schedule = ? AND due = ? AND run = ?"
)
_COUNT_FAILURE: Final = (
    "UPDATE schedules SET failures = CASE WHEN ?/*boolean*/ THEN failures + 1 ELSE 0 END WHERE id = ?"
)
_FORGET_RUNS: Final = (
    "DELETE FROM schedule_runs WHERE schedule = ? AND state = 'done' AND due <="
    " (SELECT due FROM schedule_runs AS others WHERE others.schedule = ? ORDER BY due DESC LIMIT 1 OFFSET ?)"
)
_TAKE_OVER: Final = f"UPDATE schedule_runs SET run = ? WHERE state <> 'done' AND run = ? RETURNING {_RUN}"
_NEXT: Final = "SELECT MIN(next) FROM schedules WHERE next IS NOT NULL"
_PUNCTUAL: Final = 60.0
"""Seconds by which a run may be late, whatever its schedule says of missed times."""
_REVOKED: Final = "The token with which it was made was revoked. Resume it to let it run again."
_BUSY: Final = "The run before it was not over."
_AWAY: Final = "No gateway ran at that time."
_plan: Final = msgspec.json.Decoder(SchedulePlan)
_maker: Final = msgspec.json.Decoder(Maker)


class _Move(Struct, frozen=True):
    """What becomes of a due schedule."""

    schedule: Schedule
    following: float | None
    paused: str
    run: ScheduledRun


class StoredSchedules:
    """Stores schedules and claims their runs. Implements `ScheduleBook`."""

    def __init__(self, database: Database, leases: Leases, clock: Callable[[], float]) -> None:
        self._database = database
        self._leases = leases
        self._clock = clock

    async def add(self, schedule: Schedule) -> None:
        owner, maker = sanitize(schedule.maker.owner), schedule.maker

        async def work(connection: TableConnection) -> None:
            sql = "SELECT COUNT(*) FROM schedules WHERE owner = ?"
            if await connection.fetch_value(sql, (owner,)) >= MAX_SCHEDULES:
                await _remove_finished(owner, connection)
            if await connection.fetch_value(sql, (owner,)) >= MAX_SCHEDULES:
                text = f"There are {MAX_SCHEDULES} schedules already: remove some (`handspan schedule remove ID`)."
                raise ToolError("invalid_arguments", text)
            about = (encode(schedule.plan), encode(maker), schedule.created, schedule.next)
            await connection.execute(_ADD, (schedule.id, *about, sanitize(schedule.paused), 0, owner, maker.token))

        await self._database.write(work)

    async def get(self, schedule: str, *, owner: str) -> Schedule:
        found = await self.find(schedule, owner=owner)
        if found is None:
            raise _unknown(schedule)
        return found

    async def find(self, schedule: str, *, owner: str) -> Schedule | None:
        row = await self._database.fetch_one(_FIND, (sanitize(schedule), sanitize(owner)))
        return None if row is None else _schedule_of(row)

    async def all(self, *, owner: str) -> Sequence[Schedule]:
        sql = f"SELECT {_SCHEDULE} FROM schedules WHERE owner = ? ORDER BY COALESCE(next, 1e300), created, id"
        found = [_schedule_of(row) for row in await self._database.fetch_all(sql, (sanitize(owner),))]
        return sorted(found, key=lambda one: one.is_finished)

    async def runs(self, schedule: str, *, owner: str, limit: int = MAX_RUNS) -> Sequence[ScheduledRun]:
        await self.get(schedule, owner=owner)
        sql = f"SELECT {_RUN} FROM schedule_runs WHERE schedule = ? ORDER BY due DESC LIMIT ?"
        return [ScheduledRun(*row) for row in await self._database.fetch_all(sql, (sanitize(schedule), limit))]

    async def last_runs(self, *, owner: str) -> Mapping[str, ScheduledRun]:
        rows = await self._database.fetch_all(_LAST_RUNS, (sanitize(owner),))
        return {run.schedule: run for run in (ScheduledRun(*row) for row in rows)}

    async def pause(self, schedule: str, reason: str, *, owner: str) -> Schedule:
        return await self._change(schedule, owner, "next = NULL, paused = ?", (sanitize(reason),))

    async def resume(self, schedule: str, next_due: float | None, token: str, *, owner: str) -> Schedule:
        changed = "next = ?/*double precision*/, token = ?, paused = '', failures = 0"
        return await self._change(schedule, owner, changed, (next_due, token))

    async def make_due(self, schedule: str, *, owner: str) -> Schedule:
        now = _due_at(self._clock())
        return await self._change(schedule, owner, "next = CASE WHEN next < ? THEN next ELSE ? END", (now, now))

    async def _change(self, schedule: str, owner: str, changed: str, values: Row) -> Schedule:
        sql = f"UPDATE schedules SET {changed} WHERE id = ? AND owner = ? RETURNING {_SCHEDULE}"
        key = (sanitize(schedule), sanitize(owner))
        row = await self._database.write(lambda connection: connection.fetch_one(sql, (*values, *key)))
        if row is None:
            raise _unknown(schedule)
        return _schedule_of(row)

    async def remove(self, schedule: str, *, owner: str) -> None:
        key = sanitize(schedule)

        async def work(connection: TableConnection) -> None:
            if not await connection.execute("DELETE FROM schedules WHERE id = ? AND owner = ?", (key, sanitize(owner))):
                raise _unknown(schedule)
            await connection.execute("DELETE FROM schedule_runs WHERE schedule = ?", (key,))

        await self._database.write(work)

    async def next_due(self) -> float | None:
        row = await self._database.fetch_one(_NEXT)
        return None if row is None else row[0]

    async def realign(self, spread: float = 0.0) -> float | None:
        now = self._clock()
        rows = await self._database.fetch_all(f"SELECT {_SCHEDULE} FROM schedules WHERE next > ?", (now,))
        changes: list[Row] = []
        for one in map(_schedule_of, rows):
            due = next_time(one.plan.when, now, offset_of(one.id, one.plan.when, spread))
            if due is not None and one.next is not None and due < one.next:
                changes.append((due, one.id, one.next))
        if changes:
            sql = "UPDATE schedules SET next = ? WHERE id = ? AND next = ?"
            await self._database.write(lambda connection: connection.execute_many(sql, changes))
        return await self.next_due()

    # Runs.

    async def claim(self, limit: int, spread: float = 0.0) -> Claim:
        now = self._clock()
        rows = await self._database.read_few(lambda connection: connection.fetch_all(_DUE, (now, limit)))
        moves = {move.schedule.id: move for move in (_plan_move(row, now, spread) for row in rows)}
        lease = self._leases.own

        async def work(connection: TableConnection) -> tuple[set[str], float | None]:
            if not moves:
                return set(), await connection.fetch_value(_NEXT)
            values = [(one.schedule.id, one.schedule.next, one.following, one.paused) for one in moves.values()]
            moved = await connection.fetch_all(_move_sql(len(values)), tuple(value for row in values for value in row))
            runs = [_run_values(moves[schedule], lease, now) for (schedule,) in moved]
            entered = (
                await connection.fetch_all(_enter_sql(len(runs)), tuple(v for run in runs for v in run)) if runs else ()
            )
            return {schedule for (schedule,) in entered}, await connection.fetch_value(_NEXT)

        entered, following = await self._database.write(work)
        claimed = [ClaimedRun(moves[one].schedule, moves[one].run) for one in moves if one in entered]
        running = tuple([one for one in claimed if one.run.state == "running"])
        return Claim(running, tuple([one for one in claimed if one.run.state == "done"]), following)

    async def end_run(self, run: ScheduledRun, end: RunEnd, text: str, *, delivers: bool) -> RunOutcome | None:
        lease, state = self._leases.own, "delivering" if delivers else "done"
        has_failed = end in FAILED

        async def work(connection: TableConnection) -> RunOutcome | None:
            ended = (state, lease if delivers else None, self._clock(), end, sanitize(text))
            if not await connection.execute(_END, (*ended, run.schedule, run.due, lease)):
                return None
            await connection.execute(_FORGET_RUNS, (run.schedule, run.schedule, MAX_RUNS))
            if end == "aborted":  # a person stopped it: no failure, and no success
                return RunOutcome("")
            await connection.execute(_COUNT_FAILURE, (has_failed, run.schedule))
            return RunOutcome(await _pause_if_failing(run.schedule, connection) if has_failed else "")

        return await self._database.write(work)

    async def end_delivery(self, run: ScheduledRun, problem: str = "") -> bool:
        key = (run.schedule, run.due, self._leases.own)
        return await self._database.execute(_DELIVERED, (sanitize(problem), *key)) == 1


async def take_over_runs(lost: str, own: str, connection: TableConnection) -> Sequence[ClaimedRun]:
    """Put the runs of a process that is gone under the lease of this one, and return them."""
    rows = await connection.fetch_all(_TAKE_OVER, (own, lost))
    found: list[ClaimedRun] = []
    for row in rows:
        run = ScheduledRun(*row)
        of = await connection.fetch_one(f"SELECT {_SCHEDULE} FROM schedules WHERE id = ?", (run.schedule,))
        found += [] if of is None else [ClaimedRun(_schedule_of(of), run)]
    return found


def _plan_move(row: Row, now: float, spread: float) -> _Move:
    """Return the next time of a due schedule, and the run for the times that are over."""
    *columns, is_revoked, is_busy = row
    schedule = _schedule_of(tuple(columns))
    when, since = schedule.plan.when, schedule.next
    assert since is not None
    later, due = offset_of(schedule.id, when, spread), since
    following = next_time(when, since, later)
    if following is not None and following <= now:
        due = max(since, last_time(when, now, later) or since)
        following = next_time(when, now, later)
    paused = _REVOKED if is_revoked else schedule.paused
    why = ""
    if is_revoked:
        why = _REVOKED
    elif is_busy:
        why = _BUSY
    elif now - due > max(schedule.plan.catch_up, _PUNCTUAL):
        why = _AWAY
    session = schedule.plan.session or fresh_session(schedule.id, due)
    run = ScheduledRun(schedule.id, due, since, now, session=session)
    if why:
        run = structs.replace(run, session="", state="done", ended=now, end="missed", text=why)
    return _Move(schedule, None if paused else following, paused, run)


def _run_values(move: _Move, lease: str, now: float) -> Row:
    run = move.run
    holder = lease if run.state == "running" else None
    return (run.schedule, run.due, run.since, now, run.session, run.state, run.ended, run.end, run.text, holder)


@cache
def _move_sql(count: int) -> str:
    return (
        f"WITH moved (id, due, following, paused) AS (VALUES {', '.join([_MOVED] * count)})"
        " UPDATE schedules SET next = moved.following, paused = moved.paused FROM moved"
        " WHERE schedules.id = moved.id AND schedules.next = moved.due RETURNING schedules.id"
    )


@cache
def _enter_sql(count: int) -> str:
    rows = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"] * count)
    columns = "schedule, due, since, began, session, state, ended, reason, text, run"
    return (
        f"INSERT INTO schedule_runs ({columns}) VALUES {rows} ON CONFLICT (schedule, due) DO NOTHING RETURNING schedule"
    )


async def _pause_if_failing(schedule: str, connection: TableConnection) -> str:
    """Pause a schedule whose runs have failed too often, and return why; empty if they have not, or it is paused."""
    reason = f"{MAX_FAILURES} runs in a row have failed."
    sql = "UPDATE schedules SET next = NULL, paused = ? WHERE id = ? AND failures >= ? AND paused = ''"
    return reason if await connection.execute(sql, (reason, schedule, MAX_FAILURES)) else ""


async def _remove_finished(owner: str, connection: TableConnection) -> None:
    """Remove the owner's schedules that are over, with their runs."""
    finished = "SELECT id FROM schedules WHERE owner = ? AND next IS NULL AND paused = ''"
    over = f"{finished} AND id NOT IN (SELECT schedule FROM schedule_runs WHERE state <> 'done')"
    await connection.execute(f"DELETE FROM schedules WHERE id IN ({over})", (owner,))
    await connection.execute("DELETE FROM schedule_runs WHERE schedule NOT IN (SELECT id FROM schedules)")


def _schedule_of(row: Row) -> Schedule:
    schedule, plan, maker, created, due, paused, failures = row
    of = _plan.decode(plan), _maker.decode(maker)
    return Schedule(schedule, *of, created=created, next=due, paused=paused, failures=failures)


def _unknown(schedule: str) -> ToolError:
    text = f"There is no schedule {schedule[:60]!r}. `handspan schedule` lists them."
    return ToolError("file_not_found", text)


def _due_at(now: float) -> float:
    """Return the moment in whole milliseconds, of which ids are made."""
    return round(now, 3)
