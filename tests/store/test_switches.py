"""The switches of tools and skills (SPEC R9, A3)."""

import asyncio
import stat
from pathlib import Path

import pytest

from handspan.core.errors import ConfigError
from handspan.core.store import Store
from handspan.store.switches import file_skill_switches, file_switches
from tests.stores import open_store

pytestmark = pytest.mark.anyio


async def test_what_is_switched_off_is_off_until_it_is_switched_on(store: Store, state: Path) -> None:
    switches = store.switches
    assert await switches.off() == []
    assert await switches.switch_off("web_*") and await switches.switch_off("spawn")
    assert not await switches.switch_off("spawn")
    async with open_store(state) as other:
        assert await other.switches.off() == ["web_*", "spawn"]
    assert await switches.switch_on("web_*")
    assert not await switches.switch_on("web_*")
    assert await switches.off() == ["spawn"]


async def test_a_skill_is_enabled_as_it_is_until_it_is_disabled(store: Store, state: Path) -> None:
    switches = store.skill_switches
    assert await switches.enabled_skills() == {}
    assert await switches.enable("plan", "f1") and await switches.enable("draw", "f2")
    assert not await switches.enable("plan", "f1")
    assert await switches.enable("plan", "f3")
    async with open_store(state) as other:
        assert await other.skill_switches.enabled_skills() == {"plan": "f3", "draw": "f2"}
    assert await switches.disable("plan")
    assert not await switches.disable("plan")
    assert await switches.enabled_skills() == {"draw": "f2"}


async def test_changes_at_the_same_time_are_all_kept(store: Store) -> None:
    patterns = [f"tool_{number}" for number in range(20)]
    await asyncio.gather(*(store.switches.switch_off(pattern) for pattern in patterns))
    assert sorted(await store.switches.off()) == sorted(patterns)
    assert all(await asyncio.gather(*(store.switches.switch_on(pattern) for pattern in patterns)))
    assert await store.switches.off() == []
    await asyncio.gather(*(store.skill_switches.enable(name, "f") for name in patterns))
    assert sorted(await store.skill_switches.enabled_skills()) == sorted(patterns)
    assert all(await asyncio.gather(*(store.skill_switches.disable(name) for name in patterns)))
    assert await store.skill_switches.enabled_skills() == {}


# As files.


async def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    await file_switches(state).switch_off("x")
    await file_skill_switches(state).enable("x", "f")
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in state.iterdir()} == {
        "disabled.json": 0o600,
        "skills.json": 0o600,
    }


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1]"])
async def test_a_broken_file_does_not_bring_tools_back(tmp_path: Path, content: str) -> None:
    (tmp_path / "disabled.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="repair it, or remove it"):
        await file_switches(tmp_path).off()


@pytest.mark.parametrize("content", ["", "[", '{"a": 1}', "[]"])
async def test_a_broken_file_enables_no_skill(tmp_path: Path, content: str) -> None:
    (tmp_path / "skills.json").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="enable your skills again"):
        await file_skill_switches(tmp_path).enabled_skills()
