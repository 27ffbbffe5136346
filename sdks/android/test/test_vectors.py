"""Every case of a device, by the Kotlin client over a real socket."""

import asyncio
from pathlib import Path

import pytest
from sdks.android.test.kotlin_client import Jvm, KotlinClient
from tests.vectors.cases import Case, cases
from tests.vectors.walking import walk
from websockets.asyncio.server import ServerConnection, serve

pytestmark = pytest.mark.anyio

CASES = {name: case for name, case in cases("device") if case.client.get("role") != "chat"}
"""Without those of a chat: the kit is a device."""


async def test_client_does_what_the_cases_say(jvm: Jvm, tmp_path: Path) -> None:
    failed = []
    for number, (name, case) in enumerate(CASES.items()):
        try:
            await play(jvm, case, tmp_path / f"{number}.json")
        except (AssertionError, TimeoutError) as error:
            failed.append(f"{name}: {error!r}")
    assert failed == []


async def play(jvm: Jvm, case: Case, state: Path) -> None:
    links: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def take(link: ServerConnection) -> None:
        assert link.request is not None
        assert link.request.path == "/prefix/ws/chat"
        assert link.request.headers["Authorization"] == "Bearer token"
        links.put_nowait(link)
        await link.wait_closed()

    async with serve(take, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        player = KotlinClient(jvm, case, port, state, links)
        try:
            await walk(case, player)
        finally:
            await player.close()


async def test_a_walk_fails_where_the_client_does_something_else(jvm: Jvm, tmp_path: Path) -> None:
    case = CASES["calls: a call is answered with what the code returns"]
    wrong = Case(case.name, case.clauses, [*case.steps, {"runs": {"battery": 2}}], tools=case.tools)
    with pytest.raises(AssertionError, match="'battery': 2"):
        await play(jvm, wrong, tmp_path / "state.json")
