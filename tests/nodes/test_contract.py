"""What every filling of `Nodes` answers: a gateway alone, and one of several. No part asks which of them it has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.core.nodes import EntryCode, Nodes
from handspan.gateway.parts import GatewayParts
from handspan.testing.gateway import running_gateway
from handspan.testing.spoken import Spoken
from tests.nodes.gateways import nodes_here
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

CODE = EntryCode("a" * 64, "code", "ann", ("device",))


@pytest.fixture(params=["alone", "one of several"])
async def parts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GatewayParts]:
    """The parts of an open gateway."""
    if request.param == "alone":
        async with running_gateway(tmp_path, model=Spoken()) as gateway:
            yield gateway.gateway.parts
    else:
        async with nodes_here(tmp_path, "all") as (gateway,):
            yield gateway.gateway.parts


@pytest.fixture
def nodes(parts: GatewayParts) -> Nodes:
    return parts.nodes


async def test_a_secret_stays_the_same(nodes: Nodes) -> None:
    secret = await soon(nodes.secret("resume"))
    assert len(secret) >= 32 and await soon(nodes.secret("resume")) == secret


async def test_an_open_node_takes_all_clients_and_runs_turns(nodes: Nodes) -> None:
    assert nodes.runs_turns and set(nodes.roles) == {"chat", "device"}
    assert not nodes.is_draining and not nodes.is_cut_off


async def test_a_code_is_taken_once(nodes: Nodes) -> None:
    await soon(nodes.codes.add(CODE, 60.0, 5, 16))
    assert await soon(nodes.codes.take("b" * 64, "code")) is None
    assert await soon(nodes.codes.take(CODE.hash, "link")) is None
    assert await soon(nodes.codes.take(CODE.hash, "code")) == CODE
    assert await soon(nodes.codes.take(CODE.hash, "code")) is None


async def test_wrong_guesses_use_a_code_up(nodes: Nodes) -> None:
    await soon(nodes.codes.add(CODE, 60.0, 2, 16))
    for _ in range(2):
        await soon(nodes.codes.count_wrong("code"))
    assert await soon(nodes.codes.take(CODE.hash, "code")) is None


async def test_only_the_last_codes_stay_open(nodes: Nodes) -> None:
    codes = [EntryCode(f"{number:064}", "code", "ann", ()) for number in range(3)]
    for code in codes:
        await soon(nodes.codes.add(code, 60.0, 5, 2))
    assert [await soon(nodes.codes.take(code.hash, "code")) for code in codes] == [None, *codes[1:]]


async def test_a_request_that_no_node_answers_yet_is_this_nodes(nodes: Nodes) -> None:
    requests = nodes.work.requests("a kind")
    claim = await soon(requests.claim("ann", "key", b"asked", 60.0))
    assert claim.is_own and claim.fingerprint == b"asked" and claim.answer is None

    async def encode() -> bytes | None:
        return None

    await soon(requests.answer("ann", "key", encode))
    assert (await soon(requests.claim("ann", "key", b"asked", 60.0))).is_own


async def test_work_that_no_other_node_has_is_this_nodes(nodes: Nodes) -> None:
    assert await soon(nodes.work.hold("a work")) and await soon(nodes.work.hold("a work"))
    await soon(nodes.work.leave("a work"))
    assert await soon(nodes.work.hold("a work"))


async def test_left_work_is_free_at_the_second_look_at_the_latest(nodes: Nodes) -> None:
    looks = [list(nodes.work.free(["one", "two"])) for _ in range(2)]
    assert looks[1] == ["one", "two"]
    assert set(nodes.work.free(["one", "three"])) >= {"one"}


async def test_a_work_is_done_to_its_end_and_its_failure_is_its_callers(nodes: Nodes) -> None:
    done = asyncio.Event()

    async def work() -> None:
        done.set()

    async def fail() -> None:
        raise ValueError("it failed")

    assert await soon(nodes.work.do_once("a work", work, lambda: None)) and done.is_set()
    with pytest.raises(ValueError, match="it failed"):
        await soon(nodes.work.do_once("another work", fail, lambda: None))


async def test_a_cancelled_work_does_not_go_on(nodes: Nodes) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    doing = asyncio.create_task(nodes.work.do_once("a work", work, lambda: None))
    await soon(begun.wait())
    doing.cancel()
    await soon(asyncio.gather(doing, return_exceptions=True))
    assert doing.cancelled() and ended.is_set()


async def test_tries_here_are_not_counted_twice(nodes: Nodes) -> None:
    counted: list[str] = []
    tell = nodes.work.share_tries("a kind", counted.append)
    tell("192.0.2.1")
    await until(lambda: not counted)
    assert counted == []


async def test_a_session_is_followed_until_it_is_not(nodes: Nodes) -> None:
    first, second = nodes.bus.follow_session("s"), nodes.bus.follow_session("s")
    first()
    second()


async def test_an_event_that_has_happened_is_not_waited_for(nodes: Nodes) -> None:
    event = asyncio.Event()
    event.set()
    await soon(nodes.pause(3600.0, event))
    await soon(nodes.pause(0.01, asyncio.Event()))
    assert event.is_set()


async def test_nothing_is_elsewhere_as_long_as_no_other_node_has_it(nodes: Nodes) -> None:
    assert not await soon(nodes.is_held_elsewhere("no such call"))
    assert not await soon(nodes.abort_turn("no such session", "ann"))
    assert not nodes.dismiss("ann", "phone", "it was forgotten")
    nodes.acknowledge("no such client", "no such call")
    await soon(nodes.follow("ann"))


async def test_what_is_listed_of_the_nodes_is_this_one_or_none(nodes: Nodes) -> None:
    listed = await soon(nodes.nodes())
    assert all(one.id == nodes.own for one in listed)


async def test_a_mcp_server_is_this_nodes_as_long_as_no_other_runs_it(parts: GatewayParts) -> None:
    share = parts.nodes.share_server("files")
    await soon(share.release())
    await soon(share.close())


async def test_an_mcp_request_without_a_session_is_answered_here(parts: GatewayParts) -> None:
    async def here(scope: object, receive: object, send: object) -> None: ...

    routes = parts.nodes.route_sessions(here, 1000)
    assert routes.stamp("an id").startswith("an id")
