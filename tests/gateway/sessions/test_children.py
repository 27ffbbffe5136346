"""Agents that ask other agents: each works in a session of its own, and its answer is the call's result (SPEC J5)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.agent.turn_events import QuestionOver
from handspan.core.bus import QuestionOpened
from handspan.core.children import MAX_AT_ONCE, child_session
from handspan.core.events import CallProgress, Ended, QuestionAsked
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.records import SessionRecord
from handspan.core.results import Failure
from handspan.testing import FakeDevice
from tests.gateway.sessions.child_kit import (
    AGENTS,
    OWNER,
    Talk,
    all_idle,
    ask,
    last_text,
    on_postgres,
    talking,
    then,
)
from tests.gateway.sessions.session_kit import RecordingListener, said
from tests.nodes.gateways import ask as request
from tests.postgres_engine import HOW_TO_INSTALL, find_programs
from tests.stores import BACKENDS
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ME = person(OPERATOR)


ON_EACH_STORE = pytest.mark.parametrize("talk", BACKENDS, indirect=True)


@pytest.fixture
async def talk(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    """With SQLite, or with the database that a test names."""
    store = getattr(request, "param", BACKENDS[0])
    if store == "postgres" and find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    async with talking(tmp_path, **(on_postgres(tmp_path) if store == "postgres" else {})) as made:
        yield made


def answers(ended: Ended) -> str:
    """The results that the model was shown, as it says them again."""
    assert ended.reason == "done", ended
    return ended.text


# A whole way.


@ON_EACH_STORE
async def test_the_answer_of_the_other_agent_is_the_result_and_its_calls_are_in_the_journal(talk: Talk) -> None:
    heard = RecordingListener()
    task = then('call change {"what": "the light"}', "The light is on.")
    ended = await talk.say(then(ask(task), "It says {results}"), heard)
    assert "The light is on." in answers(ended) and "outside: the agent 'reader'" in ended.text
    assert [one.reason for one in heard.ends] == ["done"]
    asked, changed = await talk.calls()
    assert (asked.name, asked.tool.answered_by, asked.agent, asked.session) == ("ask_agent", "agent", "boss", "s")
    assert (changed.name, changed.agent, changed.session) == ("change", "reader", child_session(asked.id))
    (child,) = await talk.children()
    assert (child.id, child.agent, child.state) == (changed.session, "reader", "idle")
    assert child.name.startswith("reader: call change")
    told: list[Any] = [one.value for one in heard.of(CallProgress)]
    assert [(one["agent"], one["session"], one["call"]["tool"], one["call"]["status"]) for one in told] == [
        ("reader", child.id, "change", "open"),
        ("reader", child.id, "change", "success"),
    ]
    assert talk.changed == ["the light"]


async def test_several_agents_work_at_the_same_time_and_no_more_than_so_many(talk: Talk) -> None:
    asking = talk.start(then("\n".join([ask(then("call slow", "{results}"))] * (MAX_AT_ONCE + 1)), "{results}"))
    working = await soon_all_work(talk)
    assert len(working) == MAX_AT_ONCE
    talk.may_end.set()
    text = answers(await soon(asking))
    assert text.count("slow is done") == MAX_AT_ONCE and text.count("work for this conversation already") == 1


async def soon_all_work(talk: Talk) -> list[SessionRecord]:
    async def found() -> list[SessionRecord]:
        ones = [one for one in await talk.children() if one.state == "running"]
        return ones if len(ones) == MAX_AT_ONCE else []

    await until(found)
    return await found()


async def test_the_model_is_told_which_agents_there_are(talk: Talk) -> None:
    sent: list[str] = []
    talk_prompt = talk.parts.sessions.get("s", OWNER)
    handle = talk_prompt.say(
        OPERATOR, said("hello"), lambda event, _: sent.append(str(event)), agent="boss", debug=True
    )
    await soon(handle.wait_for_end())
    prompt = "".join(sent)
    assert "Agents that you can give a task with ask_agent" in prompt and "- reader: Reads what there is." in prompt
    assert "- boss" not in prompt


async def test_the_calls_and_the_session_of_the_other_agent_name_the_call_that_asked(talk: Talk) -> None:
    await talk.say(then(ask(then('call change {"what": "x"}', "Done.")), "{results}"))
    asked, _ = await talk.calls()
    listed = (await request(talk.running, "GET", "/api/calls"))["calls"]
    assert {one["tool"]: one["parent"] for one in listed} == {"ask_agent": "", "change": asked.id}
    kinds = {}
    for kinds_wanted in ("child", "chat,run,one_shot"):
        sessions = (await request(talk.running, "GET", f"/api/sessions?kind={kinds_wanted}"))["sessions"]
        kinds[kinds_wanted] = [(one["session_id"], one.get("parent")) for one in sessions]
    assert kinds == {"child": [(child_session(asked.id), asked.id)], "chat,run,one_shot": [("s", None)]}
    refused = await request(talk.running, "POST", "/api/sessions", {"kind": "child"})
    assert "kind" in str(refused) and "session_id" not in refused


# Refused.


@pytest.mark.parametrize(("name", "agent"), [("nobody", "boss"), ("boss", "boss"), ("reader", "twin"), ("", "boss")])
async def test_only_agents_that_exist_and_that_the_settings_name_can_be_asked(
    tmp_path: Path, name: str, agent: str
) -> None:
    async with talking(tmp_path) as talk:
        text = answers(await talk.say(then(ask("hello", name), "{results}"), agent=agent))
        assert "invalid_arguments" in text
        if name:
            assert "You may ask: " in text
        assert await talk.children() == []


async def test_an_agent_without_the_setting_has_no_such_tool_and_the_reason_is_told(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        app = talk.parts.app
        boss, reader = [(await app.agents.find(name)).agent for name in ("boss", "reader")]
        for agent, expected in ((boss, True), (reader, False)):
            assert (app.caller(agent).box.find("ask_agent") is not None) is expected
        text = answers(await talk.say(then(ask("hello"), "{results} {tools}"), agent="reader"))
        assert "may ask no other agent" in text and '"ask_agent"' not in text.partition("]")[2]
        why = app.explain(app.caller(reader).box, "ask_agent")
        assert [one.text for one in why if not one.ok] == [
            "The agent may ask no other agent: agents.reader.may_ask names none, or none that exists."
        ]
        assert "may ask 'General', 'careful', 'reader', 'twin'" in str(app.explain(app.caller(boss).box, "ask_agent"))


async def test_an_agent_that_is_alone_has_no_such_tool(tmp_path: Path) -> None:
    async with talking(tmp_path, agents={"General": {"may_ask": ["*"]}}) as talk:
        app = talk.parts.app
        assert app.caller((await app.agents.find("General")).agent).box.find("ask_agent") is None


async def test_a_caller_that_can_not_wait_can_not_ask(tmp_path: Path) -> None:
    async with talking(tmp_path, default_agent="boss") as talk:
        refused = await talk.running.call("ask_agent", agent="reader", task="hello")
        assert (
            isinstance(refused, Failure)
            and refused.code == "tool_not_available"
            and "only in the turn" in refused.message
        )


async def test_agents_that_ask_in_a_circle_end_at_the_third(tmp_path: Path) -> None:
    script = "end"
    for name in ("boss", "twin", "boss", "twin"):
        script = then(ask(script, name), "{results}")
    async with talking(tmp_path) as talk:
        text = answers(await talk.say(script))
        assert "3 agents wait for one another already" in text and "policy_denied" in text
        assert len(await talk.children()) == 3


# The mode of the one who asks.


@pytest.mark.parametrize(
    ("asker", "other", "expected"),
    [
        ("read_only", "automatic", "denied"),
        ("automatic", "read_only", "denied"),
        ("ask_destructive", "automatic", "asked"),
        ("ask_destructive", "read_only", "denied"),
        ("automatic", "automatic", "done"),
    ],
)
async def test_an_agent_never_has_a_wider_mode_than_the_one_who_asks(
    tmp_path: Path, asker: str, other: str, expected: str
) -> None:
    agents = {"boss": {"may_ask": ["*"], "mode": asker}, "reader": {"mode": other}}
    async with talking(tmp_path, agents=agents) as talk:
        questions: list[QuestionOpened] = []
        talk.parts.bus.subscribe(QuestionOpened, questions.append)
        asking = talk.start(then(ask(then('call change {"what": "x"}', "{results}")), "{results}"))
        if expected == "asked":
            await until(lambda: questions)
            assert questions[0].question.agent == "reader"
            await talk.parts.questions.answer(questions[0].question.id, Answer("deny"), ME)
        text = answers(await soon(asking))
        word = {"denied": "policy_denied", "asked": "approval_denied", "done": "changed x"}[expected]
        assert word in text and talk.changed == (["x"] if expected == "done" else [])


async def test_a_mode_that_always_asks_holds_for_an_agent_that_only_reads(tmp_path: Path) -> None:
    agents = {"boss": {"may_ask": ["*"], "mode": "ask_always"}, "reader": {"mode": "read_only"}}
    async with talking(tmp_path, agents=agents) as talk:
        asked: list[str] = []

        def allow(event: QuestionOpened) -> None:
            asked.append(event.question.tool)
            questions = talk.parts.questions
            talk.parts.sessions.tasks.start(questions.answer(event.question.id, Answer("allow"), ME))

        talk.parts.bus.subscribe(QuestionOpened, allow)
        talk.may_end.set()
        assert "slow is done" in answers(await talk.say(then(ask(then("call slow", "{results}")), "{results}")))
        assert asked == ["ask_agent", "slow"]


# The end of the other agent.


async def test_a_failed_turn_is_a_failure_with_its_words(tmp_path: Path) -> None:
    agents = {**AGENTS, "reader": {"model": "gone"}}
    async with talking(tmp_path, agents=agents) as talk:
        text = answers(await talk.say(then(ask("hello"), "{results}")))
        assert "execution_failed" in text and "'gone'" in text
        assert [one.state for one in await talk.children()] in ([], ["idle"])


async def test_an_agent_whose_budget_is_spent_says_so(tmp_path: Path) -> None:
    agents = {**AGENTS, "reader": {"budget": {"day": 0}, "model": "dear"}}
    models = {
        "dear": {"type": "openai", "model": "m", "base_url": "http://10.0.0.1:9", "price": {"input": 3, "output": 9}}
    }
    async with talking(tmp_path, agents=agents, models=models) as talk:
        questions: list[QuestionOpened] = []
        talk.parts.bus.subscribe(QuestionOpened, questions.append)
        asking = talk.start(then(ask("hello"), "{results}"))
        await until(lambda: questions)  # may money be added? It is the budget of the other agent
        (child,) = await talk.children()
        assert questions[0].question.session == child.id
        await talk.parts.questions.answer(questions[0].question.id, Answer("deny"), ME)
        text = answers(await soon(asking))
        assert "execution_failed" in text and "budget_spent" in text


async def test_a_limit_of_the_other_agent_is_told_with_its_answer(tmp_path: Path) -> None:
    agents = {**AGENTS, "reader": {"max_tool_iterations": 1}}
    async with talking(tmp_path, agents=agents) as talk:
        talk.may_end.set()
        text = answers(await talk.say(then(ask(then("call slow", "call slow\nhalf of it")), "{results}")))
        assert "half of it" in text and "stopped by a limit (limit)" in text


@ON_EACH_STORE
async def test_to_stop_the_asker_stops_all_agents_that_work_for_it(talk: Talk) -> None:
    heard = RecordingListener()
    deep = then(ask(then("call slow", "{results}"), "reader"), "{results}")
    asking = talk.start(then(ask(then(ask(deep, "boss"), "{results}"), "twin"), "{results}"), heard)
    await soon(talk.reached.wait())
    assert talk.parts.sessions.abort("s", OWNER)
    assert (await soon(asking)).reason == "aborted"
    assert [one.reason for one in heard.ends] == ["aborted"]
    await until(lambda: all_idle(talk, 4))
    codes = {(one.name, one.result.code) for one in await talk.calls() if isinstance(one.result, Failure)}
    assert codes == {("ask_agent", "cancelled"), ("slow", "cancelled")}


async def test_a_stopped_agent_is_a_failure_and_the_asker_goes_on(talk: Talk) -> None:
    asking = talk.start(then(ask(then("call slow", "x")), "{results}"))
    await soon(talk.reached.wait())
    (child,) = await talk.children()
    assert await talk.parts.sessions.abort_anywhere(child.id, OWNER)
    assert "was stopped before it had answered" in answers(await soon(asking))


async def test_an_agent_that_is_too_slow_is_stopped(talk: Talk) -> None:
    asking = talk.start(then(ask(then("call slow", "x")), "{results}"))
    await soon(talk.reached.wait())
    call, _ = await talk.calls()
    assert call.expires_at is not None and abs(call.expires_at - call.at - 600) < 30
    await talk.parts.app.engine.prolong(call, 0.0)
    assert '"timeout"' in answers(await soon(asking))
    await until(lambda: all_idle(talk, 2))
    _, slow = await talk.calls()
    assert isinstance(slow.result, Failure) and slow.result.code == "cancelled"


# A person is asked.

PERSON = "call ask_user {}".format('{"question": "Which?", "options": ["red", "blue"]}')


async def asked(talk: Talk) -> Any:
    """The question of the other agent, once it is open."""
    await until(lambda: talk.parts.questions.open_for(owner=OWNER))
    (found,) = await talk.parts.questions.open_for(owner=OWNER)
    return found


async def test_a_question_of_the_other_agent_comes_to_the_chat_of_the_asker_and_its_time_does_not_count(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, tools={"timeouts": {"ask_agent": 100}}) as talk:
        heard = RecordingListener()
        deep = then(ask(then(PERSON, "It is {results}")), "{results}")
        asking = talk.start(then(ask(deep, "boss"), "{results}"), heard, agent="twin")
        question = await asked(talk)
        await until(lambda: heard.of(QuestionAsked))
        assert heard.of(QuestionAsked)[0].question.id == question.id

        async def waits_for_days() -> bool:
            now = talk.parts.store.ledger.now()
            return all(one.expires_at - now > 250 for one in await talk.calls(tool="ask_agent"))

        await until(waits_for_days)  # longer than the whole time of the calls
        assert await talk.parts.questions.answer(question.id, Answer("allow", value="red"), ME)
        assert "red" in answers(await soon(asking))
        assert [one.id for one in heard.of(QuestionOver)] == [question.id]


@ON_EACH_STORE
async def test_a_question_is_answered_after_a_restart_and_the_asker_goes_on(talk: Talk) -> None:
    asking = talk.start(then(ask(then(PERSON, "It is {results}")), "Then {results}"))
    question = await asked(talk)
    await talk.restart()
    await asyncio.gather(asking, return_exceptions=True)
    (child,) = await talk.children()
    assert ((await talk.find("s")).state, child.state) == ("waiting", "waiting")
    heard = RecordingListener()
    talk.parts.sessions.get("s", OWNER).listen(heard)
    assert await talk.parts.questions.answer(question.id, Answer("allow", value="red"), ME)
    await until(lambda: heard.ends)
    assert "red" in answers(heard.ends[-1])
    assert [one.name for one in await talk.calls()] == ["ask_agent", "ask_user"]


@ON_EACH_STORE
async def test_a_turn_that_waits_since_a_restart_is_stopped_with_its_agents(talk: Talk) -> None:
    asking = talk.start(then(ask(then(PERSON, "x")), "x"))
    question = await asked(talk)
    await talk.restart()
    await asyncio.gather(asking, return_exceptions=True)
    async with FakeDevice(talk.running.url, talk.running.token) as person:
        await person.connect(role="chat", session_id="s")
        await person.send({"type": "abort"})
        assert (await person.expect("abort_ack", 60))["status"] == "aborted"
    await until(lambda: all_idle(talk, 2))
    assert not await talk.parts.questions.answer(question.id, Answer("allow", value="red"), ME)
    assert {one.result.code for one in await talk.calls()} == {"cancelled"}  # type: ignore[union-attr]


async def test_approval_of_the_call_itself_is_given_after_a_restart(talk: Talk) -> None:
    asking = talk.start(then(ask("It is done."), "Then {results}"), agent="careful")
    question = await asked(talk)
    assert question.tool == "ask_agent" and await talk.children() == []
    await talk.restart()
    await asyncio.gather(asking, return_exceptions=True)
    heard = RecordingListener()
    talk.parts.sessions.get("s", OWNER).listen(heard)
    assert await talk.parts.questions.answer(question.id, Answer("allow"), ME)
    await until(lambda: heard.ends)
    assert "It is done." in answers(heard.ends[-1])


# The end of the process: in order here, and by force in `test_children_killed.py`.


@ON_EACH_STORE
async def test_both_turns_go_on_after_a_stop_in_the_middle_of_the_other_agents_work(talk: Talk) -> None:
    asking = talk.start(then(ask(then('call change {"what": "once"}', "call slow", "{results}")), "Then {results}"))
    await soon(talk.reached.wait())
    talk.may_end.set()
    heard = RecordingListener()
    await talk.restart()
    talk.parts.sessions.get("s", OWNER).listen(heard)
    await asyncio.gather(asking, return_exceptions=True)
    text = await last_text(talk)
    assert "Then" in text and "slow" in text and "could not" not in text
    assert talk.changed == ["once"]
    assert sum(one.name == "ask_agent" for one in await talk.calls()) == 1


async def test_an_end_that_came_while_no_gateway_ran_is_the_result(talk: Talk) -> None:
    """The other agent has answered, and the process ended before the call had its result."""
    asking = talk.start(then(ask(then("call slow", "{results}")), "Then {results}"))
    await soon(talk.reached.wait())
    talk.parts.app.engine.settle = lose_result  # for good: the next gateway has another engine
    talk.may_end.set()
    (child,) = await talk.children()
    await until(lambda: is_idle(talk, child.id))
    await talk.restart()
    await asyncio.gather(asking, return_exceptions=True)
    assert "slow is done" in await last_text(talk)


async def lose_result(*_: object) -> None:
    """The end of a process, before it has stored a result."""


async def is_idle(talk: Talk, session: str) -> bool:
    return (await talk.find(session)).state == "idle"


@ON_EACH_STORE
async def test_a_call_whose_time_is_over_while_no_gateway_runs_ends_and_stops_its_agent(talk: Talk) -> None:
    asking = talk.start(then(ask(then(PERSON, "x")), "Then {results}"))
    await asked(talk)
    await talk.running.close()
    await asyncio.gather(asking, return_exceptions=True)
    async with asyncio.timeout(60):
        await talk.running.open()
    talk.add_tools()
    (call,) = await talk.calls(tool="ask_agent")
    await talk.parts.store.ledger.suspend(msgspec.structs.replace(call, expires_at=1.0))
    await talk.parts.resumable.expire()
    assert "timeout" in await last_text(talk)
