"""Records, messages and clocks for the tests of the store."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from handspan.core.calls import CallRecord, ToolFacts, new_call_id
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    Usage,
    UserMessage,
)
from handspan.core.principals import BUILTIN
from handspan.core.questions import Question, QuestionKind
from handspan.core.records import SessionRecord
from handspan.core.results import ToolResult
from handspan.core.store import Journal, Store
from handspan.core.values import Arguments
from tests.stores import is_postgres, refusing_writes, run_sql
from tests.waiting import soon

"""No test waits longer than that for anything."""

WRITES = ToolFacts(BUILTIN, "1.0.0", read_only=False)
READS = ToolFacts(BUILTIN, "1.0.0", read_only=True)


class Clock:
    """A time that only tests move."""

    def __init__(self, now: float = 1_767_225_600.0) -> None:  # 2026-01-01, midnight in UTC
        self.now = now

    def __call__(self) -> float:
        return self.now


def call(
    call_id: str = "",
    *,
    tool: ToolFacts = WRITES,
    owner: str = "ann",
    session: str = "s",
    arguments: Arguments | bytes | str | None = None,
    at: float = 1000.0,
) -> CallRecord:
    """A call that no ledger knows yet."""
    given = {"path": "a.txt"} if arguments is None else arguments
    return CallRecord(call_id or new_call_id(), "write_file", tool, given, owner, session, "General", at)


async def started(ledger: Journal, record: CallRecord) -> CallRecord:
    """The record, after its tool was touched."""
    written = ledger.start(record)
    if written is not None:
        await soon(written)
    return record


async def finished(ledger: Journal, record: CallRecord, result: ToolResult) -> bool:
    """Whether this was its first result."""
    written = ledger.finish(record, result)
    return written if isinstance(written, bool) else await soon(written)


def user(text: str = "hello") -> UserMessage:
    return UserMessage((Text(text),))


def asks(*ids: str, usage: Usage | None = None, model: str = "m") -> AssistantMessage:
    """A reply that asks for these calls."""
    return AssistantMessage(tuple(CallPart(each, "write_file", "{}") for each in ids), "calls", model, usage)


def says(text: str = "done", usage: Usage | None = None, model: str = "m") -> AssistantMessage:
    return AssistantMessage((Text(text),), "end", model, usage)


def answers(*ids: str) -> ResultsMessage:
    envelope = '{"status":"success","result":null}'
    return ResultsMessage(tuple(CallResult(each, "write_file", envelope) for each in ids))


def question(call_id: str = "c1", *, kind: str = "approval", owner: str = "ann", fingerprint: str = "f") -> Question:
    """A question about a call."""
    return Question(
        id=f"{call_id}/{kind}",
        kind=cast(QuestionKind, kind),
        call_id=call_id,
        tool="write_file",
        arguments={"path": "a.txt"},
        subject="it writes",
        owner=owner,
        session="s",
        fingerprint=fingerprint,
        expires_in=60.0,
    )


@contextmanager
def no_room(limit: int, state: Path | None = None) -> Iterator[None]:
    """No file may grow beyond this: a write fails half-way, as on a full disk. PostgreSQL says that itself.

    `state`: the folder of the store, where the test runs on each database.
    """
    if state is not None and is_postgres():
        with refusing_writes(state, limit):
            yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def load(store: Store, session: SessionRecord) -> list[Message]:
    """The messages of Ann's session."""
    return await soon(store.conversations.load(session.id, owner="ann"))


async def count(store: Store, table: str) -> int:
    """How many rows a table has."""
    [[rows]] = await soon(run_sql(store, f"SELECT COUNT(*) FROM {table}"))
    assert isinstance(rows, int)
    return rows
