"""A device of one node, called from a chat on another: one result each, whatever happens to either (SPEC K2, K3)."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from handspan.core.results import succeed
from handspan.gateway.nodes.cluster import Cluster
from handspan.testing import GatewayProcess, offer
from tests.nodes.gateways import (
    PATIENT,
    ask,
    chat_at,
    device_at,
    listed,
    nodes_here,
    open_nodes,
    resume_token,
    tools_of,
)
from tests.postgres_engine import run_sql_at, schema_url
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.")


async def test_a_device_of_one_node_is_listed_and_called_on_all(tmp_path: Path) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add")
        async with chat_at(nodes[1]) as chat:
            await chat.say('call phone__add {"a": 1}\nthen\nIt is {results}')
            request = await phone.expect("tool_call_request", PATIENT)
            assert request["name"] == "add" and request["args"] == {"a": 1}
            await phone.answer(request, 41)
            assert "41" in await chat.answer()
            await phone.expect("result_acknowledged", PATIENT, id=request["id"])
        call = await ask(nodes[2], "GET", f"/api/calls/{request['id']}")
        assert call["status"] == "success" and call["origin"] == "device(phone)"
        await phone.drop()
        await until(lambda: _is_gone(nodes))


async def _is_gone(nodes: object) -> bool:
    return not any(["phone__add" in await tools_of(node) for node in nodes.nodes])  # type: ignore[attr-defined]


async def test_the_node_of_a_device_dies_in_the_middle_of_a_call_and_the_device_answers_elsewhere(
    tmp_path: Path,
) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone, chat_at(nodes[1]) as chat:
        await listed(nodes, "phone__add")
        token = resume_token(phone)
        await chat.say("call phone__add {}\nthen\nIt is {results}")
        request = await phone.expect("tool_call_request", PATIENT)
        await nodes[0].kill()
        async with device_at(nodes[2], ADD, resume=token, access=phone.token) as again:
            repeated = await again.expect("tool_call_request", PATIENT, id=request["id"])
            assert repeated["again"] is True
            await again.answer(repeated, 42)
            assert "42" in await chat.answer()
            await again.expect("result_acknowledged", PATIENT, id=request["id"])
            assert nodes.rows(f"SELECT state, status FROM calls WHERE id = '{request['id']}'") == [("done", "success")]
            await listed(nodes, "phone__add", on=(1, 2))


async def test_the_node_of_the_caller_dies_in_the_middle_of_a_call_and_the_session_goes_on_elsewhere(
    tmp_path: Path,
) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add")
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as chat:
            await chat.say("call phone__add {}\nthen\nIt is {results}", id="m1")
            request = await phone.expect("tool_call_request", PATIENT)
            await nodes[1].kill()
        async with chat_at(nodes[2], "s1", capabilities=["resume"]) as chat:
            await chat.say("call phone__add {}\nthen\nIt is {results}", id="m1")
            await phone.answer(request, 43)
            answer = await chat.answer()
            assert "43" in answer, chat.device.heard
        await phone.expect("result_acknowledged", PATIENT, id=request["id"])
        assert [frame for frame in phone.heard if frame["type"] == "tool_call_request"] == [request]
        messages = await ask(nodes[0], "GET", "/api/sessions/s1/messages")
        assert [one["role"] for one in messages["messages"]] == ["user", "assistant"], (
            messages,
            nodes.rows("select seq, body from messages"),
        )


async def test_nats_is_killed_and_started_again_while_calls_wait(tmp_path: Path) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone, chat_at(nodes[1]) as chat:
        await listed(nodes, "phone__add")
        await chat.say("call phone__add {}\ncall phone__add {}\nthen\nThey are {results}")
        first = await phone.expect("tool_call_request", PATIENT)
        second = await phone.expect("tool_call_request", PATIENT)
        nodes.nats.stop()
        await phone.answer(first, 44)  # it falls into the gap
        nodes.nats.start()
        await phone.answer(second, 45)
        answer = await chat.answer()
        assert "44" in answer and "45" in answer
        await phone.expect("result_acknowledged", PATIENT, id=first["id"])
        assert len([frame for frame in phone.heard if frame["type"] == "tool_call_request"]) == 2


async def test_a_newer_connection_of_a_device_on_another_node_replaces_the_older_one(tmp_path: Path) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone, chat_at(nodes[0]) as chat:
        await listed(nodes, "phone__add")
        token = resume_token(phone)
        await chat.say("call phone__add {}\nthen\nIt is {results}")
        request = await phone.expect("tool_call_request", PATIENT)
        async with device_at(nodes[1], ADD, resume=token, access=phone.token) as newer:
            assert await phone.closed(PATIENT) == 4001
            repeated = await newer.expect("tool_call_request", PATIENT, id=request["id"])
            await newer.answer(repeated, 46)
            assert "46" in await chat.answer()
            await listed(nodes, "phone__add")
            devices = (await ask(nodes[2], "GET", "/api/devices"))["devices"]
            assert [(one["label"], one["connected"]) for one in devices] == [("phone", True)]


async def test_a_device_that_was_killed_and_starts_again_at_another_node_has_its_label_again(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, 2) as nodes, chat_at(nodes[0]) as chat:
        async with device_at(nodes[0], ADD) as phone:
            await listed(nodes, "phone__add", on=(0, 1))
            await chat.say("call phone__add {}\nthen\nIt is {results}")
            await phone.expect("tool_call_request", PATIENT)
            await phone.drop()
        await until(lambda: _is_gone(nodes))
        async with device_at(nodes[1], ADD):  # the node where it was waits for it, and has its label
            await listed(nodes, "phone__add", on=(0, 1))
            async with device_at(nodes[0], ADD) as second:
                assert next(one for one in second.heard if one["type"] == "connected")["label"] == "phone_2"


async def test_a_node_that_stops_sends_its_clients_away_and_no_call_fails(tmp_path: Path) -> None:
    async with (
        open_nodes(tmp_path, 2) as nodes,
        device_at(nodes[0], ADD) as phone,
        device_at(nodes[0], ADD, label="idle") as idle,
        chat_at(nodes[1]) as chat,
    ):
        await listed(nodes, "phone__add", "idle__add", on=(0, 1))
        token = resume_token(phone)
        await chat.say("call phone__add {}\nthen\nIt is {results}")
        request = await phone.expect("tool_call_request", PATIENT)
        stopping = asyncio.create_task(nodes[0].terminate(PATIENT))
        assert await idle.closed(PATIENT) == 1012
        await phone.answer(request, 47)
        assert "47" in await chat.answer()
        assert await phone.closed(PATIENT) == 1012
        assert await stopping == 0
        async with device_at(nodes[1], ADD, resume=token, access=phone.token):
            await listed(nodes, "phone__add", on=(1,))
        assert [name for (name,) in nodes.rows("SELECT name FROM nodes")] == ["node1"]


async def test_a_frozen_node_is_taken_over_and_joins_again_when_it_works_on(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, 2) as nodes, device_at(nodes[0], ADD) as phone, chat_at(nodes[1]) as chat:
        await listed(nodes, "phone__add", on=(0, 1))
        before = nodes.rows("SELECT id FROM nodes WHERE name = 'node0'")
        os.kill(nodes[0].pid, signal.SIGSTOP)
        try:
            await until(lambda: _is_gone_from(nodes[1]))
        finally:
            os.kill(nodes[0].pid, signal.SIGCONT)
        await listed(nodes, "phone__add", on=(0, 1))
        assert nodes.rows("SELECT id FROM nodes WHERE name = 'node0'") != before
        await chat.say("call phone__add {}\nthen\nIt is {results}")
        request = await phone.expect("tool_call_request", PATIENT)
        await phone.answer(request, "x" * 600_000)  # too large for a message: it goes by reference
        assert "xxx" in await chat.answer()
        call = await ask(nodes[1], "GET", f"/api/calls/{request['id']}")
        assert call["status"] == "success"


async def test_nothing_that_was_too_large_for_a_message_stays_behind(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], offer("echo", "Say it.")) as phone:
        await listed(nodes, "phone__echo", on=(0, 1))
        calling = asyncio.create_task(nodes[1].call("phone__echo", text="y" * 300_000))
        request = await phone.expect("tool_call_request", PATIENT)
        await phone.answer(request, "x" * 300_000)
        await soon(calling)

        left = "SELECT 1 FROM artifacts WHERE name = 'between nodes'"
        await until(lambda: not run_sql_at(schema_url(tmp_path / "state"), left))


async def test_a_call_of_a_node_that_was_counted_as_lost_ends_with_the_result_that_another_node_got(
    tmp_path: Path,
) -> None:
    slow = offer("slow", "Take a while.", timeout=600)
    async with nodes_here(tmp_path, "all", "all") as nodes, device_at(nodes[0], slow) as phone:
        await listed(nodes, "phone__slow", on=(0, 1))
        calling = asyncio.create_task(nodes[1].call("phone__slow"))
        request = await phone.expect("tool_call_request", PATIENT)
        cluster, book = nodes[0].gateway.parts.nodes, nodes[1].gateway.parts.store.nodes
        assert isinstance(cluster, Cluster) and book is not None
        await cluster._lost_nodes.declare_lost(lost := book.own)
        await until(lambda: book.own != lost)
        await phone.answer(request, 48)
        assert await soon(calling) == succeed(48)
        await until(lambda: not any(peer.is_awaited for peer in nodes[0].gateway.parts.peers))


async def _is_gone_from(node: GatewayProcess) -> bool:
    return "phone__add" not in await tools_of(node)
