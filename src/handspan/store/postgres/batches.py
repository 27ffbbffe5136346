"""The frequent writes, many rows in one statement: one round trip and one commit serve all of them.

Each statement does to many rows what the work of `tables/` does to one, and returns the places of the rows that fit. A
row fits if the conditions of its work are true. A work whose row did not fit is run by itself: it finds out why, and
raises its own error.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from handspan.core.nodes import AddedClient
from handspan.core.values import sanitize
from handspan.store.postgres.node_clients import ADDED, REPLACE, AddClient, RemoveClient, StoreTools
from handspan.store.tables.calls import FINISH, EnterCall, FinishCall, StartCall
from handspan.store.tables.database import Work, WriteJob
from handspan.store.tables.messages import AppendMessages
from handspan.store.tables.rows import ENTRY, OUTCOME, Row
from handspan.store.tables.sessions import SESSION, session_of
from handspan.store.tables.turns import BeginTurn, EndTurn


class Batch(Struct, frozen=True):
    """How works of one kind become one statement."""

    columns: Mapping[str, str]
    """The columns of `row`, and the type of each."""
    statement: str
    """Takes the array of each column (`_given_rows`). Returns a row for each work that fits: first its place."""
    row: Callable[[Any], Row]
    """Returns the values of a work for `columns`."""
    key: Callable[[Any], str]
    """Returns what the work changes. Two works with the same key are never in one statement."""
    value: Callable[[Row], Any] | None = None
    """Returns the value of the work, from the row that the statement returned for it; None: it has no value."""

    def arrays(self, works: Iterable[Work[Any]]) -> list[object]:
        """Return the values for the statement: the array of each column."""
        columns = zip(*[self.row(work) for work in works], strict=True)
        return [_ARRAYS[kind](values) for kind, values in zip(self.columns.values(), columns, strict=True)]


def _given_rows(columns: Mapping[str, str]) -> str:
    """Return the SQL of a table `given`, with the rows of the arrays and the place of each."""
    arrays = (
        f"${number}::{kind}[]" if _ARRAYS[kind] is list else f"${number}::text::{kind}[]"
        for number, kind in enumerate(columns.values(), 1)
    )
    names = ", ".join(columns)
    return f"given AS (SELECT * FROM unnest({', '.join(arrays)}) WITH ORDINALITY AS given ({names}, place))"


# An array as PostgreSQL writes it: `{1,NULL}`. A Python list would be slower: the driver checks whether each value is a
# list, too, and that takes longer than all else that it does with the value.


def _number_array(numbers: Row) -> str:
    return "{" + ",".join(["NULL" if number is None else str(number) for number in numbers]) + "}"


def _text_array(texts: Row) -> str:
    if not _IS_PLAIN("".join(filter(None, texts))):
        texts = tuple(None if text is None else _escape(text) for text in texts)
    return "{" + ",".join(["NULL" if text is None else f'"{text}"' for text in texts]) + "}"


def _escape(text: str) -> str:
    """Return the text as it is written between quotation marks, with U+FFFD in place of the character 0.

    PostgreSQL can't store that character in a text.
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\ufffd")


_IS_PLAIN: Final = re.compile(r"""[^\0"\\]*""").fullmatch
_FLOAT: Final = "double precision"
_ARRAYS: Final[Mapping[str, Callable[[Row], object]]] = {
    "text": _text_array, "bytea": list, **dict.fromkeys((_FLOAT, "bigint", "integer", "boolean"), _number_array)
}  # fmt: skip
"""How the values of a column become its array, by the type of the column."""
_ENTRY_COLUMNS: Final = dict.fromkeys(ENTRY.split(", "), "text") | {
    "tool": "bytea", "arguments": "bytea", "at": _FLOAT, "size": "bigint", "asked_by": "bytea"
}  # fmt: skip
_OUTCOME_COLUMNS: Final = dict.fromkeys(OUTCOME.split(", "), "bytea") | {
    "expires_at": _FLOAT, "duration": _FLOAT, "waited": _FLOAT
}  # fmt: skip

_APPEND_COLUMNS: Final = {
    "at": _FLOAT, "opens": "text", "is_reply": "boolean", "session": "text", "owner": "text", "answered": "text",
    "body": "bytea", "expected": "integer", "lease": "text", "model": "text", "day": "text", "input": "bigint",
    "output": "bigint", "cached": "bigint", "reasoning": "bigint", "cost": _FLOAT,
}  # fmt: skip
_START_COLUMNS: Final = {
    "tool": "bytea", "arguments": "bytea", "arguments_form": "text", "run": "text", "expires_at": _FLOAT,
    "waited": _FLOAT, "is_edited": "boolean", "id": "text",
}  # fmt: skip
_ENTER_COLUMNS: Final = {**_ENTRY_COLUMNS, "state": "text", "run": "text", "expires_at": _FLOAT}
_FINISH_COLUMNS: Final = {"size": "bigint", **_OUTCOME_COLUMNS, "id": "text", "at": _FLOAT, "owner": "text"}
_BEGIN_TURN_COLUMNS: Final = {"lease": "text", "at": _FLOAT, "session": "text", "owned_by": "text"}
_END_TURN_COLUMNS: Final = {"state": "text", "session": "text", "owned_by": "text", "lease": "text"}
_ADD_CLIENT_COLUMNS: Final = dict.fromkeys(ADDED.split(", "), "text") | {
    "prefix": "boolean", "tools": "bytea", "since": _FLOAT
}  # fmt: skip
_STORE_TOOLS_COLUMNS: Final = {"peer": "text", "epoch": "bigint", "tools": "bytea"}
_REMOVE_CLIENT_COLUMNS: Final = {"peer": "text", "epoch": "bigint"}

_APPEND: Final = f"""
WITH {_given_rows(_APPEND_COLUMNS)}, fit AS (
    UPDATE sessions SET length = length + 1, active = given.at, open_calls = given.opens, ends_with_reply = is_reply
    FROM given
    WHERE sessions.id = given.session AND sessions.owner = given.owner
        AND COALESCE(open_calls, '') = answered AND NOT (ends_with_reply AND is_reply)
        AND (expected IS NULL OR length = expected) AND (lease IS NULL OR run = lease)
    RETURNING given.*, length AS seq, removed
), added AS (
    INSERT INTO messages (session, seq, number, at, opens, body)
    SELECT session, seq, seq + removed, at, opens, body FROM fit
), used AS (
    INSERT INTO usage (session, seq, owner, model, day, input, output, cached, reasoning, cost)
    SELECT session, seq, owner, model, day, input, output, cached, reasoning, cost FROM fit WHERE is_reply
) SELECT place FROM fit
"""
_ENTER: Final = f"""
WITH {_given_rows(_ENTER_COLUMNS)}, entered AS (
    INSERT INTO calls ({ENTRY}, state, run, expires_at) SELECT {ENTRY}, state, run, expires_at FROM given
    ON CONFLICT (id) DO NOTHING RETURNING id
) SELECT place FROM given JOIN entered USING (id)
"""
_START: Final = f"""
WITH {_given_rows(_START_COLUMNS)}
UPDATE calls SET state = 'started', tool = given.tool, arguments = given.arguments,
    arguments_form = given.arguments_form, run = given.run, expires_at = given.expires_at, waited = given.waited,
    is_edited = given.is_edited
FROM given WHERE calls.id = given.id AND calls.state = 'accepted' RETURNING given.place
"""
_FINISH: Final = f"""
WITH {_given_rows(_FINISH_COLUMNS)}
UPDATE calls SET state = 'done', run = NULL, size = given.size,
    {", ".join(f"{column} = given.{column}" for column in _OUTCOME_COLUMNS)}
FROM given WHERE calls.id = given.id AND calls.at = given.at AND calls.owner = given.owner AND calls.state <> 'done'
RETURNING given.place
"""
_BEGIN_TURN: Final = f"""
WITH {_given_rows(_BEGIN_TURN_COLUMNS)}
UPDATE sessions SET state = 'running', run = given.lease, active = given.at
FROM given
WHERE id = given.session AND owner = given.owned_by AND state <> 'running' AND deleted_at IS NULL
RETURNING given.place, {SESSION}
"""
_END_TURN: Final = f"""
WITH {_given_rows(_END_TURN_COLUMNS)}
UPDATE sessions SET state = given.state, run = NULL
FROM given WHERE id = given.session AND owner = given.owned_by AND (given.lease IS NULL OR run = given.lease)
RETURNING given.place
"""
_ADD_CLIENT: Final = f"""
WITH {_given_rows(_ADD_CLIENT_COLUMNS)}, before AS (
    SELECT peer, clients.node FROM clients JOIN given USING (peer) ORDER BY peer FOR UPDATE OF clients
), fit AS (
    SELECT given.*, before.node AS node_before FROM given LEFT JOIN before USING (peer)
    WHERE role <> 'device' OR NOT EXISTS (
        SELECT 1 FROM clients AS other WHERE other.owner = given.owner AND other.label = given.label
            AND other.role = 'device' AND other.peer <> given.peer
    )
), added AS (
    INSERT INTO clients ({ADDED}, epoch, version, since)
    SELECT {ADDED}, nextval('client_epochs'), 0, to_timestamp(since) FROM fit {REPLACE} RETURNING peer, epoch
) SELECT place, epoch, CASE WHEN node_before <> node THEN node_before ELSE '' END FROM added JOIN fit USING (peer)
"""
# A row of an older connection changes nothing, as for the work that runs alone: all of these works fit.
_STORE_TOOLS: Final = f"""
WITH {_given_rows(_STORE_TOOLS_COLUMNS)}, stored AS (
    UPDATE clients SET tools = given.tools, version = version + 1
    FROM given WHERE clients.peer = given.peer AND clients.epoch = given.epoch
) SELECT place FROM given
"""
_REMOVE_CLIENT: Final = f"""
WITH {_given_rows(_REMOVE_CLIENT_COLUMNS)}, removed AS (
    DELETE FROM clients USING given WHERE clients.peer = given.peer AND clients.epoch = given.epoch
) SELECT place FROM given
"""

_NO_USE: Final = (None,) * 7


def _append_row(work: AppendMessages) -> Row:
    return (*work.rows[0], work.after, work.lease, *(work.uses[0] or _NO_USE))


def _values(work: EnterCall | StartCall | FinishCall | AddClient) -> Row:
    return work.values


def _session_key(work: AppendMessages | BeginTurn | EndTurn) -> str:
    return f"session {work.session}"


def _call_key(work: EnterCall | StartCall) -> str:
    return f"call {work.call_id}"


def _client_key(work: StoreTools | RemoveClient) -> str:
    return f"client {work.peer}"


_BATCHES: Final[dict[object, Batch]] = {
    AppendMessages: Batch(_APPEND_COLUMNS, _APPEND, _append_row, _session_key),
    EnterCall: Batch(_ENTER_COLUMNS, _ENTER, _values, _call_key),
    StartCall: Batch(_START_COLUMNS, _START, _values, _call_key),
    FinishCall: Batch(_FINISH_COLUMNS, _FINISH, _values, lambda work: f"call {work.key[0]}", value=lambda found: True),
    BeginTurn: Batch(
        _BEGIN_TURN_COLUMNS,
        _BEGIN_TURN,
        lambda work: (work.lease, work.now, sanitize(work.session), sanitize(work.owner)),
        _session_key,
        value=lambda found: session_of(found[1:]),
    ),
    EndTurn: Batch(
        _END_TURN_COLUMNS,
        _END_TURN,
        lambda work: (work.state, sanitize(work.session), sanitize(work.owner), work.lease),
        _session_key,
    ),
    AddClient: Batch(
        _ADD_CLIENT_COLUMNS,
        _ADD_CLIENT,
        _values,
        lambda work: f"client {work.client.peer}",
        value=lambda found: AddedClient(*found[1:]),
    ),
    StoreTools: Batch(
        _STORE_TOOLS_COLUMNS, _STORE_TOOLS, lambda work: (work.peer, work.epoch, work.tools), _client_key
    ),
    RemoveClient: Batch(_REMOVE_CLIENT_COLUMNS, _REMOVE_CLIENT, lambda work: (work.peer, work.epoch), _client_key),
}  # fmt: skip


def find_batch(work: Work[Any]) -> Batch | None:
    """Return how this work joins others of its kind in one statement; None if it can't."""
    if isinstance(work, AppendMessages) and len(work.rows) != 1:  # its later rows depend on its earlier ones
        return None
    if isinstance(work, EndTurn) and (work.is_late or work.end is not None):  # `end` changes a message, too
        return None
    if isinstance(work, FinishCall) and work.statement is not FINISH:
        return None
    return _BATCHES.get(type(work))


class BatchGroup(Struct, frozen=True):
    """Jobs that become one statement."""

    batch: Batch
    jobs: list[WriteJob]


def plan_groups(jobs: Iterable[tuple[Batch, WriteJob]]) -> list[BatchGroup]:
    """Return the jobs in groups. Jobs with the same key stay in their order; all others may change places."""
    groups: list[BatchGroup] = []
    last: dict[str, int] = {}
    for batch, job in jobs:
        key = batch.key(job.work)
        place = last.get(key, -1) + 1
        while place < len(groups) and groups[place].batch is not batch:
            place += 1
        if place == len(groups):
            groups.append(BatchGroup(batch, []))
        groups[place].jobs.append(job)
        last[key] = place
    return groups
