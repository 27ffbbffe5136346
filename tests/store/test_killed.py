"""kill -9 at any point: nothing acknowledged is lost, and every started call has a result or still waits (SPEC A2)."""

import asyncio
import os
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from handspan.core.messages import check_all
from handspan.core.results import Failure, succeed
from handspan.core.store import Store
from tests.store.rewinding import all_texts
from tests.stores import has_connections, is_sound, leases_in, open_store
from tests.thoroughness import repeats
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

KILLS = repeats(15)
ROOT = Path(__file__).parents[2]


def run_and_kill(state: Path, lines: int, module: str = "crashing") -> list[list[str]]:
    """What the process had acknowledged when it was killed: at least so many lines."""
    command = [sys.executable, "-m", f"tests.store.{module}", str(state)]
    without_coverage = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=without_coverage, bufsize=0) as process:
        assert process.stdout is not None
        heard = b""
        while heard.count(b"\n") < lines:
            piece = process.stdout.read(65536)
            assert piece, "the process ended by itself"
            heard += piece
        process.kill()
        heard += process.stdout.read()
    assert process.returncode == -9
    return [line.split() for line in heard.decode().splitlines()]


@pytest.mark.flood
@pytest.mark.outside
async def test_nothing_acknowledged_is_lost_however_often_the_process_is_killed(state: Path) -> None:
    chance = random.Random(20260101)
    lengths: dict[str, int] = defaultdict(int)
    finished: set[str] = set()
    touched: set[str] = set()
    open_after_kill = 0
    kills = 0
    async with open_store(state):  # the processes share the server that this starts
        pass
    while kills < KILLS or (open_after_kill == 0 and kills < 15):
        kills += 1
        for kind, name, *seq in await asyncio.to_thread(run_and_kill, state, chance.randint(1, 250)):
            if kind == "message":
                lengths[name] = max(lengths[name], int(seq[0]))
            (finished if kind == "finish" else touched if kind != "message" else set()).add(name)
        assert is_sound(state)
        await until(lambda: not has_connections(state))
        async with open_store(state) as store:
            recovery = await soon(store.recover())
            open_after_kill += len(recovery.unknown_outcome) + len(recovery.waiting)
            await check(store, lengths, finished, touched, set(recovery.waiting))
    assert len(finished) > KILLS
    assert open_after_kill > 0, "no process was ever killed in the middle of a call"
    assert leases_in(state) == 0


@pytest.mark.flood
@pytest.mark.outside
async def test_going_back_loses_no_word_however_often_the_process_is_killed(state: Path) -> None:
    """SPEC L8."""
    chance = random.Random(20261101)
    said: dict[str, int] = defaultdict(int)
    async with open_store(state):  # the processes share the server that this starts
        pass
    for _ in range(max(2, KILLS // 3)):
        for _, name, texts in await asyncio.to_thread(run_and_kill, state, chance.randint(1, 60), "rewinding"):
            said[name] = max(said[name], int(texts))
        assert is_sound(state)
        await until(lambda: not has_connections(state))
        async with open_store(state) as store:
            await soon(store.recover())
            for name, count in said.items():
                found = await soon(all_texts(store, name))
                assert len(set(found)) == len(found), "nothing is there twice"
                assert {str(number) for number in range(count)} <= set(found)
                check_all(await soon(store.conversations.load(name, owner="ann")))


async def check(
    store: Store, lengths: dict[str, int], finished: set[str], touched: set[str], waiting: set[str]
) -> None:
    for session, length in lengths.items():
        messages = await soon(store.conversations.load(session, owner="ann"))
        assert len(messages) >= length
        check_all(messages)
        state = (await soon(store.conversations.get(session, owner="ann"))).state
        assert state in ("idle", "waiting")
    open_calls = {record.id for record in await soon(store.ledger.open_calls(owner="ann"))}
    assert open_calls == waiting
    for call_id in touched | finished:
        record = await soon(store.ledger.get(call_id, owner="ann"))
        if call_id in finished:
            assert record.result == succeed(call_id)
        elif call_id not in waiting:
            assert record.result == succeed(call_id) or (
                isinstance(record.result, Failure) and record.result.code == "unknown_outcome"
            )
