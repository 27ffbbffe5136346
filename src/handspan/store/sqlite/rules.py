"""What owners answered with "always" or "never", as rows (SPEC P2)."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from sqlite3 import Connection
from typing import Final

import msgspec

from handspan.core.questions import Answer, Question
from handspan.core.records import Rule
from handspan.core.values import encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row

_COLUMNS: Final = "owner, kind, tool, fingerprint, subject, answer"
_SAVE: Final = f"INSERT OR REPLACE INTO rules ({_COLUMNS}, at) VALUES (?, ?, ?, ?, ?, ?, ?)"
_FIND: Final = "SELECT answer FROM rules WHERE owner = ? AND kind = ? AND tool = ? AND fingerprint = ? AND subject = ?"

_answer: Final = msgspec.json.Decoder(Answer)


class StoredRules:
    """Rules in the database. A question finds its own in the transaction that asks it."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def all(self, *, owner: str) -> Sequence[Rule]:
        """The owner's rules, by tool and subject."""
        sql = f"SELECT {_COLUMNS} FROM rules WHERE owner = ? ORDER BY tool, subject, kind, fingerprint"
        rows = await self._database.read(lambda connection: connection.execute(sql, (plain(owner),)).fetchall())
        return [_rule(row) for row in rows]

    async def remember(self, rule: Rule) -> None:
        """Keep this, in place of one for the same owner, kind, tool, definition and subject."""
        await self._database.write(partial(save_rule, rule, self._clock()))

    async def forget(self, tool: str, *, owner: str) -> int:
        """Ask the owner about this tool again; how many rules there were."""
        sql, values = "DELETE FROM rules WHERE owner = ? AND tool = ?", (plain(owner), plain(tool))
        return await self._database.write(lambda connection: connection.execute(sql, values).rowcount)


def save_rule(rule: Rule, now: float, connection: Connection) -> None:
    """Keep this rule."""
    connection.execute(_SAVE, (*_key(rule), encode(rule.answer), now))


def find_rule(question: Question, connection: Connection) -> Answer | None:
    """What the owner answered for every question like this one."""
    row = connection.execute(_FIND, _key(question)).fetchone()
    return None if row is None else _answer.decode(row[0])


def _rule(row: Row) -> Rule:
    owner, kind, tool, fingerprint, subject, answer = row
    return Rule(owner, kind, tool, fingerprint, subject, _answer.decode(answer))


def _key(of: Rule | Question) -> Row:
    """An "always" is for this tool as it is now: a changed definition is asked about again (T5)."""
    return tuple(plain(text) for text in (of.owner, of.kind, of.tool, of.fingerprint, of.subject))
