"""Owners and tokens across nodes: what is forged, revoked or another owner's changes and shows nothing (SPEC K5)."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import nats
import pytest

from handspan.bus.link import PREFIX
from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.core.nodes import ClientNode
from handspan.gateway.nodes.cluster import Cluster
from handspan.sources.nodes import messages
from handspan.testing import FakeDevice, offer
from handspan.testing.gateway import RunningGateway
from tests.bus.test_senders import recording
from tests.nodes.gateways import PATIENT, ask, device_at, listed, nodes_here, tools_of
from tests.nodes.test_mcp_sessions import post
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.", timeout=60)


async def lists(node: RunningGateway, token: str) -> bool:
    """Whether a node lists the phone's tool for the owner of this token."""
    return "phone__add" in await tools_of(node, token)


def forgeries(client: ClientNode, owner: str, sender: str) -> list[tuple[str, bytes]]:
    """Messages about a client and a session of ann, as if they were of this owner."""
    call = b'{"type":"tool_call_request","id":"forged","name":"add","args":{}}'
    found: list[tuple[str, msgspec.Struct]] = [
        (messages.TO_CLIENT, messages.ToClient(sender, owner, client.peer, client.epoch, call)),
        (messages.GONE, messages.ClientLost(owner, client.peer, client.epoch, True, "forged")),
        (messages.DISMISS, messages.ClientDismissed(owner, client.peer, "forged")),
        (messages.TURN, messages.TurnOffered(owner, "s1")),
    ]
    return [(kind, messages.encode(one)) for kind, one in found]


async def test_owners_stay_apart_and_a_message_with_a_forged_owner_or_node_changes_nothing(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as (here, there):
        ann, bob = [await here.gateway.parts.auth.issue(owner, ("chat", "device", "tools")) for owner in ("ann", "bob")]
        async with FakeDevice(there.url, ann) as phone:
            await phone.connect(role="device", label="phone", capabilities=["resume"])
            await phone.register(ADD)
            session = {"X-Session-Id": "s1"}
            await ask(there, "POST", "/webhook", {"message": "hello"}, token=ann, extra_headers=session)
            await until(lambda: lists(here, ann))
            assert not await lists(here, bob) and not await lists(there, bob)
            other = await ask(here, "POST", "/api/tools/phone__add/call", {"args": {}}, token=bob)
            assert "tool_not_found" in str(other)
            assert (await ask(here, "GET", "/api/sessions/s1/messages", token=bob))["code"] == "not_found"
            # A node would have to be broken to sign such messages: the owner is checked all the same.
            book, cluster = here.gateway.parts.store.nodes, here.gateway.parts.nodes
            assert book is not None and isinstance(cluster, Cluster)
            (client,) = await book.client_nodes(["ann"])
            for node in (client.node, book.own):
                for kind, body in forgeries(client, "bob", book.own):
                    cluster.link.send(node, kind, body)
            await cluster.link.flush()
            await publish_unsigned(there, client, ann)
            # All is as before.
            called = asyncio.create_task(ask(here, "POST", "/api/tools/phone__add/call", {"args": {}}, token=ann))
            request = await phone.expect("tool_call_request", PATIENT)
            await phone.answer(request, 81)
            assert (await soon(called))["result"] == 81
            assert [one["id"] for one in phone.heard if one["type"] == "tool_call_request"] == [request["id"]]
            assert await lists(here, ann) and await lists(there, ann)
            assert await there.gateway.parts.store.conversations.load("s1", owner="ann")


async def publish_unsigned(node: RunningGateway, client: ClientNode, token: str) -> None:
    """Let a stranger on NATS send what only nodes may send, with the right owner, and wait until it has arrived."""
    cluster = node.gateway.parts.nodes
    assert isinstance(cluster, Cluster)
    stranger: Any = await nats.connect(node.gateway.settings.cluster.url)
    try:
        forged = forgeries(client, "ann", client.node)
        for kind, body in forged:
            await stranger.publish(f"{PREFIX}.n.{client.node}.{kind}", b"\0" * 16 + body)
        for stored in await node.gateway.parts.store.tokens.all(owner="ann"):
            revoked = msgspec.msgpack.encode(TokenRevoked("ann", stored.hash))
            await stranger.publish(f"{PREFIX}.all", b"\0" * 16 + revoked)
        await stranger.flush()
        await until(lambda: cluster.link.signing.forged >= len(forged) + 1)
    finally:
        await stranger.close()


async def test_recorded_messages_that_are_sent_again_reach_no_device_and_no_session(tmp_path: Path) -> None:
    async with (
        nodes_here(tmp_path, "all", "all") as (here, there),
        device_at(here, ADD) as phone,
        recording(here.gateway.settings.cluster.url) as recorder,
    ):
        await listed((here, there), "phone__add", on=(0, 1))
        path = "/api/tools/phone__add/call"
        called = asyncio.create_task(ask(there, "POST", path, {"args": {}}))
        await phone.answer(await phone.expect("tool_call_request", PATIENT), 81)
        assert (await soon(called))["result"] == 81
        # A session of the older era of MCP: its request is passed on to its node.
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        session = (await post(here, here.token, "initialize", hello)).headers["mcp-session-id"]
        call = {"name": "phone__add", "arguments": {}}
        passed_on = asyncio.create_task(post(there, here.token, "tools/call", call, session))
        await phone.answer(await phone.expect("tool_call_request", PATIENT), 82)
        assert "82" in (await soon(passed_on)).text
        assert {"to", "from", "http", "http_part"} <= {one[0].rpartition(".")[2] for one in recorder.recorded}
        nodes = [node.gateway.parts.nodes for node in (here, there)]
        links = [node.link for node in nodes if isinstance(node, Cluster)]
        count = len(recorder.recorded)
        to_nodes = [subject for subject, _, _ in recorder.recorded[:count] if subject.startswith(f"{PREFIX}.n.")]
        await recorder.replay(count)
        await until(lambda: sum(link.signing.repeated for link in links) >= len(to_nodes))
        called = asyncio.create_task(ask(there, "POST", path, {"args": {}}))
        await phone.answer(await phone.expect("tool_call_request", PATIENT), 83)
        assert (await soon(called))["result"] == 83
        assert len([one for one in phone.heard if one["type"] == "tool_call_request"]) == 3


async def test_a_revoked_token_is_dead_on_every_node_even_if_the_message_about_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes_here(tmp_path, "all", "all") as (here, there):
        token = await here.gateway.parts.auth.issue("ann", ("chat", "device", "tools"))
        async with FakeDevice(there.url, token) as phone:
            await phone.connect(role="device", label="phone")
            assert (await ask(there, "GET", "/api/tools", token=token))["tools"]
            assert isinstance(here.gateway.parts.nodes, Cluster)
            monkeypatch.setattr(here.gateway.parts.nodes.link, "publish", lambda subject, body: None)
            (stored,) = await here.gateway.parts.store.tokens.all(owner="ann")
            assert await here.gateway.parts.auth.revoke(stored.hash, "ann")
            assert await phone.closed(PATIENT) == 1008
            assert (await ask(there, "GET", "/api/tools", token=token))["code"] == "unauthorized"


@pytest.mark.parametrize("was", ["its clock is wrong", "its database was away"])
async def test_a_node_finds_revoked_tokens_whatever_its_clock_says_and_however_long_the_database_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str
) -> None:
    async with nodes_here(tmp_path, "all") as (node,):
        token = await node.gateway.parts.auth.issue("ann", ("chat", "device", "tools"))
        book = node.gateway.parts.store.nodes
        assert book is not None
        async with FakeDevice(node.url, token) as phone:
            await phone.connect(role="device", label="phone")
            look, misses = book.changes, 0

            async def fail(seconds: float) -> list[tuple[str, str]]:
                nonlocal misses
                misses += 1
                raise StoreError("the database is away")

            if was == "its clock is wrong":
                ahead = SimpleNamespace(time=lambda: time.time() + 3600, monotonic=time.monotonic)
                monkeypatch.setattr("handspan.gateway.nodes.heartbeat.time", ahead)
            else:
                monkeypatch.setattr("handspan.gateway.nodes.heartbeat._REVOKED_OVERLAP", 0.1)
                monkeypatch.setattr(book, "changes", fail)
                await until(lambda: misses)
            (stored,) = await node.gateway.parts.store.tokens.all(owner="ann")
            assert await node.gateway.parts.store.tokens.revoke(stored.hash, owner="ann")  # no event tells of it
            misses = 0
            if was == "its database was away":
                await until(lambda: misses >= 2)
                monkeypatch.setattr(book, "changes", look)
            assert await phone.closed(PATIENT) == 1008
