"""Questions that last: the first answer wins, time says no, and only the owner can answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.records import Rule
from handspan.core.results import succeed
from handspan.core.store import Store
from tests.store.things import Clock, call, count, finished, question
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

YES = Answer("allow")
NO = Answer("deny")
RULE = Rule("ann", "approval", "write_file", "f", "it writes", Answer("allow", always=True))


async def test_another_owner_can_not_answer(store: Store) -> None:
    asked = question()
    assert await soon(store.questions.ask(asked)) is None
    assert not await soon(store.questions.answer(asked.id, YES, owner="bob"))
    assert not await soon(store.questions.answer("never", YES, owner="ann"))
    assert not await soon(store.questions.answer("\ud800", YES, owner="ann"))
    assert await soon(store.questions.open_for(owner="bob")) == []
    assert await soon(store.questions.ask(asked)) is None


async def test_the_first_answer_wins(store: Store) -> None:
    asked = question()
    await soon(store.questions.ask(asked))
    given = await soon(asyncio.gather(*(store.questions.answer(asked.id, answer, owner="ann") for answer in (NO, YES))))
    assert given == [True, False]
    assert await soon(store.questions.ask(asked)) == NO


async def test_only_time_lets_a_question_expire(store: Store, clock: Clock) -> None:
    asked = question()
    await soon(store.questions.ask(asked))
    assert not await soon(store.questions.answer(asked.id, Answer("expired"), owner="ann"))
    clock.now += 59
    left = await soon(store.questions.open_for(owner="ann"))
    assert [(one.id, one.expires_in) for one in left] == [(asked.id, 1.0)]
    clock.now += 1
    assert await soon(store.questions.open_for(owner="ann")) == []
    assert not await soon(store.questions.answer(asked.id, YES, owner="ann"))
    assert await soon(store.questions.ask(asked)) == Answer("expired")


async def test_a_call_that_has_its_result_needs_no_answer(store: Store) -> None:
    record = call("c1")
    await soon(store.questions.ask(question("c1")))
    await soon(store.ledger.accept(record))
    assert len(await soon(store.questions.open_for(owner="ann"))) == 1
    await finished(store.ledger, record, succeed(None))
    assert await soon(store.questions.open_for(owner="ann")) == []
    assert not await soon(store.questions.answer("c1/approval", YES, owner="ann"))


async def test_a_question_and_its_answer_survive_a_restart(store: Store, state: Path, clock: Clock) -> None:
    open_one, answered = question("c1"), question("c2")
    for asked in (open_one, answered):
        await soon(store.questions.ask(asked))
    edited = Answer("allow", arguments={"path": "b.txt"})
    assert await soon(store.questions.answer(answered.id, edited, owner="ann"))
    await soon(store.close())
    async with open_store(state, clock=clock) as again:
        assert await soon(again.questions.open_for(owner="ann")) == [open_one]
        assert await soon(again.questions.open_for(owner="ann", session="s")) == [open_one]
        assert await soon(again.questions.open_for(owner="ann", session="t")) == []
        assert await soon(again.questions.ask(answered)) == edited


@pytest.mark.parametrize(
    ("kind", "answer", "remembered"),
    [
        ("approval", YES, None),
        ("approval", NO, None),
        ("permission", NO, None),
        ("permission", YES, Answer("allow", always=True, is_rule=True)),
        ("approval", Answer("allow", always=True, arguments={"path": "b"}), Answer("allow", always=True, is_rule=True)),
        ("approval", Answer("deny", always=True), Answer("deny", always=True, is_rule=True)),
        (
            "permission",
            Answer("deny_forever", how_to_enable="the settings"),
            Answer("deny_forever", always=True, how_to_enable="the settings", is_rule=True),
        ),
    ],
)
async def test_always_is_remembered_for_this_tool_as_it_is_and_this_owner(
    store: Store, kind: str, answer: Answer, remembered: Answer | None
) -> None:
    asked = question("c1", kind=kind)
    await soon(store.questions.ask(asked))
    await soon(store.questions.answer(asked.id, answer, owner="ann"))
    assert await soon(store.questions.ask(question("c2", kind=kind))) == remembered
    assert await count(store, "questions") == (1 if remembered else 2)
    assert await soon(store.questions.ask(question("c3", kind=kind, owner="bob"))) is None
    assert await soon(store.questions.ask(question("c4", kind=kind, fingerprint="changed"))) is None


async def test_a_person_can_change_their_mind(store: Store) -> None:
    await soon(store.questions.ask(question("c1")))
    always = Answer("allow", always=True)
    await soon(store.questions.answer("c1/approval", always, owner="ann"))
    assert await soon(store.rules.all(owner="ann")) == [RULE]
    assert await soon(store.rules.all(owner="bob")) == []
    assert await soon(store.rules.forget("write_file", owner="bob")) == 0
    assert await soon(store.rules.forget("write_file", owner="ann")) == 1
    assert await soon(store.questions.ask(question("c2"))) is None


async def test_a_remembered_rule_answers_the_questions_it_is_for(store: Store, state: Path) -> None:
    never = structs.replace(RULE, answer=Answer("deny_forever", always=True, how_to_enable="the settings"))
    await soon(store.rules.remember(RULE))
    await soon(store.rules.remember(never))
    async with open_store(state) as later:
        assert await soon(later.rules.all(owner="ann")) == [never]
        assert await soon(later.questions.ask(question("c1"))) == structs.replace(never.answer, is_rule=True)
        assert await soon(later.questions.ask(question("c2", kind="permission"))) is None


async def test_the_same_id_of_another_owner_is_no_way_to_the_answer(store: Store) -> None:
    asked = question()
    await soon(store.questions.ask(asked))
    await soon(store.questions.answer(asked.id, YES, owner="ann"))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await soon(store.questions.ask(structs.replace(asked, owner="bob")))


def without_call(question_id: str = "login", **more: Any) -> Question:
    """A source's question that no call waits for."""
    action = QuestionAction("https://shop.example/login", hint="Use the code 1234.")
    given: dict[str, Any] = {"kind": "login", "action": action, **more}
    return Question(question_id, given.pop("kind"), "", "shop", {}, "Log in.", "ann", "", "f", 60.0, **given)


async def test_a_question_without_a_call_survives_a_restart_and_is_answered_once(
    store: Store, state: Path, clock: Clock
) -> None:
    asked = without_call()
    form = without_call("form", kind="input", action=None, schema={"type": "string"})
    for one in (asked, form):
        assert await soon(store.questions.ask(one)) is None
    await soon(store.close())
    async with open_store(state, clock=clock) as again:
        assert await soon(again.questions.open_for(owner="ann")) == [form, asked]
        value = Answer("allow", value={"name": [1, None]})
        assert await soon(again.questions.answer(form.id, value, owner="ann"))
        assert not await soon(again.questions.answer(form.id, YES, owner="ann"))
        assert await soon(again.questions.ask(form)) == value
        clock.now += 60
        assert await soon(again.questions.open_for(owner="ann")) == []
        assert await soon(again.questions.ask(asked)) == Answer("expired")


@pytest.mark.parametrize("kind", ["input", "login"])
async def test_what_was_typed_or_logged_into_is_asked_again(store: Store, kind: str) -> None:
    for number, answer in enumerate((Answer("allow", always=True), Answer("deny_forever"))):
        asked = question(f"c{number}", kind=kind)
        assert await soon(store.questions.ask(asked)) is None
        assert await soon(store.questions.answer(asked.id, answer, owner="ann"))
    assert await soon(store.rules.all(owner="ann")) == []


async def test_trust_is_remembered_until_the_definition_changes(store: Store) -> None:
    await soon(store.questions.ask(question("c1", kind="trust")))
    await soon(store.questions.answer("c1/trust", Answer("allow", always=True), owner="ann"))
    assert await soon(store.questions.ask(question("c2", kind="trust"))) == Answer("allow", always=True, is_rule=True)
    assert await soon(store.questions.ask(question("c3", kind="trust", fingerprint="changed"))) is None


async def test_old_questions_without_a_call_are_pruned(state: Path, clock: Clock) -> None:
    async with open_store(state, clock=clock, journal_days=30) as store:
        for one in (without_call("old"), question("c1")):
            await soon(store.questions.ask(one))
        clock.now += 31 * 24 * 3600
        await soon(store.questions.ask(without_call("new")))
        await soon(store.prune())
        assert [one.id for one in await soon(store.questions.open_for(owner="ann"))] == ["new"]
        assert await count(store, "questions") == 2
