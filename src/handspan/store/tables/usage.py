"""What replies used: sums by session, model, agent or day. A count that no API reported stays unknown (SPEC M6)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final, get_args

from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, Usage
from handspan.core.records import SumBy, Total, UsageSum
from handspan.core.values import sanitize
from handspan.store.tables.database import Database
from handspan.store.tables.rows import NOT_DELETED, Row

_COUNTED: Final = ("input", "output", "cached", "reasoning", "cost")
# SUM of nothing known is NULL, never 0; COUNT(x) leaves out the NULLs.
_SUMS: Final = ", ".join(f"SUM({column}), COUNT(*) - COUNT({column})" for column in _COUNTED)
_WITH_AGENT: Final = (
    "(SELECT usage.*, sessions.agent AS agent FROM usage JOIN sessions ON sessions.id = usage.session) AS used"
)

INSERT_USAGE: Final = (
    "INSERT INTO usage (session, seq, owner, model, day, input, output, cached, reasoning, cost)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
"""Stores what a reply used. Its values: the session's id, the reply's sequence number, the owner and `usage_values`."""
_MAX_TOKENS: Final = 2**40
"""No API can mean more tokens than this, nor a higher price: a higher count is stored as unknown."""
_DAY_SECONDS: Final = 86_400


class StoredUsage:
    """Sums over the usage rows. Implements `UsageBook`. The rows of a deleted session are deleted, too."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sums(self, by: SumBy, *, owner: str, session: str | None = None, since: str = "") -> Sequence[UsageSum]:
        """Return one sum for each session, model, agent or day. A session counts for the agent that it has now."""
        if by not in get_args(SumBy):  # `by` becomes part of the statement: so check it at run time, too
            raise ToolError("invalid_arguments", f"Usage is summed by {', '.join(get_args(SumBy))}, not by {by!r}.")
        sql = f"SELECT {by}, COUNT(*), {_SUMS} FROM {_WITH_AGENT if by == 'agent' else 'usage'}"
        sql += f" WHERE owner = ? AND day >= ? AND {NOT_DELETED}"
        values: Row = (sanitize(owner), since)
        if session is not None:
            sql, values = f"{sql} AND session = ?", (*values, sanitize(session))
        sql += f" GROUP BY {by} ORDER BY {by}"
        rows = await self._database.fetch_all(sql, values)
        return [_sum(row) for row in rows]


def _sum(row: Row) -> UsageSum:
    of, replies, *pairs = row
    return UsageSum(of, replies, *(Total(_plain(pairs[at]), pairs[at + 1]) for at in range(0, len(pairs), 2)))


def _plain(total: float | Decimal | None) -> float | None:
    """Return a sum as a number of JSON: PostgreSQL returns a `Decimal` for a sum of whole numbers."""
    return int(total) if isinstance(total, Decimal) else total


def usage_values(message: AssistantMessage, at: float, cost: float | None) -> Row:
    """Return what a reply used, as the last values of `INSERT_USAGE`."""
    usage = message.usage or Usage()
    counts = (usage.input, usage.output, usage.cached, usage.reasoning, cost)
    known = [count if count is not None and 0 <= count < _MAX_TOKENS else None for count in counts]
    return (sanitize(message.model), _day(int(at // _DAY_SECONDS)), *known)


@lru_cache(maxsize=2)
def _day(number: int) -> str:
    """Return the day of this number since 1970, as `2026-01-31`."""
    return datetime.fromtimestamp(number * _DAY_SECONDS, UTC).date().isoformat()
