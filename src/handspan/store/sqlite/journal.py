"""Which calls of the journal somebody wants to see, as SQL that an index serves (SPEC E8)."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ErrorCode
from handspan.store.sqlite.paging import Mark
from handspan.store.sqlite.rows import RECORD, Row, plain

CallStatus: TypeAlias = Literal["open", "success", "error"] | ErrorCode
"""How a call ended, or that it has not; `error` stands for every code."""

# As `calls_open` and `calls_failed` have it: SQLite uses such an index for these very words only.
_OPEN: Final = "state <> 'done'"
_FAILED: Final = "status NOT IN ('open', 'success')"


class Wanted(Struct, frozen=True):
    """What the calls have in common; None: that may be anything."""

    session: str | None = None
    tool: str | None = None
    status: CallStatus | None = None
    since: float | None = None
    """Seconds since 1970: those that began then or later."""
    until: float | None = None
    """Those that began earlier."""


def page_query(owner: str, wanted: Wanted, before: Mark, limit: int) -> tuple[str, Row]:
    """The statement and its values for the calls of this owner before that place, the last one first."""
    terms: list[tuple[str, Row]] = [("owner = ?", (plain(owner),)), *_terms(wanted)]
    where = " AND ".join(sql for sql, _ in terms)
    values = [value for _, given in terms for value in given]
    sql = f"SELECT {RECORD} FROM calls WHERE {where} AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
    return sql, (*values, before.at, before.id, limit)


def _terms(wanted: Wanted) -> list[tuple[str, Row]]:
    terms: list[tuple[str, Row]] = []
    if wanted.session is not None:
        terms.append(("session = ?", (plain(wanted.session),)))
    if wanted.tool is not None:
        # With `+` no index is used for it: a session has fewer calls than a tool.
        name = "name" if wanted.session is None else "+name"
        terms.append((f"{name} = ?", (plain(wanted.tool),)))
    if wanted.status is not None:
        terms.append(_of_status(wanted.status))
    if wanted.since is not None:
        terms.append(("at >= ?", (wanted.since,)))
    if wanted.until is not None:
        terms.append(("at < ?", (wanted.until,)))
    return terms


def _of_status(status: CallStatus) -> tuple[str, Row]:
    match status:
        case "open":
            return _OPEN, ()
        case "error":
            return _FAILED, ()
        case "success":
            return "status = 'success'", ()
        case code:
            return f"{_FAILED} AND status = ?", (code,)
