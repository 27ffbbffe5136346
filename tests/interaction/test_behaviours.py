"""Each behaviour through every door: one table, real sockets and processes (SPEC E1, E2, E3, E8, X1, X2)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from handspan.core.errors import ERROR_TYPES
from handspan.core.function_tool import tool
from handspan.core.principals import Origin
from handspan.testing import RunningGateway, Spoken, running_gateway
from tests.interaction.behaviours import BEHAVIOURS, CAN_NOT_STOP, DOORS
from tests.interaction.doors import Asked, Door, Envelope, StoppingDoor
from tests.interaction.doors.rest import http_client
from tests.interaction.person import answering
from tests.interaction.tools import change, holding, phone, table_tools
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, schema_url
from tests.thoroughness import IS_DEEP
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("behaviours")]  # one worker, so one gateway

CELLS = [(row, door) for row, behaviour in BEHAVIOURS.items() for door in DOORS if door not in behaviour.missing]
_CALM: Final = [cell for cell in CELLS if not BEHAVIOURS[cell[0]].is_hasty]
CELLS_IN_POSTGRES = _CALM if IS_DEEP else [cell for place, cell in enumerate(_CALM) if place % 9 == 0]
"""A short part of the table in `make test`, the whole in `make chaos`."""
SETTINGS: dict[str, Any] = {
    "agents": {
        "Narrow": {"tools": ["give"]},
        "Reader": {"mode": "read_only"},
        "Careful": {"mode": "ask_always"},
    },
    "tools": {
        "disabled": ["switched_off", "origin:plugin(dark)"],
        "url_policy": {"allow_private": True},
    },
    "hooks": {
        "chain": [
            {"type": "rate_limit", "config": {"per_minute": 0, "tools": ["cancelled_by_hook"]}},
            {"type": "path_prefix", "config": {"prefix": "below", "tools": ["give_path"]}},
        ]
    },
}
MARKS = ("source", "note")
"""What a model is told besides where a result comes from outside (SPEC S4)."""
DECISIONS = {"give": "allow", "change": "deny", "listen": "allow", "photograph": "deny"}


class OpenDoors:
    """A gateway with the tools of the table, and every door of it."""

    def __init__(self, gateway: RunningGateway, doors: dict[str, Door], http: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.doors = doors
        self.http = http
        self.told: dict[str, list[Envelope]] = {}
        """What came back through the first door that a row was looked at."""

    async def journal(self, token: str = "") -> list[dict[str, Any]]:
        """The newest calls of the operator, or of the owner of this token."""
        headers = {"authorization": f"Bearer {token or self.gateway.token}"}
        calls: list[dict[str, Any]] = (await self.http.get("/api/calls?limit=8", headers=headers)).json()["calls"]
        return calls


@asynccontextmanager
async def open_doors(folder: Path, store: dict[str, object] | None = None, **tools: Any) -> AsyncIterator[OpenDoors]:
    settings = {**SETTINGS, "store": store or {}, "tools": {**SETTINGS["tools"], **tools}}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway(folder, model=Spoken(), **settings))
        registry = gateway.gateway.parts.app.registry
        for made in table_tools():
            registry.register(made, Origin("plugin", "table"))
        registry.register(tool(name="of_dark_origin")(change.function), Origin("plugin", "dark"))
        doors = {name: await stack.enter_async_context(opened(gateway)) for name, opened in DOORS.items()}
        http = await stack.enter_async_context(http_client(gateway))
        yield OpenDoors(gateway, doors, http)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """For the whole file: it has one gateway."""
    return "asyncio"


@pytest.fixture(scope="module")
async def calm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenDoors]:
    """Where a person answers questions."""
    folder = tmp_path_factory.mktemp("calm")
    async with open_doors(folder) as there, phone(there.gateway), answering(there.gateway, DECISIONS):
        with (folder / "workspace" / "huge.txt").open("wb") as huge:
            huge.truncate(20_000_000)
        yield there


@pytest.fixture(scope="module")
async def hasty(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenDoors]:
    """Where questions stay open for a moment, and nobody answers."""
    async with open_doors(tmp_path_factory.mktemp("hasty"), question_timeout=0.05) as there:
        yield there


@pytest.fixture(scope="module")
async def in_postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenDoors]:
    """The same as `calm`, with its store in PostgreSQL."""
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    folder = tmp_path_factory.mktemp("postgres")
    store: dict[str, object] = {"url": schema_url(folder / "state"), "timeout": 30}
    async with open_doors(folder, store) as there, phone(there.gateway), answering(there.gateway, DECISIONS):
        with (folder / "workspace" / "huge.txt").open("wb") as huge:
            huge.truncate(20_000_000)
        yield there


def is_like(envelope: Envelope, expected: Any) -> bool:
    message = expected.get("message", "")
    rest = {key: value for key, value in expected.items() if key != "message"}
    return {key: envelope.get(key, "nothing") for key in rest} == rest and message in envelope.get("message", "")


@pytest.mark.parametrize(("row", "door"), [cell for cell in CELLS if not BEHAVIOURS[cell[0]].is_hasty])
async def test_a_behaviour_is_the_same_through_every_door(row: str, door: str, calm: OpenDoors) -> None:
    await look_at(row, door, calm)


@pytest.mark.parametrize(("row", "door"), [cell for cell in CELLS if BEHAVIOURS[cell[0]].is_hasty])
async def test_a_question_that_nobody_answers_ends_the_same_through_every_door(
    row: str, door: str, hasty: OpenDoors
) -> None:
    await look_at(row, door, hasty)


@pytest.mark.parametrize(("row", "door"), CELLS_IN_POSTGRES)
async def test_a_behaviour_is_the_same_with_postgres(row: str, door: str, in_postgres: OpenDoors) -> None:
    await look_at(row, door, in_postgres)


async def look_at(row: str, door: str, there: OpenDoors) -> None:
    """Make the calls of a row at a door; the answers and the journal are as the table has them."""
    behaviour = BEHAVIOURS[row]
    known = {record["id"] for record in await there.journal()}
    envelopes = await there.doors[door].call(*behaviour.calls)
    for envelope, expected in zip(envelopes, behaviour.expected, strict=True):
        assert is_like(envelope, expected), envelope
    said = [{key: value for key, value in envelope.items() if key not in MARKS} for envelope in envelopes]
    assert said == there.told.setdefault(row, said)
    records = [record for record in await there.journal() if record["id"] not in known]
    calls = zip(behaviour.calls, envelopes, strict=True)
    assert Counter((record["tool"], record["agent"], record["status"]) for record in records) == Counter(
        (asked.tool, asked.agent, envelope.get("code", "success")) for asked, envelope in calls
    )


@pytest.mark.parametrize("door", DOORS)
async def test_a_result_over_64_kb_is_kept_whole_and_read_on_through_the_same_door(door: str, calm: OpenDoors) -> None:
    (told,) = await calm.doors[door].call(Asked("give_text", {"length": 80_000}))
    assert told["status"] == "success" and "of 80000 bytes left out here" in told["result"]
    handle = told["result"].partition("read_artifact with id '")[2].partition("'")[0]
    asked = Asked("read_artifact", {"id": handle, "offset": 79_984, "limit": 16})
    (read,) = await calm.doors[door].call(asked)
    assert "0123456789abcde" in str(read["result"])


@pytest.mark.parametrize("door", [door for door in DOORS if door not in CAN_NOT_STOP])
async def test_a_call_that_its_caller_stops_is_cancelled(door: str, calm: OpenDoors) -> None:
    runs, entered = asyncio.Event(), calm.doors[door]
    assert isinstance(entered, StoppingDoor)
    calm.gateway.gateway.parts.app.registry.register_or_replace(holding(runs), Origin("plugin", "table"))
    async with asyncio.timeout(60):
        await entered.stop(Asked("hold"), runs)
    record = (await calm.journal())[0]
    assert record["tool"] == "hold"

    async def is_cancelled() -> bool:
        shown = (await calm.http.get(f"/api/calls/{record['id']}", params={"wait": "20"})).json()
        return bool(shown["status"] == "cancelled")

    await until(is_cancelled)  # a door may notice a moment later that its client is gone


@pytest.mark.parametrize("door", DOORS)
async def test_a_call_stands_in_the_journal_of_its_owner_alone(door: str, calm: OpenDoors) -> None:
    stranger = await calm.gateway.gateway.parts.auth.issue("stranger", ("chat",))
    await calm.doors[door].call(Asked("give"))
    assert (await calm.journal())[0]["tool"] == "give"
    assert await calm.journal(stranger) == []


# The table itself.


@pytest.mark.parametrize("row", BEHAVIOURS)
def test_a_cell_that_is_missing_says_why(row: str) -> None:
    missing = BEHAVIOURS[row].missing
    assert set(missing) < set(DOORS)
    assert all(len(reason.split()) > 5 for reason in missing.values())


@pytest.mark.parametrize("door", CAN_NOT_STOP)
async def test_a_door_where_calls_can_not_be_stopped_says_why(door: str, calm: OpenDoors) -> None:
    assert not isinstance(calm.doors[door], StoppingDoor)
    assert len(CAN_NOT_STOP[door].split()) > 5


def test_every_code_of_a_failed_call_goes_through_every_door() -> None:
    told = {
        (envelope["code"], door) for row, door in CELLS for envelope in BEHAVIOURS[row].expected if "code" in envelope
    }
    assert told == {(code, door) for code in ERROR_TYPES for door in DOORS}
