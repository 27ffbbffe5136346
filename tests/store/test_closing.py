"""A gateway that is closed while a program in its own process has calls open: what a caller is told is stored (E2)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handspan.core.calls import ToolCall, new_call_id
from handspan.core.function_tool import tool
from handspan.core.results import Failure, Success, ToolResult, succeed
from handspan.gateway.gateway import Gateway
from handspan.store.tables.calls import EnterCall
from handspan.store.tables.store import TableStore
from handspan.testing import FakeDevice, RunningGateway, offer, running_gateway
from tests.stores import store_settings
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

CALL = "the-call"


class HeldStart:
    """Lets the database store the start of the call, and holds the news of that back until the test releases it."""

    def __init__(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_stored = False
        self.released = asyncio.Event()
        assert isinstance(gateway.parts.store, TableStore)
        self._write = gateway.parts.store.database.write
        monkeypatch.setattr(gateway.parts.store.database, "write", self._hold)

    def _hold(self, work: Any) -> "asyncio.Future[Any]":
        written: asyncio.Future[Any] = self._write(work)
        is_start = isinstance(work, EnterCall) and work.call_id == CALL
        return asyncio.ensure_future(self._wait(written)) if is_start else written

    async def _wait(self, written: "asyncio.Future[Any]") -> Any:
        value = await written
        self.is_stored = True
        await self.released.wait()
        return value


@pytest.fixture
async def gateway(tmp_path: Path, state: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path, gateway={"resume_grace": 30}, store=store_settings(state)) as running:
        yield running


@pytest.fixture
async def phone(gateway: RunningGateway) -> AsyncIterator[FakeDevice]:
    """A device that can come back: the next process hands it the calls that the store has for it."""
    async with FakeDevice(gateway.url, gateway.token) as device:
        yield device


async def arrive(phone: FakeDevice, resume: str | None = None) -> str:
    connected = await phone.connect(label="phone", capabilities=("resume", "cancel"), resume=resume)
    await phone.register(offer("work", timeout=60))
    return str(connected["resume_token"])


def begin(gateway: RunningGateway, name: str = "phone__work") -> "asyncio.Task[ToolResult]":
    return asyncio.create_task(gateway.call_as(CALL, name, {}))


async def close_until_calls_are_refused(gateway: RunningGateway) -> "asyncio.Task[None]":
    """Begin to close it. A gateway that refuses nothing is closed when this returns."""
    app, closing = gateway.gateway.parts.app, asyncio.create_task(gateway.close())
    caller = app.caller()

    async def is_refusing() -> bool:
        result = await app.engine.call(ToolCall("get_current_time", {}, new_call_id()), caller)
        return closing.done() or (isinstance(result, Failure) and result.code == "interrupted")

    await until(is_refusing)
    return closing


async def stored(gateway: RunningGateway) -> ToolResult | str | None:
    """The result that the next process has of the call, or the state in which it is."""
    [record] = [record for record in await soon(gateway.journal()) if record.id == CALL]
    return record.result if isinstance(record.result, Success | Failure) else record.state


async def asked_after_return(phone: FakeDevice, resume: str) -> list[Any]:
    """What the device is asked to run when it comes back."""
    await arrive(phone, resume)
    await phone.send({"type": "ping"})
    await phone.expect("pong")  # frames keep their order
    return phone.unexpected("tool_call_request")


async def test_a_call_that_is_told_to_be_safe_to_repeat_is_not_handed_out_after_a_restart(
    gateway: RunningGateway, phone: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = await soon(arrive(phone))
    held = HeldStart(gateway.gateway, monkeypatch)
    call = begin(gateway)
    await until(lambda: held.is_stored)
    closing = await close_until_calls_are_refused(gateway)
    held.released.set()
    told = await soon(call)
    await soon(closing)
    assert isinstance(told, Failure) and told.code in ("interrupted", "disconnected")
    await soon(gateway.open())
    assert await stored(gateway) == told
    assert not await soon(asked_after_return(phone, resume))


async def test_a_call_whose_start_is_stored_too_late_is_not_told_to_be_safe_to_repeat(
    gateway: RunningGateway, phone: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume = await soon(arrive(phone))
    held = HeldStart(gateway.gateway, monkeypatch)
    call = begin(gateway)
    await until(lambda: held.is_stored)
    await soon(gateway.close())  # it does not wait for ever
    held.released.set()
    told = await soon(call)
    assert isinstance(told, Failure) and told.code == "unknown_outcome"
    await soon(gateway.open())
    assert await stored(gateway) == "pending"
    assert await soon(asked_after_return(phone, resume))


async def test_a_call_that_its_device_was_asked_for_has_the_result_that_its_caller_was_told(
    gateway: RunningGateway, phone: FakeDevice
) -> None:
    await soon(arrive(phone))
    call = begin(gateway)
    await phone.expect("tool_call_request")
    await soon(gateway.close())
    told = await soon(call)
    assert isinstance(told, Failure) and told.code == "unknown_outcome"
    await soon(gateway.open())
    assert await stored(gateway) == told


async def test_a_tool_that_never_ends_does_not_hold_the_end_of_the_gateway_up(gateway: RunningGateway) -> None:
    begun = asyncio.Event()

    @tool
    async def stay() -> None:
        """Stay for ever."""
        begun.set()
        await asyncio.Event().wait()

    gateway.gateway.parts.app.registry.register(stay)
    call = begin(gateway, "stay")
    await soon(begun.wait())
    await soon(gateway.close())
    told = await soon(call)
    assert told == Failure("cancelled", "The call of 'stay' was cancelled: Handspan was closed.")
    await soon(gateway.open())
    assert await stored(gateway) == told


async def test_what_a_tool_has_returned_is_stored_though_the_gateway_is_closed_at_once(
    gateway: RunningGateway,
) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for the test."""
        begun.set()
        await end.wait()
        return "done"

    gateway.gateway.parts.app.registry.register(wait)
    call = begin(gateway, "wait")
    await soon(begun.wait())
    end.set()
    await soon(gateway.close())
    assert await soon(call) == succeed("done")
    await soon(gateway.open())
    assert await stored(gateway) == succeed("done")
