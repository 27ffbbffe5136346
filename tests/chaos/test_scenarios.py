"""The short forms of `make chaos`; `python -m tests.chaos NAME --short --seed N` repeats one that failed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.chaos import failover, floods, hostile, kills, outages, pages, schedules, sigterm, soak, storm, walks
from tests.chaos.figures import Figure, broken, table
from tests.chaos.hostile_frames import HOSTILE_REQUESTS, hostile_text
from tests.chaos.nodes import steps
from tests.nats_engine import need_server
from tests.postgres_engine import HOW_TO_INSTALL, find_programs
from tests.stores import postgres_variables

_SEED: Final = 20260101
_ROOT: Final = Path(__file__).parents[2]


def check(name: str, figures: list[Figure]) -> None:
    """Every promise is kept, but for those about time: `make chaos` holds them, on a machine that does nothing else."""
    assert not broken(figure for figure in figures if figure.unit != "ms"), table(name, _SEED, 0, figures)


@pytest.mark.anyio
async def test_no_call_is_lost_or_run_twice_in_a_storm(tmp_path: Path) -> None:
    check("storm", await storm.storm(tmp_path, storm.SHORT, _SEED))


@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_when_the_gateway_is_killed(tmp_path: Path) -> None:
    check("kills", await kills.kills(tmp_path, kills.SHORT, _SEED))


@pytest.mark.anyio
async def test_each_due_time_is_said_once_when_the_gateway_is_killed(tmp_path: Path) -> None:
    """SPEC J1."""
    check("schedules", await schedules.schedules(tmp_path, schedules.SHORT, _SEED))


@pytest.fixture
def in_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the gateways of the test have their store in PostgreSQL."""
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    for name, value in postgres_variables(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.mark.anyio
@pytest.mark.usefixtures("in_postgres")
async def test_nothing_acknowledged_is_lost_when_a_gateway_with_postgres_is_killed(tmp_path: Path) -> None:
    check("kills", await kills.kills(tmp_path, kills.SHORT, _SEED))


@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_when_the_database_fails_over(tmp_path: Path) -> None:
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    check("failover", await failover.failover(tmp_path, failover.SHORT, _SEED))


@pytest.mark.anyio
async def test_a_conversation_goes_on_at_another_node_when_its_own_is_killed_in_the_middle_of_a_step(
    tmp_path: Path,
) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    check("node_steps", await steps.steps(tmp_path, steps.SHORT, _SEED))


@pytest.mark.anyio
async def test_runs_of_pages_go_on_when_the_gateway_was_killed(tmp_path: Path) -> None:
    check("pages", await pages.pages(tmp_path, pages.SHORT, _SEED))


@pytest.mark.anyio
async def test_every_call_has_its_result_when_the_gateway_is_asked_to_end(tmp_path: Path) -> None:
    check("sigterm", await sigterm.sigterm(tmp_path, sigterm.SHORT, _SEED))


@pytest.mark.anyio
async def test_hostile_clients_hurt_nobody(tmp_path: Path) -> None:
    check("hostile", await hostile.hostile(tmp_path, hostile.SHORT, _SEED))


@pytest.mark.anyio
async def test_floods_hurt_no_other_client(tmp_path: Path) -> None:
    check("floods", await floods.floods(tmp_path, floods.SHORT, _SEED))


@pytest.mark.anyio
async def test_no_result_is_lost_while_the_store_takes_no_writes_or_the_clock_steps(tmp_path: Path) -> None:
    check("outages", await outages.outages(tmp_path, outages.SHORT, _SEED))


@pytest.mark.anyio
async def test_ordinary_work_is_watched_for_growing_memory(tmp_path: Path) -> None:
    check("soak", await soak.soak(tmp_path, soak.SHORT, _SEED))
    assert soak.find_slope([(0, 1), (1, 3), (2, 5)]) == 2


def test_no_walk_breaks_a_promise(tmp_path: Path) -> None:
    check("walks", walks.walks(tmp_path, walks.SHORT, _SEED))


def test_the_fates_of_calls_are_those_that_were_asked_for() -> None:
    kinds = Counter(storm.fate(1, number).kind for number in range(10_000))
    shares = {kind: count / 10_000 for kind, count in kinds.items()}
    assert 0.04 < shares["silent"] < 0.06 and 0.015 < shares["twice"] < 0.025
    assert 0.04 < shares["drop"] + shares["answer and drop"] < 0.06
    assert storm.fate(1, 5) == storm.fate(1, 5)


def test_the_same_seed_gives_the_same_hostile_frames_and_they_differ() -> None:
    first, again = ([hostile_text(Random(number), ["id"]) for number in range(300)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 150
    assert len({make(Random(1), "host", "token") for make in HOSTILE_REQUESTS}) == len(HOSTILE_REQUESTS)


def test_an_unknown_scenario_is_refused() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "nonsense"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2 and "there is no scenario 'nonsense'" in ran.stderr
