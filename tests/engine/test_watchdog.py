"""The watchdog: it names the tool that blocks the event loop (SPEC T3)."""

import asyncio
import logging
import threading
import time

import pytest

from handspan.engine.watchdog import Watchdog
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SECONDS = 0.01


def watched(kit: EngineKit) -> Watchdog:
    """The kit's own watchdog, that waits less long."""
    kit.engine.watchdog._seconds = SECONDS
    return kit.engine.watchdog


async def blamed(kit: EngineKit, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "handspan"):
        kit.engine.open()
        assert await kit.value(name) == "done"
    assert kit.engine.watchdog.blocked == {name: 1}
    [warning] = [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]
    assert f"Tool {name!r} blocks the event loop for more than 0.01 s" in warning
    assert "@tool(thread=True)" in warning


def block(until_blamed: Watchdog) -> None:
    ends = time.monotonic() + WAIT
    while not until_blamed.blocked and time.monotonic() < ends:
        time.sleep(0.001)


async def test_a_tool_that_blocks_in_its_first_step_is_named(kit: EngineKit, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = watched(kit)

    async def blocking() -> str:
        block(watchdog)
        return "done"

    kit.add(blocking)
    await blamed(kit, "blocking", caplog)


async def test_a_tool_that_blocks_after_it_was_suspended_is_named(
    kit: EngineKit, caplog: pytest.LogCaptureFixture
) -> None:
    watchdog = watched(kit)

    async def blocking_later() -> str:
        await asyncio.sleep(0.001)
        block(watchdog)
        return "done"

    kit.add(blocking_later)
    await blamed(kit, "blocking_later", caplog)


async def test_of_nested_tools_the_innermost_is_named(kit: EngineKit, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = watched(kit)

    async def inner() -> str:
        await asyncio.sleep(0)
        block(watchdog)
        return "done"

    async def outer() -> str:
        await kit.value("inner")
        return "done"

    kit.add(inner)
    kit.add(outer)
    with caplog.at_level(logging.WARNING, "handspan"):
        kit.engine.open()
        assert await kit.value("outer") == "done"
    assert watchdog.blocked == {"inner": 1}


async def test_a_tool_on_a_thread_blocks_nobody(kit: EngineKit) -> None:
    watchdog = watched(kit)
    rounds = threading.Semaphore(0)

    def busy() -> str:
        for _ in range(5):
            time.sleep(SECONDS)
            rounds.release()
        return "done"

    kit.add(busy)
    kit.engine.open()
    assert await kit.value("busy") == "done"
    assert watchdog.blocked == {}


async def test_when_no_tool_runs_nobody_is_blamed() -> None:
    asked = threading.Event()

    def is_busy() -> bool:
        asked.set()
        return True

    watchdog = Watchdog(is_busy, lambda: None, SECONDS)
    watchdog.open()
    time.sleep(5 * SECONDS)  # noqa: ASYNC251 - the loop is blocked on purpose, by no tool
    await until(asked.is_set)
    watchdog.close()
    assert watchdog._thread is not None
    await asyncio.to_thread(watchdog._thread.join, WAIT)
    assert watchdog.blocked == {}


async def test_nobody_is_asked_for_a_sign_of_life_while_nothing_runs(make_kit: MakeKit) -> None:
    kit = make_kit()
    watchdog = watched(kit)
    kit.engine.open()
    time.sleep(5 * SECONDS)  # noqa: ASYNC251 - the loop is blocked on purpose, and no call runs
    assert watchdog.blocked == {}


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "stopped"])
def test_the_watchdogs_thread_ends_with_its_loop(is_closed: bool) -> None:
    watchdog = Watchdog(lambda: True, lambda: None, SECONDS)
    loop = asyncio.new_event_loop()

    async def open_and_stop() -> None:
        watchdog.open()

    loop.run_until_complete(open_and_stop())
    assert watchdog._thread is not None
    if is_closed:
        loop.close()
    else:
        watchdog._thread.join(10 * SECONDS)  # it waits for a sign that does not come
        watchdog.close()
    watchdog._thread.join(WAIT)
    assert not watchdog._thread.is_alive()
    loop.close()
