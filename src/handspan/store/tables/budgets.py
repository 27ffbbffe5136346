"""Budgets as rows: what was spent on each day, what requests under way have reserved, what persons added (SPEC L5).

Reservations are made one after the other: the first statement of each takes the one row of `budget_guard`, so that two
nodes never count on the same money. A settlement is part of the write that stores the reply.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from handspan.core.budgets import (
    Addition,
    BudgetLimit,
    CostEstimate,
    LimitState,
    NoRoom,
    Payer,
    Reservation,
    Settlement,
    first_day,
    scopes_of,
)
from handspan.core.store import Leases
from handspan.core.values import sanitize
from handspan.store.tables.database import Database, TableConnection, WaitingWork

_LEAST_OUTPUT: Final = 1000
"""Tokens that a reply is expected to have at least."""
_NOTED_AT: Final = 0.8
"""The part of a limit at which a person is told."""
_MILLION: Final = 1_000_000
_TAKE_GUARD: Final = (
    "INSERT INTO budget_guard (id, number) VALUES (1, 1)"
    " ON CONFLICT (id) DO UPDATE SET number = budget_guard.number + 1"  # without its row it would guard nothing
)
_RESERVE: Final = "INSERT INTO reservations (id, day, owner, agent, session, nano, run) VALUES (?, ?, ?, ?, ?, ?, ?)"
_RELEASE: Final = "DELETE FROM reservations WHERE id = ?"
_SPEND: Final = (
    "INSERT INTO spending (payer, day, nano) VALUES (?, ?, ?), (?, ?, ?), (?, ?, ?)"
    " ON CONFLICT (payer, day) DO UPDATE SET nano = spending.nano + excluded.nano"
)
_LARGEST: Final = (
    "INSERT INTO largest_replies (model, output) VALUES (?, ?)"
    " ON CONFLICT (model) DO UPDATE SET output = excluded.output WHERE largest_replies.output < excluded.output"
)
_ADD: Final = "INSERT INTO budget_additions (id, payer, day, nano) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
_NOTE: Final = "INSERT INTO budget_notes (payer, period, day) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_STATE: Final = (
    "SELECT {place},"
    " (SELECT COALESCE(SUM(nano), 0) FROM spending WHERE payer = ? AND day BETWEEN ? AND ?),"
    " (SELECT COALESCE(SUM(nano), 0) FROM reservations"
    " WHERE ?/*text*/ IN ('', 'owner:' || owner, 'agent:' || agent) AND day BETWEEN ? AND ?),"
    " (SELECT COALESCE(SUM(nano), 0) FROM budget_additions WHERE payer = ? AND day BETWEEN ? AND ?)"
)
RELEASE_LOST: Final = "DELETE FROM reservations WHERE run = ?"
"""Releases what the requests of a process have reserved that is gone."""


class Settle(Struct, frozen=True):
    """The work that counts what requests did cost. One that was counted, or released, before counts nothing."""

    settlements: tuple[Settlement, ...]

    async def __call__(self, connection: TableConnection) -> None:
        """Put what was spent in the place of each reservation that is still there."""
        for one in self.settlements:
            held = one.reservation
            if not await connection.execute(_RELEASE, (held.id,)):
                continue
            if one.nano:
                rows = [(sanitize(payer), held.day, one.nano) for payer in scopes_of(held.payer)]
                await connection.execute(_SPEND, tuple(value for row in rows for value in row))
            if one.output:
                await connection.execute(_LARGEST, (sanitize(held.model), one.output))


class StoredBudgets:
    """Reserves, settles and adds. Implements `BudgetBook`."""

    def __init__(self, database: Database, leases: Leases) -> None:
        self._database = database
        self._leases = leases

    async def reserve(
        self,
        reservation: str,
        payer: Payer,
        estimate: CostEstimate,
        limits: Sequence[BudgetLimit],
        *,
        day: str,
        settles: Sequence[Settlement] = (),
    ) -> Reservation | NoRoom:
        """Reserve under the lease of this process, after all reservations that were begun before."""
        lease, settle = self._leases.own, Settle(tuple(settles))

        async def work(connection: TableConnection) -> Reservation | NoRoom:
            await connection.execute(_TAKE_GUARD)
            await settle(connection)
            output = estimate.output
            if output is None:
                sql = "SELECT output FROM largest_replies WHERE model = ?"
                output = max(_LEAST_OUTPUT, await connection.fetch_value(sql, (sanitize(estimate.model),)) or 0)
            nano = estimate.input_nano - (-output * estimate.output_nano // _MILLION)
            states = await _states(limits, day, connection)
            if full := [one for one in states if one.spent + one.held + nano > one.most]:
                return NoRoom(nano, tuple(one for one in full if one.spent + nano > one.most))
            owner, agent, session = map(sanitize, (payer.owner, payer.agent, payer.session))
            await connection.execute(_RESERVE, (reservation, day, owner, agent, session, nano, lease))
            low = [one for one in states if one.spent and one.spent >= one.most * _NOTED_AT]
            noted = tuple([one for one in low if await _note(one, day, connection)])
            return Reservation(reservation, day, payer, estimate.model, nano=nano, low=noted)

        found: Reservation | NoRoom = await self._database.write(WaitingWork(work))
        return found

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        await self._database.write(WaitingWork(Settle(tuple(settlements))))

    async def add(self, addition: Addition) -> bool:
        row = (sanitize(addition.id), sanitize(addition.of), addition.day, addition.nano)
        return await self._database.execute(_ADD, row) == 1

    async def states(self, limits: Sequence[BudgetLimit], *, day: str) -> Sequence[LimitState]:
        async def work(connection: TableConnection) -> Sequence[LimitState]:
            return await _states(limits, day, connection)

        return await self._database.read_few(work)


async def _note(state: LimitState, day: str, connection: TableConnection) -> bool:
    """Return whether no person was told before that this limit is nearly spent."""
    limit = state.limit
    row = (sanitize(limit.of), limit.period, first_day(limit.period, day))
    return await connection.execute(_NOTE, row) == 1


async def _states(limits: Sequence[BudgetLimit], day: str, connection: TableConnection) -> list[LimitState]:
    """Return how far each limit is used, all by one statement: so no settlement comes between two sums."""
    if not limits:
        return []
    values: list[object] = []
    for limit in limits:
        values += (sanitize(limit.of), first_day(limit.period, day), day) * 3
    rows = sorted(await connection.fetch_all(_states_sql(len(limits)), tuple(values)))
    return [LimitState(limit, *map(int, sums)) for limit, (_, *sums) in zip(limits, rows, strict=True)]


@cache
def _states_sql(count: int) -> str:
    return " UNION ALL ".join(_STATE.format(place=place) for place in range(count))
