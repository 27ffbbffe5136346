"""Channels of several nodes: one listens, and each message is answered once, whichever node stops or dies (SPEC K5)."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.values import Json
from handspan.testing import GatewayProcess, offer
from tests.channels.telegram_server import TelegramServer
from tests.gateway.channels.place import telegram_settings
from tests.nodes.gateways import PATIENT, ThreeNodes, device_at, listed, open_nodes, resume_token
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.", timeout=60, annotations={"read_only": True})
ASK = "call phone__add {}\nthen\nIt is {results}"
_LISTENER = (
    "SELECT nodes.name FROM named_leases JOIN nodes ON nodes.id = node WHERE named_leases.name = 'channel telegram'"
)


async def listener(nodes: ThreeNodes, besides: GatewayProcess | None = None) -> GatewayProcess:
    """The node that listens to Telegram."""
    found: list[GatewayProcess] = []

    async def is_found() -> bool:
        names = [name for (name,) in nodes.rows(_LISTENER)]
        found[:] = [node for number, node in enumerate(nodes.nodes) if f"node{number}" in names and node is not besides]
        return bool(found)

    await until(is_found)
    return found[0]


async def test_one_node_listens_to_telegram_and_another_one_goes_on_when_it_stops(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        channels: Json = {"telegram": telegram_settings(telegram)}
        async with open_nodes(tmp_path, 2, channels=channels) as nodes:
            first = await listener(nodes)
            other = next(node for node in nodes.nodes if node is not first)
            async with device_at(first, ADD) as phone:
                await listed(nodes, "phone__add", on=(0, 1))
                telegram.write(ASK)
                request = await phone.expect("tool_call_request", PATIENT)
                token, stopping = resume_token(phone), asyncio.create_task(first.terminate(PATIENT))
                assert await listener(nodes, besides=first) is other
                assert await phone.closed(PATIENT) == 1012
            async with device_at(other, ADD, resume=token, access=phone.token) as phone:
                again = await phone.expect("tool_call_request", PATIENT)
                assert again["id"] == request["id"]
                await phone.answer(again, 71)
                assert "71" in await telegram.until_sent(1)
                assert await soon(stopping) == 0
                telegram.write(ASK)
                await phone.answer(await phone.expect("tool_call_request", PATIENT), 72)
                assert "72" in await telegram.until_sent(2)
            assert len(telegram.sent) == 2
            # Telegram has the answer before the node knows that.
            await until(lambda: nodes.rows("SELECT DISTINCT state FROM channel_inbox") == [("done",)])
            await until(lambda: nodes.rows("SELECT name FROM named_leases WHERE name LIKE 'message %'") == [])
