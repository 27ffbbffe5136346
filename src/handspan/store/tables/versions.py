"""Versions of a conversation: what was left behind by going back, and the way to it (SPEC L8).

A version is the part of a conversation behind one message, its fork. Its name, the branch, is the number of its first
message. Numbers are unique over all versions, so a fork is one message, in the conversation or in another version.
The fork 0 stands before the first message. The column `place` counts the messages of a version, from 1.
"""

from typing import Final

from msgspec import structs

from handspan.core.errors import ToolError
from handspan.core.messages import ResultsMessage, Text
from handspan.core.records import DatedMessage, SessionRecord, Version
from handspan.core.values import sanitize
from handspan.store.tables.contexts import DROP_MARKS
from handspan.store.tables.database import TableConnection
from handspan.store.tables.messages import decoder, drop_messages, set_length
from handspan.store.tables.search import drop_lost_words
from handspan.store.tables.sessions import get_session
from handspan.store.tables.turns import check_lease

_EXCERPT: Final = 200
"""Characters of a version's first message, by which a person knows it."""
_MESSAGE: Final = "number, at, opens, body, ended"
_NUMBER: Final = "SELECT number FROM messages WHERE session = ? AND seq = ?"
_SEQ: Final = "SELECT seq FROM messages WHERE session = ? AND number = ?"
_COPY_TO_VERSION: Final = (
    f"INSERT INTO left_messages (session, branch, place, {_MESSAGE}, fork, left_at)"
    f" SELECT session, ?/*bigint*/, seq - ?/*bigint*/, {_MESSAGE}, ?/*bigint*/, ?/*double precision*/"
    " FROM messages WHERE session = ? AND seq > ?"
)
_COPY_FROM_VERSION: Final = (
    f"INSERT INTO messages (session, seq, {_MESSAGE}) SELECT session, place + ?/*bigint*/, {_MESSAGE}"
    " FROM left_messages WHERE session = ? AND branch = ?"
)
_DROP: Final = "DELETE FROM left_messages WHERE session = ? AND branch = ?"
_FORK: Final = "SELECT fork FROM left_messages WHERE session = ? AND branch = ? AND place = 1"
_BRANCH_OF: Final = "SELECT branch, place FROM left_messages WHERE session = ? AND number = ?"
_OLDEST_FIRST: Final = "SELECT branch FROM left_messages WHERE session = ? AND place = 1 ORDER BY left_at, branch"
# A version whose fork is neither in the conversation nor in another version can't be chosen any more.
_DROP_ORPHANS: Final = (
    "DELETE FROM left_messages WHERE session = ? AND fork > 0"
    " AND fork NOT IN (SELECT number FROM messages WHERE session = ?)"
    " AND fork NOT IN (SELECT number FROM left_messages WHERE session = ?)"
)
_IS_NOWHERE: Final = (
    "number NOT IN (SELECT number FROM messages WHERE session = ?)"
    " AND number NOT IN (SELECT number FROM left_messages WHERE session = ?)"
)
_FIRST_MESSAGES: Final = (
    "SELECT first.branch, first.fork, first.left_at, first.at, first.body, (SELECT COUNT(*) FROM left_messages AS rest"
    " WHERE rest.session = first.session AND rest.branch = first.branch)"
    " FROM left_messages AS first WHERE first.session = ? AND first.place = 1"
)
_BODIES: Final = (
    "SELECT branch, at, body FROM left_messages WHERE session = ? AND (?/*bigint*/ IS NULL OR branch = ?)"
    " ORDER BY branch, place"
)
_CURRENT: Final = "SELECT number, at, body FROM messages WHERE session = ? AND seq = ?"
# Other processes see by `removed` that the messages have changed, also when their number has not.
_NOTE_CHANGE: Final = "UPDATE sessions SET removed = removed + 1 WHERE id = ?"


async def rewind(session: SessionRecord, length: int, connection: TableConnection, *, at: float, most: int) -> None:
    """Leave the messages after this sequence number as a version. `most`: so many versions stay; the oldest go."""
    await _leave(session, length, at, connection)
    await set_length(session.id, length, connection)
    branches = await connection.fetch_all(_OLDEST_FIRST, (session.id,))
    for (branch,) in branches[: max(0, len(branches) - most)]:
        await connection.execute(_DROP, (session.id, branch))
        await drop_orphans(session.id, connection)
    if len(branches) > most:
        await drop_lost_words(session.id, connection)


async def list_versions(session: str, owner: str, connection: TableConnection) -> list[Version]:
    """Return all versions in the order in which they began: those that were left, and the current ones at forks."""
    found = await get_session(session, owner, connection)
    versions: dict[int, Version] = {}
    fork_seqs: dict[int, int | None] = {0: 0}
    """Where the forks are in the conversation; None for a fork in another version."""
    for branch, fork, left_at, at, body, count in await connection.fetch_all(_FIRST_MESSAGES, (found.id,)):
        if fork not in fork_seqs:
            fork_seqs[fork] = await connection.fetch_value(_SEQ, (found.id, fork))
        fork_seq = fork_seqs[fork]
        seq = None if fork_seq is None else fork_seq + 1
        versions[branch] = Version(branch, fork, seq, count, text=_excerpt(body), at=at, left_at=left_at)
    for fork, fork_seq in fork_seqs.items():
        is_fork = any(version.fork == fork for version in versions.values())
        if is_fork and fork_seq is not None and (row := await connection.fetch_one(_CURRENT, (found.id, fork_seq + 1))):
            number, at, body = row
            count = found.length - fork_seq
            versions[number] = Version(number, fork, fork_seq + 1, count, text=_excerpt(body), at=at, left_at=None)
    return [versions[branch] for branch in sorted(versions)]


async def load_left(
    session: str, owner: str, branch: int | None, connection: TableConnection
) -> dict[int, list[DatedMessage]]:
    """Return the messages of the versions that were left, by branch; or of this one alone."""
    found = await get_session(session, owner, connection)
    left: dict[int, list[DatedMessage]] = {}
    for each, at, body in await connection.fetch_all(_BODIES, (found.id, branch, branch)):
        left.setdefault(each, []).append(DatedMessage(decoder().decode(body), at))
    return left


async def choose_version(
    session: str, branch: int, owner: str, lease: str | None, at: float, connection: TableConnection
) -> None:
    """Make this version the current one; what stood in its place becomes a version.

    Raises `ToolError`: `file_not_found` for an unknown version, `busy` while calls wait for results.
    """
    found = await get_session(session, owner, connection)
    await check_lease(session, lease, connection)
    if await connection.fetch_value("SELECT open_calls FROM sessions WHERE id = ?", (found.id,)) is not None:
        raise ToolError("busy", f"The session {session!r} waits for the results of calls: choose a version after them.")
    for step in await _way_to(found.id, branch, connection):
        found = await _swap(found, step, at, connection)
    await connection.execute(_NOTE_CHANGE, (found.id,))


async def remove_left(session: str, number: int, connection: TableConnection) -> int:
    """Delete a message of a version and what follows it. Return how many messages; 0 if no version has it."""
    row = await connection.fetch_one(_BRANCH_OF, (session, number))
    if row is None:
        return 0
    await connection.execute(f"{DROP_MARKS} AND number >= ?", (session, number))
    count = await connection.execute(f"{_DROP} AND place >= ?", (session, *row))
    await drop_orphans(session, connection)
    return count


async def drop_orphans(session: str, connection: TableConnection) -> None:
    """Delete the versions that no choice leads to any more."""
    while await connection.execute(_DROP_ORPHANS, (session, session, session)):
        pass
    await connection.execute(f"{DROP_MARKS} AND {_IS_NOWHERE}", (session, session, session))


async def _leave(session: SessionRecord, length: int, at: float, connection: TableConnection) -> None:
    """Move the messages after this sequence number into a version."""
    if session.length == length:
        return
    fork = await connection.fetch_value(_NUMBER, (session.id, length)) if length else 0
    branch = await connection.fetch_value(_NUMBER, (session.id, length + 1))
    await connection.execute(_COPY_TO_VERSION, (branch, length, fork, at, session.id, length))
    await drop_messages(session.id, length + 1, session.length, connection)


async def _way_to(session: str, branch: int, connection: TableConnection) -> list[int]:
    """Return the versions to choose one after the other: each has its fork in the conversation or in the one before."""
    way = [branch]
    while True:
        fork = await connection.fetch_value(_FORK, (session, way[0]))
        if fork is None:
            raise ToolError("file_not_found", f"The session has no version {branch} to choose: list its versions.")
        if not fork or await connection.fetch_value(_SEQ, (session, fork)) is not None:
            return way
        row = await connection.fetch_one(_BRANCH_OF, (session, fork))
        assert row is not None, "orphans are deleted with what they hang on"
        way.insert(0, row[0])


async def _swap(session: SessionRecord, branch: int, at: float, connection: TableConnection) -> SessionRecord:
    """Exchange the messages that follow its fork for this version. Return the session with its new length."""
    fork = await connection.fetch_value(_FORK, (session.id, branch))
    fork_seq = await connection.fetch_value(_SEQ, (session.id, fork)) if fork else 0
    await _leave(session, fork_seq, at, connection)
    count = await connection.execute(_COPY_FROM_VERSION, (fork_seq, session.id, branch))
    await connection.execute(_DROP, (session.id, branch))
    await set_length(session.id, fork_seq + count, connection)
    return structs.replace(session, length=fork_seq + count)


def _excerpt(body: bytes) -> str:
    """Return how the text of a message begins; empty if it has none."""
    message = decoder().decode(body)
    if isinstance(message, ResultsMessage):
        return ""
    return sanitize(" ".join(part.text for part in message.parts if isinstance(part, Text)))[:_EXCERPT]
