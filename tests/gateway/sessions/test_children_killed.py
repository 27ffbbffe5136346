"""A process that dies while one agent works for another: both go on, and nothing begins twice (SPEC A2, J5)."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.events import GATEWAY_LOST
from handspan.core.results import Success
from tests.gateway.sessions.child_kit import OWNER, all_idle, last_text, on_postgres, talking
from tests.postgres_engine import HOW_TO_INSTALL, find_programs
from tests.waiting import WAIT, soon, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

ROOT = Path(__file__).parents[3]


def run_until_it_dies(folder: Path, moment: str, settings: dict[str, Any]) -> None:
    given = msgspec.json.encode(settings).decode()
    command = [sys.executable, "-m", "tests.gateway.sessions.dying_child", str(folder), moment, given]
    without_coverage = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    ended = subprocess.run(command, cwd=ROOT, env=without_coverage, timeout=WAIT, capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()


@pytest.mark.parametrize(
    ("moment", "store"),
    [("suspended", "sqlite"), ("working", "sqlite"), ("working", "postgres"), ("finished", "sqlite")],
)
async def test_both_agents_go_on_after_the_process_was_killed(tmp_path: Path, moment: str, store: str) -> None:
    if store == "postgres" and find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    settings = on_postgres(tmp_path) if store == "postgres" else {}
    await soon(asyncio.to_thread(run_until_it_dies, tmp_path, moment, settings))
    async with talking(tmp_path, **settings) as talk:
        talk.may_end.set()
        text = await last_text(talk)
        assert text.startswith("Then ") and "could not" not in text
        has_lost = "unknown_outcome" in text or "interrupted" in text
        assert has_lost is (moment == "working")  # how `slow` ended, no process knows
        assert [call.name for call in await talk.calls()] == ["ask_agent", "change", "slow"]
        earlier = tmp_path / "changed"
        assert [*(earlier.read_text().split() if earlier.exists() else []), *talk.changed] == ["once"]


async def test_a_turn_that_had_the_answer_when_the_process_was_killed_is_closed_as_every_running_turn(
    tmp_path: Path,
) -> None:
    await soon(asyncio.to_thread(run_until_it_dies, tmp_path, "settled", {}))
    async with talking(tmp_path) as talk:
        await until(lambda: all_idle(talk, 2))
        (call, *_) = await talk.calls()
        assert isinstance(call.result, Success) and "slow is done" in str(call.result.value)
        (end,) = (await talk.parts.store.conversations.ends("s", owner=OWNER)).values()
        assert end.fault == GATEWAY_LOST
        kept = await talk.parts.store.conversations.load("s", owner=OWNER)
        assert "slow is done" in str(kept[-1])
