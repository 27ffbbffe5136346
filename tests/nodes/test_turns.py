"""Turns of a node that stops go on at another one, and a node for devices runs none (SPEC K3, K6)."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from handspan.core.values import Json, JsonObject
from handspan.gateway.nodes import lost_nodes
from handspan.testing import FakeDevice, offer
from tests.nodes.gateways import PATIENT, Reachable, ThreeNodes, ask, chat_at, device_at, listed, nodes_here, open_nodes
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.", timeout=60)
AN_HOUR = 3600.0
"""A stop that takes so long is waited for in vain: each test gives up before."""
ASKING = 'call ask_user {"question": "Which?", "options": ["red", "blue"]}\nthen\nIt is {results}'
TWO_CALLS = "call phone__add {}\nthen\ncall phone__add {}\nthen\nIt is {results}"


async def drains(nodes: ThreeNodes, name: str) -> bool:
    """Whether the others know that this node stops."""
    return nodes.rows(f"SELECT draining FROM nodes WHERE name = '{name}'") == [(True,)]


async def test_an_edge_node_runs_no_turns_and_says_which_nodes_do(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "agent", "edge") as nodes, device_at(nodes[1], ADD) as phone:
        agent, edge = nodes
        message: JsonObject = {"message": "hello"}
        refused = await ask(edge, "POST", "/webhook", message)
        assert refused["code"] == "no_turns_here" and "role agent or all" in refused["error"]
        run = run_of("hello")
        for path in ("invoke", "stream"):
            assert "role agent or all" in str(await ask(edge, "POST", f"/v1/graph/{path}", run))
        async with FakeDevice(edge.url, edge.token) as person:
            assert "no clients of the role 'chat'" in str(await refusal(person, role="chat"))
        async with FakeDevice(agent.url, agent.token) as other:
            assert "no clients of the role 'device'" in str(await refusal(other, role="device", label="other"))
        await listed(nodes, "phone__add", on=(0, 1))
        # A call by HTTP is no turn, and the answer of a device is passed on.
        called = asyncio.create_task(ask(edge, "POST", "/api/tools/phone__add/call", {"args": {}}))
        await phone.answer(await phone.expect("tool_call_request", PATIENT), 65)
        assert (await soon(called))["result"] == 65


async def refusal(device: FakeDevice, **frame: Json) -> JsonObject:
    """What a client is told that may not connect here."""
    await device.open()
    await device.send({"type": "connect", **frame})
    return await device.expect("error", PATIENT)


async def test_turns_of_a_node_that_stops_go_on_at_another_one_and_every_client_gets_the_answer(tmp_path: Path) -> None:
    async with (
        open_nodes(tmp_path, 2) as nodes,
        device_at(nodes[1], ADD) as phone,
        chat_at(nodes[0], "s1", capabilities=["resume"]) as speaker,
        chat_at(nodes[1], "s1", capabilities=["events"]) as watcher,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        await speaker.say(TWO_CALLS, id="m1")
        of_chat = await phone.expect("tool_call_request", PATIENT)
        program = asyncio.create_task(
            ask(nodes[0], "POST", "/webhook", {"message": TWO_CALLS}, extra_headers={"X-Session-Id": "s2"})
        )
        of_program = await phone.expect("tool_call_request", PATIENT)
        stopping = asyncio.create_task(nodes[0].terminate(PATIENT))
        await until(lambda: drains(nodes, "node0"))
        await phone.answer(of_chat, 61)
        await phone.answer(of_program, 62)
        assert await speaker.device.closed(PATIENT) == 1012
        # The second calls come from the other node. Both turns go on from the store.
        for number in (63, 64):
            await phone.answer(await phone.expect("tool_call_request", PATIENT), number)
        ended = await watcher.event("ended")
        assert "63" in str(ended) or "64" in str(ended)
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as again:
            await again.say(TWO_CALLS, id="m1")  # it comes back, and does not know yet whether it was heard
            assert await again.answer() == ended["text"]
        answered = await soon(program)
        assert answered["session_id"] == "s2" and str(answered["response"]).startswith("It is ")
        assert await soon(stopping) == 0
        requests = [frame["id"] for frame in phone.heard if frame["type"] == "tool_call_request"]
        assert len(set(requests)) == len(requests) == 4
        for session in ("s1", "s2"):
            kinds = nodes.rows(
                "SELECT substr(convert_from(body, 'UTF8'), 10, 4) FROM messages"
                f" WHERE session = '{session}' ORDER BY seq"
            )
            assert [kind for (kind,) in kinds] == ["user", "assi", "resu", "assi", "resu", "assi"]
        assert nodes.rows("SELECT DISTINCT state, run FROM sessions") == [("idle", None)]


async def test_a_device_call_that_takes_longer_than_the_drain_stays_open_and_another_node_gets_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_nodes, "_RECOVER_SECONDS", 0.1)
    one_call = "call phone__add {}\nthen\nIt is {results}"
    async with (
        nodes_here(tmp_path, "all", "all", drain=0.1) as nodes,
        device_at(nodes[1], ADD, capabilities=("resume", "cancel")) as phone,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        async with chat_at(nodes[0], "s1", capabilities=["resume"]) as speaker:
            await speaker.say(one_call, id="m1")
            request = await phone.expect("tool_call_request", PATIENT)
            await soon(nodes[0].close(0.1))
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as again:
            await again.say(one_call, id="m1")
            await phone.answer(request, 70)
            assert "70" in await again.answer()
        await phone.expect("result_acknowledged", PATIENT, id=request["id"])
        assert [frame["type"] for frame in phone.heard if frame.get("id") == request["id"]] == [
            "tool_call_request",
            "result_acknowledged",
        ]


async def test_a_client_without_events_that_comes_back_on_another_node_is_sent_the_end_of_its_turn_once(
    tmp_path: Path,
) -> None:
    one_call = "call phone__add {}\nthen\nIt is {results}"
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add", on=(0, 1))
        async with chat_at(nodes[0], "s1", capabilities=["resume"]) as speaker:
            await speaker.say(one_call, id="m1")
            request = await phone.expect("tool_call_request", PATIENT)
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as again:
            await again.say(one_call, id="m1")
            await again.device.expect("message_accepted", PATIENT)
            await phone.answer(request, 71)
            assert "71" in await again.answer()
            await again.say("hello", id="m2")
            assert "hello" in await again.answer()
            await again.say(one_call, id="m1")  # it is known, and the client has its end
            await again.device.expect("message_accepted", PATIENT)
            await again.say("bye", id="m3")
            assert "bye" in await again.answer()


async def is_idle(nodes: ThreeNodes, session: str) -> bool:
    """Whether the turn of this session is over."""
    return nodes.rows(f"SELECT state FROM sessions WHERE id = '{session}'") == [("idle",)]


@pytest.mark.parametrize("capability", ["events", "resume"])
async def test_a_turn_that_another_node_took_over_from_a_frozen_one_ends_once_and_as_it_did_there(
    tmp_path: Path, capability: str
) -> None:
    one_call = "call phone__add {}\nthen\nIt is {results}"
    async with (
        open_nodes(tmp_path, 2) as nodes,
        device_at(nodes[1], ADD) as phone,
        chat_at(nodes[0], "s1", capabilities=[capability]) as speaker,
        chat_at(nodes[1], "s1", capabilities=["events"]) as watcher,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        program = asyncio.create_task(
            ask(nodes[0], "POST", "/webhook", {"message": one_call}, extra_headers={"X-Session-Id": "s2"})
        )
        of_program = await phone.expect("tool_call_request", PATIENT)
        await speaker.say(one_call)
        of_chat = await phone.expect("tool_call_request", PATIENT)
        os.kill(nodes[0].pid, signal.SIGSTOP)
        try:
            await until(lambda: nodes.rows("SELECT name FROM nodes") == [("node1",)])
            await phone.answer(of_chat, 72)
            await phone.answer(of_program, 73)
            ended = await watcher.event("ended")
            assert ended["reason"] == "done" and "72" in str(ended)
            await until(lambda: is_idle(nodes, "s2"))
        finally:
            os.kill(nodes[0].pid, signal.SIGCONT)
        if capability == "events":
            assert await speaker.event("ended") == ended
        else:
            assert await speaker.answer() == ended["text"]
        assert "73" in str((await soon(program))["response"])
        await speaker.say("hello")
        await until(lambda: "hello" in str(speaker.device.heard[-3:]) and is_idle(nodes, "s1"))
        for chat in (speaker, watcher):
            heard = [one for one in chat.device.heard if str(of_chat["id"]) in str(one)]
            results = [one for one in heard if "call_finished" in str(one) or one["type"] == "tool_result"]
            assert len(results) == 1
            assert not [one for one in chat.device.heard if one["type"] == "error" or "'error'" in str(one)]


async def test_a_request_with_a_key_is_done_once_and_answered_alike_on_every_node(tmp_path: Path) -> None:
    one_call = "call phone__add {}\nthen\nIt is {results}"
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add", on=(0, 1))

        async def both(
            path: str, body: JsonObject, other: JsonObject, key: str, result: int
        ) -> tuple[JsonObject, JsonObject]:
            """The answers of both nodes: the second one is asked while the first is at work, and once more."""
            request: dict[str, Any] = {"body": body, "extra_headers": {key: path}, "token": nodes[0].token}
            first = asyncio.create_task(ask(nodes[0], "POST", path, **request))
            call = await phone.expect("tool_call_request", PATIENT)
            second = asyncio.create_task(ask(nodes[1], "POST", path, **request))
            assert "key" in str(await ask(nodes[1], "POST", path, **{**request, "body": other})).lower()
            await phone.answer(call, result)
            answers = await soon(asyncio.gather(first, second))
            for answer in answers:
                answer.pop("metadata", None)  # each request has an id
            assert answers[1].items() <= (await ask(nodes[1], "POST", path, **request)).items()
            return answers[0], answers[1]

        first, second = await both("/webhook", {"message": one_call}, {"message": "other"}, "X-Idempotency-Key", 66)
        assert "66" in str(first) and second == first | {"status": "duplicate", "idempotent": True}
        first, second = await both(
            "/api/tools/phone__add/call", {"args": {}}, {"args": {"a": 2}}, "Idempotency-Key", 67
        )
        assert first["result"] == second["result"] == 67
        run = run_of(one_call)
        first, second = await both("/v1/graph/invoke", run, run_of("other"), "Idempotency-Key", 68)
        assert "68" in str(first["data"]) and second["data"] == first["data"]
        lines = asyncio.gather(*(stream_of(node, run, nodes[0].token) for node in nodes))
        await phone.answer(await phone.expect("tool_call_request", PATIENT), 69)
        ours, theirs = await soon(lines)
        assert ours == theirs and "69" in ours
        assert len([frame for frame in phone.heard if frame["type"] == "tool_call_request"]) == 4


def run_of(text: str) -> JsonObject:
    """A request of a page, which begins a run."""
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}


async def stream_of(node: Reachable, run: JsonObject, token: str) -> str:
    """All lines of a run that is streamed under one key."""
    async with httpx2.AsyncClient(timeout=WAIT) as client:
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "stream"}
        return (await client.post(f"{node.url}/v1/graph/stream", json=run, headers=headers)).text


async def test_a_turn_that_waits_for_a_person_delays_no_stop_and_goes_on_at_another_node(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all", drain=AN_HOUR) as nodes:
        async with chat_at(nodes[0], "s1", capabilities=["events", "resume"]) as speaker:
            await speaker.say(ASKING, id="m1")
            program = asyncio.create_task(
                ask(nodes[0], "POST", "/webhook", {"message": ASKING}, extra_headers={"X-Session-Id": "s2"})
            )
            await until(lambda: _are_open(nodes[1], 2))
            await soon(nodes[0].close(AN_HOUR))
            assert await speaker.device.closed(PATIENT) == 1012
            assert "the turn is not over" in (await soon(program))["error"]
        async with chat_at(nodes[1], "s1", capabilities=["events", "resume"]) as again:
            await _answer_all(nodes[1])
            assert "blue" in str((await again.event("ended"))["text"])
        await until(lambda: _is_idle(nodes[1], "s2"))


async def test_a_person_need_not_wait_until_the_node_that_asked_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_nodes, "_RECOVER_SECONDS", AN_HOUR)
    async with (
        nodes_here(tmp_path, "all", "all", drain=AN_HOUR) as nodes,
        device_at(nodes[1], ADD) as phone,
        chat_at(nodes[0], "s1", capabilities=["resume"]) as asked,
        chat_at(nodes[0], "s2", capabilities=["resume"]) as working,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        await asked.say(ASKING, id="m1")
        await working.say("call phone__add {}\nthen\nIt is {results}", id="m2")
        request = await phone.expect("tool_call_request", PATIENT)
        await until(lambda: _are_open(nodes[1], 1))
        stopping = asyncio.create_task(nodes[0].close(AN_HOUR))
        await until(lambda: _has_state(nodes[1], "s1", "waiting"))
        await _answer_all(nodes[1])
        await until(lambda: _is_idle(nodes[1], "s1"))
        assert not stopping.done()
        await phone.answer(request, 61)
        await soon(stopping)
        await until(lambda: _is_idle(nodes[1], "s2"))


async def _answer_all(node: Reachable) -> None:
    for question in (await ask(node, "GET", "/api/questions"))["questions"]:
        path = f"/api/questions/{quote(question['id'], safe='')}/answer"
        await ask(node, "POST", path, {"decision": "allow", "value": "blue"})


async def _are_open(node: Reachable, count: int) -> bool:
    return len((await ask(node, "GET", "/api/questions"))["questions"]) == count


async def _is_idle(node: Reachable, session: str) -> bool:
    return await _has_state(node, session, "idle")


async def _has_state(node: Reachable, session: str, state: str) -> bool:
    return bool((await ask(node, "GET", f"/api/sessions/{session}/state"))["state"] == state)
