"""Questions to a person that wait as long as they like: they survive a restart, and the first answer wins (SPEC P5)."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.questions import Answer, Question
from handspan.core.records import Rule
from handspan.core.values import encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row
from handspan.store.sqlite.rules import find_rule, save_rule

EXPIRED: Final = Answer("expired")

_IS_OPEN: Final = (
    "answer IS NULL AND expires_at > ?"
    " AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = questions.call_id AND calls.state = 'done')"
)

_question: Final = msgspec.json.Decoder(Question)
_answer: Final = msgspec.json.Decoder(Answer)


class StoredQuestions:
    """Questions in the database. Whoever asks does not wait here: the call waits, and asks again when it goes on."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def ask(self, question: Question) -> Answer | None:
        """The answer, or what the person said "always" to; `expired` after its time; None while it waits."""
        return await self._database.write(partial(_ask, question, encode(question), self._clock()))

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """What this owner could answer now; `expires_in` is what is left of it."""
        now = self._clock()
        sql = f"SELECT body, expires_at FROM questions WHERE owner = ? AND {_IS_OPEN}"
        values: Row = (plain(owner), now)
        if session is not None:
            sql, values = f"{sql} AND session = ?", (*values, plain(session))
        sql += " ORDER BY asked_at, id"
        rows = await self._database.read(lambda connection: connection.execute(sql, values).fetchall())
        return [structs.replace(_question.decode(body), expires_in=until - now) for body, until in rows]

    async def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer a question of one's own; False when it is not open any more, or is somebody else's."""
        if answer.decision == "expired":  # only time says that
            return False
        return await self._database.write(partial(_give, plain(question_id), answer, plain(owner), self._clock()))


def _ask(question: Question, body: bytes, now: float, connection: sqlite3.Connection) -> Answer | None:
    question_id = plain(question.id)
    sql = "SELECT answer, expires_at FROM questions WHERE id = ? AND owner = ?"
    asked = connection.execute(sql, (question_id, plain(question.owner))).fetchone()
    if asked is not None:
        answer, expires_at = asked
        return _answer.decode(answer) if answer is not None else EXPIRED if expires_at <= now else None
    rule = find_rule(question, connection)
    if rule is not None:
        return rule
    connection.execute(
        "INSERT INTO questions (id, call_id, owner, session, asked_at, expires_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            question_id,
            plain(question.call_id),
            plain(question.owner),
            plain(question.session),
            now,
            now + question.expires_in,
            body,
        ),
    )
    return None


def _give(question_id: str, answer: Answer, owner: str, now: float, connection: sqlite3.Connection) -> bool:
    sql = f"UPDATE questions SET answer = ?, answered_at = ? WHERE id = ? AND owner = ? AND {_IS_OPEN} RETURNING body"
    given = connection.execute(sql, (encode(answer), now, question_id, owner, now)).fetchall()
    if not given:
        return False
    question = _question.decode(given[0][0])
    if _is_remembered(question, answer):
        lasting = Answer(answer.decision, always=True, how_to_enable=answer.how_to_enable)
        of = (question.owner, question.kind, question.tool, question.fingerprint, question.subject)
        save_rule(Rule(*of, lasting), now, connection)
    return True


def _is_remembered(question: Question, answer: Answer) -> bool:
    """SPEC P2: a granted permission is remembered, a single "no" is not; what was typed or logged into never is."""
    if question.kind in ("input", "login"):
        return False
    granted = question.kind == "permission" and answer.decision == "allow"
    return granted or answer.always or answer.decision == "deny_forever"


def expire_questions(call_id: str, now: float, connection: sqlite3.Connection) -> None:
    """Nobody needs to answer for this call any more."""
    sql = "UPDATE questions SET answer = ?, answered_at = ? WHERE call_id = ? AND answer IS NULL"
    connection.execute(sql, (encode(EXPIRED), now, call_id))
