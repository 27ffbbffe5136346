"""Questions as rows. "Always allow" becomes a rule here, which answers later questions (SPEC P2, P5).

An answer with "always" or "never" is a row, too: a rule. `StoredRules.forget` takes it back. A question survives a
restart, and its first answer wins.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.question_checks import is_remembered
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.records import Rule
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import NOT_DELETED, Row, marks, put_row

EXPIRED: Final = Answer("expired")

_IS_OPEN: Final = (
    f"answer IS NULL AND expires_at > ? AND {NOT_DELETED}"
    " AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = questions.call_id AND calls.state = 'done')"
)

_NEW: Final = "id, call_id, owner, session, asked_at, expires_at, body"
_ADD: Final = f"INSERT INTO questions ({_NEW}) VALUES ({marks(_NEW)})"
_RULE: Final = "owner, kind, tool, fingerprint, subject, answer"
_SAVE_RULE: Final = put_row("rules", "owner, kind, tool, fingerprint, subject", "answer, at")
_FIND_RULE: Final = (
    "SELECT answer FROM rules WHERE owner = ? AND kind = ? AND tool = ? AND fingerprint = ? AND subject = ?"
)

_question_decoder: Final = msgspec.json.Decoder(Question)
_answer_decoder: Final = msgspec.json.Decoder(Answer)


class StoredQuestions:
    """Stores questions. Implements `QuestionBook`: `ask` does not wait for an answer, the call asks again later."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
        """Return the answer, or the owner's rule; `expired` after the question's time, None while it is open."""
        answer = await self._database.write(partial(_ask, question, encode(question), self._clock()))
        if answer is None:
            opened()
        return answer

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """Return the questions that no person has answered and whose time is not over."""
        now = self._clock()
        sql = f"SELECT body, expires_at FROM questions WHERE owner = ? AND {_IS_OPEN}"
        values: Row = (sanitize(owner), now)
        if session is not None:
            sql, values = f"{sql} AND session = ?", (*values, sanitize(session))
        sql += " ORDER BY asked_at, id"
        rows = await self._database.fetch_all(sql, values)
        return [structs.replace(_question_decoder.decode(body), expires_in=until - now) for body, until in rows]

    async def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        if answer.decision == "expired":  # only the clock decides that
            return False
        return await self._database.write(
            partial(_answer, sanitize(question_id), answer, sanitize(owner), self._clock())
        )

    async def take_back(self, question_id: str, *, owner: str) -> bool:
        sql = f"UPDATE questions SET answer = ?, answered_at = ? WHERE id = ? AND owner = ? AND {_IS_OPEN}"
        now = self._clock()
        values = (encode(EXPIRED), now, sanitize(question_id), sanitize(owner), now)
        return await self._database.execute(sql, values) == 1


async def _ask(question: Question, body: bytes, now: float, connection: TableConnection) -> Answer | None:
    """Return the stored answer or a rule; else store the question, if it is new."""
    sql = "SELECT answer, expires_at FROM questions WHERE id = ? AND owner = ?"
    asked = await connection.fetch_one(sql, (sanitize(question.id), sanitize(question.owner)))
    if asked is not None:
        answer, expires_at = asked
        return _answer_decoder.decode(answer) if answer is not None else EXPIRED if expires_at <= now else None
    rule = await _find_rule(question, connection)
    if rule is not None:
        return rule
    texts = map(sanitize, (question.id, question.call_id, question.owner, question.session))
    await connection.execute(_ADD, (*texts, now, now + question.expires_in, body))
    return None


async def _answer(question_id: str, answer: Answer, owner: str, now: float, connection: TableConnection) -> bool:
    """Store the answer, and a rule if the answer is remembered."""
    sql = f"UPDATE questions SET answer = ?, answered_at = ? WHERE id = ? AND owner = ? AND {_IS_OPEN} RETURNING body"
    answered = await connection.fetch_all(sql, (encode(answer), now, question_id, owner, now))
    if not answered:
        return False
    question = _question_decoder.decode(answered[0][0])
    if is_remembered(question.kind, answer):
        lasting = Answer(answer.decision, always=True, how_to_enable=answer.how_to_enable)
        key = (question.owner, question.kind, question.tool, question.fingerprint, question.subject)
        await _save_rule(Rule(*key, lasting), now, connection)
    return True


async def expire_questions(call_id: str, now: float, connection: TableConnection) -> None:
    """Close the open questions of this call, which does not need an answer any more."""
    sql = "UPDATE questions SET answer = ?, answered_at = ? WHERE call_id = ? AND answer IS NULL"
    await connection.execute(sql, (encode(EXPIRED), now, call_id))


class StoredRules:
    """Stores rules. Implements `RuleBook`. A question finds its rule in the transaction that asks it."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def all(self, *, owner: str) -> Sequence[Rule]:
        sql = f"SELECT {_RULE} FROM rules WHERE owner = ? ORDER BY tool, subject, kind, fingerprint"
        rows = await self._database.fetch_all(sql, (sanitize(owner),))
        return [_decode_rule(row) for row in rows]

    async def remember(self, rule: Rule) -> None:
        await self._database.write(partial(_save_rule, rule, self._clock()))

    async def forget(self, tool: str, *, owner: str) -> int:
        sql, values = "DELETE FROM rules WHERE owner = ? AND tool = ?", (sanitize(owner), sanitize(tool))
        return await self._database.execute(sql, values)


async def _save_rule(rule: Rule, now: float, connection: TableConnection) -> None:
    """Store this rule."""
    await connection.execute(_SAVE_RULE, (*_rule_key(rule), encode(rule.answer), now))


async def _find_rule(question: Question, connection: TableConnection) -> Answer | None:
    """Return the owner's answer to every question like this one, or None."""
    row = await connection.fetch_one(_FIND_RULE, _rule_key(question))
    return None if row is None else structs.replace(_answer_decoder.decode(row[0]), is_rule=True)


def _decode_rule(row: Row) -> Rule:
    owner, kind, tool, fingerprint, subject, answer = row
    return Rule(owner, kind, tool, fingerprint, subject=subject, answer=_answer_decoder.decode(answer))


def _rule_key(of: Rule | Question) -> Row:
    """Return the columns that identify a rule.

    A tool whose definition has changed has another key: its owner is asked again (T5).
    """
    return tuple(sanitize(text) for text in (of.owner, of.kind, of.tool, of.fingerprint, of.subject))
