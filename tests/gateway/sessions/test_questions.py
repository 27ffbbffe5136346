"""Questions that calls wait for, kept so that they outlive the process that asked (SPEC P3, P5)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan import ToolContext, tool
from handspan.agent.turn_events import QuestionOver
from handspan.core.agents import Agent
from handspan.core.bus import QuestionEnded
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import DefinitionError, InvalidAnswer, StoreError
from handspan.core.events import CallFinished, CallProgress, Ended, QuestionAsked
from handspan.core.principals import OPERATOR, Origin
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Opened, Question, QuestionAction, ignore_opened
from handspan.core.records import Recovery
from handspan.core.results import Failure, Success
from handspan.core.tool import Annotations, Handling, ToolSpec
from handspan.core.values import Json
from handspan.models.scripted import call
from tests.gateway.sessions.session_kit import CAREFUL, STRANGER, RecordingListener, SessionKit, all_of
from tests.stores import database_of
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

ALLOW, DENY = Answer("allow"), Answer("deny")
OWNER = OPERATOR.owner
ME = person(OPERATOR)
ROOT = Path(__file__).parents[3]
OUTSIDE = Origin("mcp", "outside")
FETCHING = "---\nname: fetching\ndescription: Fetches.\nallowed-tools: [outside__fetch]\n---\nFetch.\n"


class Fetch:
    """A tool that models do not see, unless a skill shows it."""

    spec = ToolSpec("outside__fetch", "Fetch.", {"type": "object"}, annotations=Annotations(destructive=True))

    async def run(self, arguments: Any, ctx: ToolContext) -> str:
        ctx.progress("half \u202eway")
        return "fetched"


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[SessionKit]:
    async with SessionKit(tmp_path, [call("note", text="a"), "done"]) as kit:
        yield kit


async def asked(kit: SessionKit, count: int = 1) -> list[Question]:
    """The questions, once so many are open."""
    async with asyncio.timeout(WAIT):
        while len(found := list(await kit.questions.open_for(owner=OWNER))) < count:
            await asyncio.sleep(0.001)
    return found


async def answered(kit: SessionKit, question: Question, answer: Answer = ALLOW, **more: Any) -> bool:
    return await soon(kit.questions.answer(question.id, answer, ME, **more))


async def write(kit: SessionKit, sql: str) -> None:
    """Make the database what it would be another time."""
    await soon(database_of(kit.store).execute(sql))


def a_question(call_id: str = "c", expires_in: float = 20.0) -> Question:
    return Question(f"{call_id}/approval", "approval", call_id, "note", {}, "why", OWNER, "s", "f", expires_in)


# Answers that do not count.


async def test_nobody_else_can_answer_and_the_first_answer_wins(kit: SessionKit) -> None:
    turn = kit.start("note it", agent="Careful")
    (question,) = await asked(kit)
    assert not await soon(kit.questions.answer(question.id, ALLOW, person(STRANGER)))
    assert not await soon(kit.questions.answer("nonsense", ALLOW, ME))
    assert not await answered(kit, question, Answer("expired"))
    assert await answered(kit, question, DENY)
    assert not await answered(kit, question, ALLOW)
    assert (await soon(turn)).reason == "done"
    assert kit.runs == []


async def test_silence_is_a_no(kit: SessionKit) -> None:
    told: list[object] = []
    kit.bus.subscribe(QuestionEnded, lambda event: told.append((event.decision, event.by)))
    assert await soon(kit.questions.ask(a_question(expires_in=0.02))) == Answer("expired")
    assert told == [("expired", "")]
    assert not await soon(kit.questions.answer(a_question().id, ALLOW, ME))


async def test_a_turn_that_is_aborted_asks_nobody_any_more(kit: SessionKit) -> None:
    listener = RecordingListener()
    turn = kit.start("note it", listener, agent="Careful")
    (question,) = await asked(kit)
    await until(lambda: listener.of(QuestionAsked))  # it is told a moment after it is stored
    assert kit.sessions.abort("s", OWNER)
    assert await soon(turn) == Ended("aborted")
    assert listener.of(QuestionOver) == [QuestionOver(question.id, question.kind)]
    assert await soon(kit.questions.open_for(owner=OWNER)) == []
    assert not await answered(kit, question)
    assert kit.runs == [] and await soon(kit.store.ledger.open_calls(owner=OWNER)) == []


async def test_a_store_that_can_not_keep_a_question_fails_the_call(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(kit.store.questions, "ask", full)
    listener = RecordingListener()
    assert (await kit.say("note it", listener, agent="Careful")).reason == "done"
    assert [event.status for event in listener.of(CallFinished)] == ["interrupted"]
    assert not await soon(kit.questions.answer("x", ALLOW, ME))


# Asking and answering.


async def test_a_turn_waits_for_the_answer_and_goes_on(kit: SessionKit) -> None:
    listener, watcher = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    turn = kit.start("note it", listener, agent="Careful")
    (question,) = await asked(kit)
    (record,) = await soon(kit.store.ledger.open_calls(owner=OWNER))
    assert (record.id, record.state) == (question.call_id, "accepted"), "a restart would find it"
    assert await answered(kit, question, by="me")
    assert await soon(turn) == Ended("done", "done")
    assert kit.runs == ["a"]
    for one in (listener, watcher):
        assert [event.question.id for event in one.of(QuestionAsked)] == [question.id]
        assert one.of(QuestionOver) == [QuestionOver(question.id, question.kind, "me")]


async def test_the_call_runs_with_what_the_person_made_of_it(kit: SessionKit) -> None:
    turn = kit.start("note it", agent="Careful")
    (question,) = await asked(kit)
    await answered(kit, question, Answer("allow", arguments={"text": "edited"}))
    await soon(turn)
    assert kit.runs == ["edited"]


async def test_no_client_is_told_of_a_question_before_it_is_stored(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, is_asked, goes_on, listener = kit.store.questions.ask, asyncio.Event(), asyncio.Event(), RecordingListener()

    async def slow(question: Question, opened: Opened = ignore_opened) -> Answer | None:
        is_asked.set()
        await goes_on.wait()
        return await store(question, opened)

    monkeypatch.setattr(kit.store.questions, "ask", slow)
    turn = kit.start("note it", listener, agent="Careful")
    await soon(is_asked.wait())
    assert listener.of(QuestionAsked) == []
    goes_on.set()
    await until(lambda: listener.of(QuestionAsked))
    (question,) = await soon(kit.questions.open_for(owner=OWNER))
    assert await answered(kit, question)
    assert await soon(turn) == Ended("done", "done")


async def test_an_answer_that_comes_before_the_question_is_kept_is_not_too_early(kit: SessionKit) -> None:
    question = a_question()
    asking = asyncio.create_task(kit.questions.ask(question))
    await asyncio.sleep(0)  # asked, and on its way to the disk
    assert await answered(kit, question)
    assert await soon(asking) == ALLOW


async def test_whoever_asks_the_same_gets_the_same_answer(kit: SessionKit) -> None:
    asking = [asyncio.create_task(kit.questions.ask(a_question())) for _ in range(2)]
    await asked(kit)
    assert await answered(kit, a_question())
    assert await all_of(*asking) == [ALLOW, ALLOW]
    assert await soon(kit.questions.ask(a_question())) == ALLOW


async def test_an_answer_in_the_last_moment_counts(kit: SessionKit) -> None:
    """The clock of who waits is over; the store has taken an answer, and its word counts."""
    asking = asyncio.create_task(kit.questions.ask(a_question(expires_in=0.2)))
    await asked(kit)
    assert await soon(kit.store.questions.answer(a_question().id, ALLOW, owner=OWNER))
    assert await soon(asking) == ALLOW


async def test_what_a_person_said_always_to_is_not_asked_again(kit: SessionKit, tmp_path: Path) -> None:
    turn = kit.start("note it", agent="Careful")
    (question,) = await asked(kit)
    await answered(kit, question, Answer("allow", always=True))
    await soon(turn)
    again = SessionKit(tmp_path, [call("note", text="b"), "done"])
    await again.app.open()
    again.add_tools()
    listener = RecordingListener()
    try:
        assert (await again.say("more", listener)).reason == "done"
        assert again.runs == ["b"] and listener.of(QuestionAsked) == [] == listener.of(QuestionOver)
    finally:
        await again.sessions.drain(0)
        await again.app.close()


async def test_a_tool_can_bring_the_place_where_its_person_is(kit: SessionKit) -> None:
    class OnTheDevice:
        def __init__(self) -> None:
            self.asked: list[Question] = []

        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
            opened()
            self.asked.append(question)
            return ALLOW

    device = OnTheDevice()

    class Camera:
        spec = ToolSpec("camera", "Take a picture.", {"type": "object"}, ("camera",))
        handling = Handling(questions=device)

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "click"

    kit.app.registry.register(Camera(), Origin("device", "phone"))
    kit.plays(call("camera"), "nice", call("camera"), "fine")
    listener = RecordingListener()
    assert (await kit.say("smile", listener)).reason == "done"
    assert [question.subject for question in device.asked] == ["camera"]
    assert listener.of(QuestionAsked) == [], "nobody is asked here"
    turn = kit.start("again", agent="Careful")
    (question,) = await asked(kit)
    assert question.kind == "approval", "whether the agent may is asked here all the same"
    await answered(kit, question)
    await soon(turn)
    assert len(device.asked) == 2, "the device remembers its own answers (P2)"


# Questions for a value, and those that no call waits for.

COLOUR: dict[str, Any] = {"type": "string", "enum": ["red", "blue"]}


def without_call(question_id: str = "login/shop", expires_in: float = 20.0, session: str = "", **more: Any) -> Question:
    given: dict[str, Any] = {"kind": "login", "action": QuestionAction("https://shop.example/login"), **more}
    kind = given.pop("kind")
    return Question(question_id, kind, "", "shop", {}, "Log in.", OWNER, session, "f", expires_in, **given)


def form(question_id: str = "form", **more: Any) -> Question:
    return without_call(question_id, kind="input", action=None, schema=COLOUR, **more)


async def test_a_tool_that_runs_asks_and_gets_the_value(kit: SessionKit) -> None:
    class Paint:
        spec = ToolSpec("paint", "Paint.", {"type": "object"})

        async def run(self, arguments: Any, ctx: Any) -> Any:
            return (await ctx.ask("input", "Which colour?", schema=COLOUR)).value

    kit.app.registry.register(Paint(), Origin("plugin", "test"))
    kit.plays(call("paint"), "done")
    listener = RecordingListener()
    turn = kit.start("paint it", listener)
    (question,) = await asked(kit)
    assert (question.kind, question.schema, question.session) == ("input", COLOUR, "s")
    with pytest.raises(InvalidAnswer, match="must be one of"):
        await answered(kit, question, Answer("allow", value="green"))
    assert [one.id for one in await asked(kit)] == [question.id], "it stays open"
    assert listener.of(QuestionOver) == []
    assert await answered(kit, question, Answer("allow", value="blue"), by="me")
    assert await soon(turn) == Ended("done", "done")
    assert [event.status for event in listener.of(CallFinished)] == ["success"]
    assert [event.question.id for event in listener.of(QuestionAsked)] == [question.id]
    assert listener.of(QuestionOver) == [QuestionOver(question.id, question.kind, "me")]
    assert await soon(kit.questions.ask(question)) == Answer("allow", value="blue"), "it is kept"


async def test_a_question_that_its_tool_has_given_up_is_over_while_the_call_goes_on(kit: SessionKit) -> None:
    goes_on, may_end = asyncio.Event(), asyncio.Event()

    class Paint:
        spec = ToolSpec("paint", "Paint.", {"type": "object"})

        async def run(self, arguments: Any, ctx: Any) -> Any:
            asking = asyncio.create_task(ctx.ask("input", "Which colour?", schema=COLOUR))
            await goes_on.wait()
            asking.cancel()
            await may_end.wait()
            return "grey"

    kit.app.registry.register(Paint(), Origin("plugin", "test"))
    kit.plays(call("paint"), "done")
    listener = RecordingListener()
    turn = kit.start("paint it", listener)
    (question,) = await asked(kit)
    await until(lambda: listener.of(QuestionAsked))
    goes_on.set()
    await until(lambda: listener.of(QuestionOver))
    assert await soon(kit.questions.open_for(owner=OWNER)) == []
    assert not await answered(kit, question, Answer("allow", value="blue")), "nothing would come of it"
    may_end.set()
    assert await soon(turn) == Ended("done", "done")


async def test_a_question_without_a_call_reaches_all_sessions_of_its_owner_and_is_answered_once(
    kit: SessionKit,
) -> None:
    listeners, stranger = {"s": RecordingListener(), "t": RecordingListener()}, RecordingListener()
    for session, listener in listeners.items():
        kit.sessions.get(session, OWNER).listen(listener)
    kit.sessions.get("u", STRANGER.owner).listen(stranger)
    asking = asyncio.create_task(kit.questions.ask(without_call()))
    (question,) = await asked(kit)
    assert question.call_id == ""
    await until(lambda: all(listener.of(QuestionAsked) for listener in listeners.values()))
    assert await answered(kit, question, ALLOW, by="me")
    assert not await answered(kit, question, DENY)
    assert await soon(asking) == ALLOW
    for listener in listeners.values():
        assert listener.of(QuestionOver) == [QuestionOver(question.id, question.kind, "me")]
    assert stranger.heard == []


async def test_a_question_of_no_session_is_not_told_to_a_client_that_only_follows_its_turn(kit: SessionKit) -> None:
    watcher, listener = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    kit.plays(call("slow"), "done")
    turn = kit.start("hi", listener)
    await soon(kit.reached.wait())
    asking = asyncio.create_task(kit.questions.ask(without_call()))
    (question,) = await asked(kit)
    await until(lambda: watcher.of(QuestionAsked))
    assert await answered(kit, question)
    assert await soon(asking) == ALLOW
    kit.may_end.set()
    assert (await soon(turn)).reason == "done"
    assert watcher.of(QuestionOver) == [QuestionOver(question.id, question.kind)]
    assert not listener.of(QuestionAsked) and not listener.of(QuestionOver)
    assert "" not in listener.turns, "a run would take it for its own beginning"


async def test_a_question_without_a_call_expires(kit: SessionKit) -> None:
    listener = RecordingListener()
    kit.sessions.get("s", OWNER).listen(listener)
    assert await soon(kit.questions.ask(form(expires_in=0.02, session="s"))) == Answer("expired")
    assert listener.of(QuestionOver) == [QuestionOver("form", "input")]
    assert await soon(kit.questions.open_for(owner=OWNER)) == []


async def test_a_question_without_a_call_outlives_the_source_that_asked(kit: SessionKit) -> None:
    listener = RecordingListener()
    kit.sessions.get("s", OWNER).listen(listener)
    asking = asyncio.create_task(kit.questions.ask(without_call()))
    (question,) = await asked(kit)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert [one.id for one in await asked(kit)] == [question.id], "it can still be answered"
    assert listener.of(QuestionOver) == []
    assert await answered(kit, question)
    assert listener.of(QuestionOver) == [QuestionOver(question.id, question.kind)]
    assert await soon(kit.questions.ask(without_call())) == ALLOW, "asked again, it has its answer"


async def test_a_question_that_nobody_could_answer_is_not_kept(kit: SessionKit) -> None:
    with pytest.raises(DefinitionError, match="needs an action"):
        await soon(kit.questions.ask(without_call(action=None)))
    assert await soon(kit.questions.open_for(owner=OWNER)) == []


# A gateway that dies.


def run_and_kill(folder: Path, script: str = "note", count: int = 2) -> list[str]:
    """The ids of the questions that were open when the process was killed."""
    command = [sys.executable, "-m", "tests.gateway.dying", str(folder), script]
    without_coverage = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=without_coverage) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode().strip() for _ in range(count)]
        process.kill()
    assert process.returncode == -9
    return lines


async def reborn(folder: Path) -> tuple[SessionKit, Recovery]:
    """The kit in its next life; nobody has answered anything."""
    kit = SessionKit(folder, ["thanks"])
    await kit.store.open()
    recovery = await kit.store.recover()
    await kit.store.close()
    await kit.app.open()
    kit.add_tools()
    return kit, recovery


async def test_questions_outlive_a_killed_gateway_and_their_calls_run_once(tmp_path: Path) -> None:
    ids = await soon(asyncio.to_thread(run_and_kill, tmp_path))
    kit, recovery = await reborn(tmp_path)
    watcher = RecordingListener()
    try:
        kit.sessions.get("s", OWNER).listen(watcher)
        await soon(kit.resumable.recover(recovery))
        first, second = await asked(kit, 2)
        assert {first.id, second.id} == set(ids)
        assert await answered(kit, first, by="me")
        assert not await answered(kit, first)
        await until(lambda: kit.runs)
        assert len(kit.runs) == 1 and watcher.ends == [], "the turn waits for the other one"
        assert await answered(kit, second, DENY)
        await until(lambda: watcher.ends)
        assert watcher.ends == [Ended("done", "thanks")]
        assert sorted(event.status for event in watcher.of(CallFinished)) == ["approval_denied", "success"]
        assert [over.by for over in watcher.of(QuestionOver)] == ["me", ""]
        assert len(kit.runs) == 1
        assert await kit.texts() == ["note it", *["<note>"] * 4, "thanks"]
        await until(lambda: not kit.sessions.running(OWNER))
        assert (await soon(kit.store.conversations.get("s", owner=OWNER))).state == "idle"
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


@pytest.mark.parametrize("reads", [True, False])
async def test_a_tool_that_only_reads_and_asked_goes_on_after_a_restart(tmp_path: Path, reads: bool) -> None:
    @tool(annotations=Annotations(read_only=reads))
    async def pick(ctx: ToolContext) -> Json:
        """Let the person pick."""
        return (await ctx.ask("input", "Which colour?", schema={"type": "string"})).value

    first = SessionKit(tmp_path, [call("pick")])
    await first.app.open()
    first.app.registry.register(pick, Origin("plugin", "test"))
    turn = first.start("pick one")
    await asked(first, 1)
    await first.store.close()  # as if it were killed: nothing more is written
    turn.cancel()
    await first.sessions.drain(0)
    await first.app.close()
    kit, recovery = await reborn(tmp_path)
    kit.app.registry.register(pick, Origin("plugin", "test"))
    try:
        assert (len(recovery.waiting), len(recovery.unknown_outcome)) == (int(reads), int(not reads))
        if reads:
            watcher = RecordingListener()
            kit.sessions.get("s", OWNER).listen(watcher)
            await soon(kit.resumable.recover(recovery))
            (question,) = await asked(kit, 1)
            assert await answered(kit, question, Answer("allow", value="red"))
            await until(lambda: watcher.ends)
            assert '"result":"red"' in watcher.of(CallFinished)[0].envelope
            assert watcher.ends == [Ended("done", "thanks")]
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


@pytest.mark.parametrize("by_model", [False, True])
async def test_a_call_of_a_tool_that_a_skill_shows_runs_when_it_is_approved_after_a_restart(
    tmp_path: Path, by_model: bool
) -> None:
    folder = tmp_path / "ws" / ".handspan" / "skills" / "fetching"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(FETCHING, encoding="utf-8")
    script = [call("use_skill", name="fetching"), call("outside__fetch")] if by_model else [call("outside__fetch")]
    first = SessionKit(tmp_path, script)
    await first.app.open()
    await first.app.skills.refresh()
    await first.app.skills.enable("fetching", first.app.skills.find_any("fetching").fingerprint)
    skills = () if by_model else ("fetching",)
    await first.app.agents.create(Agent("Fetcher", mode="ask_destructive", skills=skills))
    first.app.registry.register(Fetch(), OUTSIDE, handling=Handling("loop", internal=True))
    turn = first.start("fetch it", agent="Fetcher")
    assert [question.tool for question in await asked(first)] == ["outside__fetch"]
    await first.store.close()  # as if it were killed: nothing more is written
    turn.cancel()
    await first.sessions.drain(0)
    await first.app.close()
    kit, recovery = await reborn(tmp_path)
    kit.app.registry.register(Fetch(), OUTSIDE, handling=Handling("loop", internal=True))
    watcher = RecordingListener()
    try:
        kit.sessions.get("s", OWNER).listen(watcher)
        await soon(kit.resumable.recover(recovery))
        (question,) = await asked(kit, 1)
        assert await answered(kit, question)
        await until(lambda: watcher.ends)
        assert watcher.of(CallFinished)[-1].envelope == '{"status":"success","result":"fetched"}'
        assert [event.value for event in watcher.of(CallProgress)] == ["half way"], "without invisible characters (S4)"
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_a_question_of_ask_user_outlives_a_killed_gateway_and_its_answer_is_the_result(tmp_path: Path) -> None:
    (question_id,) = await soon(asyncio.to_thread(run_and_kill, tmp_path, "ask", 1))
    kit, recovery = await reborn(tmp_path)
    watcher = RecordingListener()
    try:
        kit.sessions.get("s", OWNER).listen(watcher)
        await soon(kit.resumable.recover(recovery))
        (question,) = await asked(kit)
        assert (question.id, question.kind, question.subject) == (question_id, "input", "Which colour?")
        with pytest.raises(InvalidAnswer):
            await answered(kit, question, Answer("allow", value="green"))
        assert await answered(kit, question, Answer("allow", value="blue"))
        await until(lambda: watcher.ends)
        (finished,) = watcher.of(CallFinished)
        assert (finished.status, finished.envelope) == ("success", '{"status":"success","result":"blue"}')
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_an_answer_that_nobody_could_act_on_is_acted_on_at_the_next_start(tmp_path: Path) -> None:
    ids = await soon(asyncio.to_thread(run_and_kill, tmp_path))
    kit, _ = await reborn(tmp_path)
    for question_id in ids:  # taken, and then the gateway dies again before it could do anything
        assert await soon(kit.store.questions.answer(question_id, ALLOW, owner=OWNER))
    await kit.app.close()
    kit, recovery = await reborn(tmp_path)
    try:
        assert len(recovery.waiting) == 2
        watcher = RecordingListener()
        kit.sessions.get("s", OWNER).listen(watcher)
        await soon(kit.resumable.recover(recovery))
        await until(lambda: watcher.ends)
        assert sorted(kit.runs) == ["a", "b"] and watcher.ends == [Ended("done", "thanks")]
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_questions_that_nobody_answers_end_the_calls_and_the_turn_goes_on(tmp_path: Path) -> None:
    await soon(asyncio.to_thread(run_and_kill, tmp_path))
    kit, recovery = await reborn(tmp_path)
    watcher = RecordingListener()
    try:
        kit.sessions.get("s", OWNER).listen(watcher)
        await soon(kit.resumable.recover(recovery))
        await soon(kit.resumable.expire())
        assert watcher.heard == []
        await write(kit, "UPDATE questions SET expires_at = 0")
        await soon(kit.resumable.expire())
        await until(lambda: watcher.ends)
        assert [event.status for event in watcher.of(CallFinished)] == ["question_expired"] * 2
        assert watcher.ends == [Ended("done", "thanks")] and kit.runs == []
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_what_expired_while_the_gateway_was_down_lets_the_turn_go_on(tmp_path: Path) -> None:
    await soon(asyncio.to_thread(run_and_kill, tmp_path))
    kit = SessionKit(tmp_path)
    await kit.store.open()
    await kit.store.recover()
    await write(kit, "UPDATE questions SET expires_at = 0")
    await kit.store.close()
    kit, recovery = await reborn(tmp_path)
    try:
        assert len(recovery.expired) == 2
        await soon(kit.resumable.recover(recovery))
        watcher = RecordingListener()
        kit.sessions.get("s", OWNER).listen(watcher)
        await until(lambda: watcher.ends)
        assert watcher.ends == [Ended("done", "thanks")]
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_a_call_whose_agent_is_gone_ends_and_does_not_run(tmp_path: Path) -> None:
    ids = await soon(asyncio.to_thread(run_and_kill, tmp_path))
    kit, recovery = await reborn(tmp_path)
    try:
        await kit.app.agents.delete("Careful")
        await soon(kit.resumable.recover(recovery))
        for question in await asked(kit, 2):
            await answered(kit, question)
        await until(lambda: not kit.sessions.running(OWNER) and kit.requests)
        records = [await soon(kit.store.ledger.get(each.partition("/")[0], owner=OWNER)) for each in ids]
        codes = [record.result.code for record in records if isinstance(record.result, Failure)]
        assert codes == ["tool_not_available"] * 2 and kit.runs == []
    finally:
        await kit.sessions.drain(0)
        await kit.app.close()


async def test_a_call_of_no_session_runs_too_and_its_progress_harms_nobody(kit: SessionKit) -> None:
    class Report:
        spec = ToolSpec("report", "Report.", {"type": "object"})

        async def run(self, arguments: Any, ctx: Any) -> str:
            ctx.progress("half")
            return "whole"

    kit.app.registry.register(Report(), Origin("plugin", "test"))
    call_id, watcher = new_call_id(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    for session in ("", "s"):
        asking = asyncio.create_task(
            kit.app.engine.call(ToolCall("report", {}, call_id + session), kit.app.caller(CAREFUL, session=session))
        )
        (question,) = await asked(kit)
        asking.cancel()  # as if the process had died, but for the record that is open again below
        await asyncio.gather(asking, return_exceptions=True)
        await write(kit, "UPDATE calls SET state = 'accepted', result = NULL")
        assert await answered(kit, question)
        async with asyncio.timeout(WAIT):
            while (record := await kit.store.ledger.find(question.call_id)) and record.state != "done":
                await asyncio.sleep(0.001)
        assert record is not None and isinstance(record.result, Success) and record.result.value == "whole"
    assert [event.value for event in watcher.of(CallProgress)] == ["half"]


async def test_an_answer_to_a_call_that_is_not_known_does_nothing(kit: SessionKit) -> None:
    await soon(kit.store.questions.ask(a_question("never")))
    assert await answered(kit, a_question("never"))
    await soon(kit.sessions.drain(1))
    assert kit.runs == []


async def test_a_store_that_fails_while_a_call_goes_on_is_told_to_the_log(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: str) -> None:
        raise StoreError("The disk is gone.")

    await soon(kit.store.questions.ask(a_question("lost")))
    monkeypatch.setattr(kit.store.ledger, "find", broken)
    assert await answered(kit, a_question("lost"))
    await soon(kit.sessions.drain(1))
    assert "The disk is gone." in caplog.text
