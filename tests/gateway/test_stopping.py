"""An ordered stop leaves what can wait without the process, as `kill -9` does; all else ends in its time (SPEC A2, G3).

Each stop here may take an hour by its own rules. So a test whose stop waits for its grace fails.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import pytest

from handspan import ToolContext, tool
from handspan.config.load import load_settings
from handspan.core.events import QuestionAsked
from handspan.core.principals import OPERATOR, Origin
from handspan.core.results import Failure, Success
from handspan.core.tool import Annotations
from handspan.core.values import Json, JsonObject
from handspan.gateway.inside import InsideGateway
from handspan.testing import FakeDevice, GatewayProcess, RunningGateway, Spoken, offer, running_gateway
from tests.gateway.mcp.test_door import mcp_client, texts
from tests.nodes.gateways import Chat, Reachable, chat_at, device_at, resume_token
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, schema_url
from tests.stores import open_store
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

AN_HOUR: Final = 3600.0
ASKING: Final[JsonObject] = {"General": {"mode": "ask_always"}}
WRITE: Final = 'call write_file {"path": "a.txt", "content": "x"}\nthen\nIt is {results}'
LIFT: Final = "call arm__lift {}\nthen\nIt is {results}"
TOOL: Final = offer("lift", "Lift it.", timeout=60)
COLOUR: Final[JsonObject] = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


@asynccontextmanager
async def gateway_in(folder: Path, backend: str = "sqlite", **settings: Any) -> AsyncIterator[RunningGateway]:
    """A gateway that asks before every call."""
    if backend == "postgres":
        if find_programs() is None:
            pytest.skip(HOW_TO_INSTALL)
        settings["store"] = {"url": schema_url(folder / "state"), "timeout": 30}
    async with running_gateway(folder, model=Spoken(), **{"agents": ASKING, **settings}) as gateway:
        yield gateway


@asynccontextmanager
async def rest_of(gateway: Reachable) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=WAIT, trust_env=False) as client:
        yield client


async def questions_of(gateway: RunningGateway, count: int = 1) -> list[str]:
    """The ids of the open questions, once there are so many."""
    questions = gateway.gateway.parts.questions

    async def are_open() -> bool:
        return len(await questions.open_for(owner=OPERATOR.owner)) == count

    await until(are_open)
    return [question.id for question in await questions.open_for(owner=OPERATOR.owner)]


async def answer(gateway: Reachable, question: str, **given: Json) -> None:
    async with rest_of(gateway) as rest:
        path = f"/api/questions/{quote(question, safe='')}/answer"
        taken = await rest.post(path, json={"decision": "allow", **given})
        assert taken.status_code == 200, taken.text


async def stop(gateway: RunningGateway, seconds: float = AN_HOUR) -> None:
    await soon(gateway.close(seconds))


async def ends_with(gateway: RunningGateway, words: str, session: str = "s") -> None:
    """Wait until the turn is over. Its last message has these words."""
    conversations = gateway.gateway.parts.store.conversations

    async def is_over() -> bool:
        return (await conversations.get(session, owner=OPERATOR.owner)).state == "idle"

    await until(is_over)
    last = (await conversations.load(session, owner=OPERATOR.owner))[-1]
    assert words in getattr(last, "text", ""), last


def ends(chat: Chat) -> list[Json]:
    """The ends of turns that a client with `events` was told."""
    events = [frame["event"] for frame in chat.device.heard if frame["type"] == "event"]
    return [event for event in events if isinstance(event, dict) and event["type"] in ("ended", "question_closed")]


async def states(gateway: RunningGateway) -> dict[str, str]:
    """The tool of each call and how it ended."""
    ended = {}
    for record in await gateway.journal():
        result = record.result
        ended[record.name] = result.code if isinstance(result, Failure) else "success" if result else str(record.state)
    return ended


# Turns that wait for a person.


@pytest.mark.parametrize("seconds", [AN_HOUR, 0.0], ids=["with its grace", "at once"])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_a_turn_that_waits_for_a_person_goes_on_after_a_stop(
    tmp_path: Path, backend: str, seconds: float
) -> None:
    async with gateway_in(tmp_path, backend) as gateway:
        async with chat_at(gateway, "s", capabilities=["events", "resume"]) as chat:
            await chat.say(WRITE, id="m1")
            [question] = await questions_of(gateway)
            await stop(gateway, seconds)
            assert await chat.device.closed(WAIT) == 1012
            assert ends(chat) == [] and chat.device.unexpected("error") == []
        await gateway.open()
        assert not await gateway.gateway.parts.store.conversations.ends("s", owner=OPERATOR.owner)
        async with chat_at(gateway, "s", capabilities=["events"]) as chat:
            assert await questions_of(gateway) == [question]
            await answer(gateway, question)
            ended = await chat.event("ended")
            assert ended["reason"] == "done" and "Successfully wrote" in str(ended["text"])
        await ends_with(gateway, "Successfully wrote")
        assert await states(gateway) == {"write_file": "success"}


async def test_an_old_client_of_a_turn_that_is_left_is_told_no_end(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, chat_at(gateway, "s") as chat:
        await chat.say(WRITE)
        await questions_of(gateway)
        await stop(gateway)
        assert await chat.device.closed(WAIT) == 1012
        kinds = {frame["type"] for frame in chat.device.heard}
        assert not kinds & {"done", "error", "aborted", "permission_closed"}, kinds


async def test_a_question_is_answered_once_though_the_gateway_is_stopped_again_and_again(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        async with chat_at(gateway, "s", capabilities=["resume"]) as chat:
            await chat.say('call ask_user {"question": "Which?", "options": ["red", "blue"]}\nthen\nIt is {results}')
            asked = await questions_of(gateway)
            for _ in range(3):
                await stop(gateway)
                await gateway.open()
                assert await questions_of(gateway) == asked
        await answer(gateway, asked[0], value="blue")
        await ends_with(gateway, "blue")


async def test_what_a_person_answers_while_the_gateway_stops_is_done_after_the_start(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        async with chat_at(gateway, "s", capabilities=["resume"]) as chat:
            await chat.say(WRITE)
            [question] = await questions_of(gateway)
            await gateway.gateway.drain(AN_HOUR)
            await answer(gateway, question)
            await stop(gateway)
        await gateway.open()
        await ends_with(gateway, "Successfully wrote")


async def test_an_approval_that_leads_to_another_question_waits_again_and_survives_the_next_stop(
    tmp_path: Path,
) -> None:
    async with gateway_in(tmp_path) as gateway:
        add_asking_tool(gateway, reads=True)
        async with chat_at(gateway, "s", capabilities=["resume"]) as chat:
            await chat.say("call pick {}\nthen\nIt is {results}")
            [approval] = await questions_of(gateway)
            await stop(gateway)
        await gateway.open()
        add_asking_tool(gateway, reads=True)
        await answer(gateway, approval)
        [asked] = await questions_of(gateway)
        await stop(gateway)
        await gateway.open()
        add_asking_tool(gateway, reads=True)
        assert await questions_of(gateway) == [asked]
        await answer(gateway, asked, value={"colour": "green"})
        await ends_with(gateway, "green")


def add_asking_tool(gateway: RunningGateway, *, reads: bool) -> None:
    """A tool that asks while it runs."""

    @tool(annotations=Annotations(read_only=reads, destructive=not reads))
    async def pick(ctx: ToolContext) -> Json:
        """Ask for a colour."""
        picked = await ctx.ask("input", "Which colour?", schema=COLOUR)
        return picked.value if picked.decision == "allow" else picked.decision

    gateway.gateway.parts.app.registry.register(pick, Origin("plugin", "test"))


async def test_a_tool_that_changes_things_and_asks_while_it_runs_ends_with_the_gateway(tmp_path: Path) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        add_asking_tool(gateway, reads=False)
        async with chat_at(gateway, "s", capabilities=["events", "resume"]) as chat:
            await chat.say("call pick {}\nthen\nIt is {results}")
            await questions_of(gateway)
            await stop(gateway, 0.0)
            assert (await chat.event("ended"))["fault"] == {"of": "inside", "code": "gateway_stopped"}
        await gateway.open()
        assert await states(gateway) == {"pick": "cancelled"}
        await questions_of(gateway, 0)


async def test_a_question_outlasts_a_reload_and_a_signal(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway, rest_of(gateway) as rest:

        async def asked() -> list[str]:
            return [question["id"] for question in (await rest.get("/api/questions")).json()["questions"]]

        async def is_over() -> bool:
            return bool((await rest.get("/api/sessions/s/state")).json()["state"] == "idle")

        assert (await rest.post("/api/agents", json={"name": "Careful", "mode": "ask_always"})).status_code == 201
        async with FakeDevice(gateway.url, gateway.token) as chat:
            await chat.open(session_id="s", persona="Careful")
            await chat.send({"type": "connect", "role": "chat", "capabilities": ["resume"]})
            await chat.send({"type": "message", "content": "what time is it?"})
            await until(asked)
            questions = await asked()
            assert (await rest.post("/api/settings/reload")).status_code == 200
            assert await asked() == questions
            assert await gateway.terminate() == 0
            assert await chat.closed(WAIT) == 1012
        await gateway.start()
        assert await asked() == questions
        await answer(gateway, questions[0])
        await until(is_over)
        [call] = (await rest.get("/api/calls")).json()["calls"]
        assert call["status"] == "success"


# Rounds in which one call waits and another one runs.


class Napping:
    """A tool that takes a while."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.reached = asyncio.Event()
        self.may_end = asyncio.Event()

        @tool
        async def nap() -> str:
            """Sleep."""
            self.reached.set()
            await self.may_end.wait()
            return "slept well"

        gateway.gateway.parts.app.registry.register(nap, Origin("plugin", "test"))


MIXED: Final = 'call nap {}\ncall ask_user {"question": "Which?", "options": ["red", "blue"]}\nthen\nIt is {results}'


@pytest.mark.parametrize("ends_in_time", [True, False])
async def test_a_call_that_runs_has_its_grace_and_the_question_beside_it_outlasts_the_stop(
    tmp_path: Path, ends_in_time: bool
) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        napping = Napping(gateway)
        async with chat_at(gateway, "s", capabilities=["events", "resume"]) as chat:
            await chat.say(MIXED)
            [question] = await questions_of(gateway)
            await soon(napping.reached.wait())
            stopping = asyncio.create_task(stop(gateway, AN_HOUR if ends_in_time else 0.0))
            await until(lambda: not gateway.gateway.parts.sessions.is_open)
            if ends_in_time:
                napping.may_end.set()
            await stopping
            assert await chat.device.closed(WAIT) == 1012 and ends(chat) == []
        await gateway.open()
        assert await questions_of(gateway) == [question]
        await answer(gateway, question, value="blue")
        await ends_with(gateway, "slept well" if ends_in_time else "cancelled")
        await ends_with(gateway, "blue")


async def test_a_person_who_stops_a_turn_while_the_gateway_stops_is_not_asked_any_more(tmp_path: Path) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        napping = Napping(gateway)
        async with chat_at(gateway, "s", capabilities=["events", "resume"]) as chat:
            await chat.say(MIXED)
            await questions_of(gateway)
            await soon(napping.reached.wait())
            stopping = asyncio.create_task(stop(gateway))
            await until(lambda: not gateway.gateway.parts.sessions.is_open)
            await chat.device.send({"type": "abort"})
            assert (await chat.event("ended"))["reason"] == "aborted"
            await stopping
        await gateway.open()
        await questions_of(gateway, 0)
        assert await states(gateway) == {"nap": "cancelled", "ask_user": "cancelled"}


# Calls without a turn.


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_call_of_a_program_that_waits_for_a_person_stays_open_and_runs_after_the_start(
    tmp_path: Path, accept: str
) -> None:
    async with gateway_in(tmp_path) as gateway:
        async with rest_of(gateway) as rest:
            body = {"args": {"path": "a.txt", "content": "x"}}
            calling = asyncio.create_task(
                rest.post("/api/tools/write_file/call", json=body, headers={"Accept": accept})
            )
            [question] = await questions_of(gateway)
            await stop(gateway)
            said = await soon(calling)
            assert '"pending"' in said.text and "cancelled" not in said.text
            call_id = said.headers["location"].rpartition("/")[2]
        await gateway.open()
        assert await questions_of(gateway) == [question]
        await answer(gateway, question)
        async with rest_of(gateway) as rest:

            async def has_result() -> bool:
                return bool((await rest.get(f"/api/calls/{call_id}")).json()["status"] == "success")

            await until(has_result)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_of_an_mcp_client_that_waits_for_a_person_stays_open_and_runs_after_the_start(
    tmp_path: Path, mode: str
) -> None:
    async with gateway_in(tmp_path) as gateway:
        async with mcp_client(gateway, mode) as client:
            calling = asyncio.create_task(client.call_tool("write_file", {"path": "a.txt", "content": "x"}))
            [question] = await questions_of(gateway)
            await stop(gateway)
            told = await soon(calling)
            assert told.is_error and "goes on when the gateway runs again" in texts(told)
        await gateway.open()
        assert await questions_of(gateway) == [question]
        await answer(gateway, question)
        await until(lambda: (tmp_path / "workspace" / "a.txt").exists())


# Calls of devices (ws.md 6.7 n, p).


async def test_a_turn_does_not_wait_for_a_device_that_can_come_back_and_gets_its_answer_after_the_start(
    tmp_path: Path,
) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        async with (
            device_at(gateway, TOOL, label="arm", capabilities=("resume", "cancel")) as arm,
            chat_at(gateway, "s", capabilities=["events", "resume"]) as chat,
        ):
            access, token = arm.token, resume_token(arm)
            await chat.say(LIFT)
            request = await arm.expect("tool_call_request", WAIT)
            await stop(gateway)
            assert (await chat.device.closed(WAIT), await arm.closed(WAIT)) == (1012, 1012)
            assert ends(chat) == [] and arm.unexpected("tool_cancel") == []
        await gateway.open()
        async with device_at(gateway, TOOL, label="arm", access=access, resume=token) as arm:
            assert (await arm.expect("tool_call_request", WAIT))["id"] == request["id"]
            await arm.answer(request, "lifted")
            await arm.expect("result_acknowledged", WAIT)
            await ends_with(gateway, "lifted")


async def test_an_answer_that_comes_when_its_turn_was_left_is_kept_by_the_device_for_the_next_start(
    tmp_path: Path,
) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        async with (
            device_at(gateway, TOOL, label="arm") as arm,
            chat_at(gateway, "s", capabilities=["resume"]) as chat,
        ):
            access, token = arm.token, resume_token(arm)
            await chat.say(LIFT)
            request = await arm.expect("tool_call_request", WAIT)
            await gateway.gateway.drain(AN_HOUR)
            await arm.answer(request, "lifted")
            await stop(gateway)
            assert await arm.closed(WAIT) == 1012 and arm.unexpected("result_acknowledged") == []
        await gateway.open()
        async with device_at(gateway, label="arm", access=access, resume=token) as arm:
            await arm.answer(request, "lifted")
            await ends_with(gateway, "lifted")


async def test_a_turn_whose_process_ended_right_after_the_result_goes_on_after_the_start(tmp_path: Path) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        async with device_at(gateway, TOOL, label="arm") as arm, chat_at(gateway, "s", capabilities=["resume"]) as chat:
            await chat.say(LIFT)
            call = str((await arm.expect("tool_call_request", WAIT))["id"])
            await stop(gateway)
        await gateway.open()  # from now on the turn waits in the store
        assert await states(gateway) == {"arm__lift": "pending"}
        await stop(gateway)
        async with open_store(tmp_path / "state") as store:  # the result is stored, and nothing else happens
            written = store.ledger.finish(await store.ledger.get(call, owner=OPERATOR.owner), Success("lifted"))
            assert written if isinstance(written, bool) else await written
        await gateway.open()
        await ends_with(gateway, "lifted")


async def test_a_call_of_a_device_that_can_not_come_back_is_cancelled_and_its_turn_aborted(tmp_path: Path) -> None:
    async with (
        gateway_in(tmp_path, agents={"General": {}}) as gateway,
        device_at(gateway, TOOL, label="arm", capabilities=("cancel",)) as arm,
        chat_at(gateway, "s", capabilities=["events", "resume"]) as chat,
    ):
        await chat.say(LIFT)
        request = await arm.expect("tool_call_request", WAIT)
        await stop(gateway, 0.0)
        cancelled = await arm.expect("tool_cancel", WAIT)
        assert (cancelled["id"], cancelled["reason"]) == (request["id"], "shutdown")
        assert (await chat.event("ended"))["fault"] == {"of": "inside", "code": "gateway_stopped"}
        await gateway.open()
        assert await states(gateway) == {"arm__lift": "cancelled"}


async def test_a_program_gets_the_answer_of_a_device_within_the_grace(tmp_path: Path) -> None:
    async with (
        gateway_in(tmp_path, agents={"General": {}}) as gateway,
        device_at(gateway, TOOL, label="arm") as arm,
        rest_of(gateway) as rest,
    ):
        calling = asyncio.create_task(rest.post("/api/tools/arm__lift/call", json={"args": {}}))
        request = await arm.expect("tool_call_request", WAIT)
        stopping = asyncio.create_task(stop(gateway))
        await until(lambda: not gateway.gateway.parts.sessions.is_open)
        await arm.answer(request, "lifted")
        assert (await soon(calling)).json() == {"status": "success", "result": "lifted"}
        await stopping


async def test_a_call_of_a_program_that_outlasts_the_grace_waits_for_the_device_after_the_start(
    tmp_path: Path,
) -> None:
    async with gateway_in(tmp_path, agents={"General": {}}) as gateway:
        async with (
            device_at(gateway, TOOL, label="arm", capabilities=("resume", "cancel")) as arm,
            rest_of(gateway) as rest,
        ):
            access, token = arm.token, resume_token(arm)
            calling = asyncio.create_task(rest.post("/api/tools/arm__lift/call", json={"args": {}}))
            request = await arm.expect("tool_call_request", WAIT)
            await stop(gateway, 0.0)
            told = await soon(calling)
            assert told.status_code == 202 and told.json()["call_id"] == request["id"]
            assert await arm.closed(WAIT) == 1012 and arm.unexpected("tool_cancel") == []
        await gateway.open()
        async with device_at(gateway, label="arm", access=access, resume=token) as arm:
            await arm.answer(request, "lifted")
            await arm.expect("result_acknowledged", WAIT)
        [record] = await gateway.journal()
        assert isinstance(record.result, Success) and record.result.value == "lifted"


# Gateways inside another program.


async def test_a_question_of_a_command_without_a_gateway_is_open_when_the_command_has_ended(tmp_path: Path) -> None:
    given: JsonObject = {"workspace": str(tmp_path / "workspace"), "state": str(tmp_path / "state"), "agents": ASKING}
    inside = InsideGateway(load_settings(None, {"HOME": str(tmp_path)}, given), model="offline")
    await inside.open()
    async with inside.chat("s", "", on_message=lambda _: None) as chat:
        async for event in chat.send("what time is it?"):
            if isinstance(event, QuestionAsked):
                break
    await soon(inside.close())
    async with gateway_in(tmp_path) as gateway:
        [question] = await questions_of(gateway)
        await answer(gateway, question)
        await ends_with(gateway, "done")
