"""What a reload changes inside: limits, capacity, timeouts, tools; and what it must not change (SPEC U4)."""

import asyncio
from pathlib import Path

import pytest

from handspan.config.listing import compare_settings, shorten_keys, with_reloadable
from handspan.config.load import LoadedSettings, load_with_sources
from handspan.config.settings import Settings
from handspan.core.calls import ToolCall
from handspan.core.results import Success
from handspan.engine.concurrency import Slots
from handspan.gateway.app import App
from handspan.gateway.reloading import reload_settings
from tests.waiting import until

pytestmark = pytest.mark.anyio


def load(folder: Path, text: str) -> LoadedSettings:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    overrides = {"workspace": str(folder / "w"), "state": str(folder / "s")}
    return load_with_sources(file, {"HOME": str(folder)}, overrides)


async def test_limits_and_rules_of_tools_take_effect_at_once(tmp_path: Path) -> None:
    loaded = load(tmp_path, "")
    async with App(loaded.settings, loaded=loaded) as app:
        load(
            tmp_path,
            "[tools]\nresult_limit = 2048\nshown = 0\nconcurrency = {builtin = 3}\nquestion_timeout = 7.0\n"
            'timeouts = {"read_*" = 2.5}\n[tools.http_request]\nallowed_hosts = ["example.com"]\n'
            '[tools.sandbox]\nnetwork = "host"\n',
        )
        changes = await reload_settings(app)
        assert changes.needs_restart == ["tools.sandbox.network"]
        assert "tools.result_limit" in changes.reloadable and "tools.http_request.allowed_hosts" in changes.reloadable
        names = {entry.spec.name: entry for entry in app.registry}
        assert names["read_file"].timeout == 2.5 and "search_tools" not in names
        assert app.settings.tools.sandbox.network == "none", "a restart is needed for that"
        caller = app.caller()
        big = await app.engine.call(ToolCall("write_file", {"path": "a", "content": "x" * 9000}, "1"), caller)
        assert isinstance(big, Success)
        read = await app.engine.call(ToolCall("exec_shell", {"command": "cat a"}, "2"), app.caller())
        assert isinstance(read, Success) and len(read.encoded) <= 2048
        assert (await reload_settings(app)).reloadable == []


async def test_people_s_own_switches_stay_when_the_settings_change(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[tools]\ndisabled = ["spawn", "exec_shell"]\n')
    async with App(loaded.settings, loaded=loaded) as app:
        await app.switches.switch_off("exec_shell")
        app.registry.disable("exec_shell")
        load(tmp_path, "")
        await reload_settings(app)
        states = {entry.spec.name: app.registry.find_disabling(entry) for entry in app.registry}
        assert states["spawn"] is None and states["exec_shell"] == "exec_shell"


async def test_a_gate_that_grows_lets_waiting_calls_in_and_one_that_shrinks_waits() -> None:
    slots = Slots(1, "it")
    assert slots.try_take()
    waiting = [asyncio.create_task(slots.take(None)) for _ in range(2)]
    await asyncio.sleep(0)
    slots.resize(2)
    await until(waiting[0].done)
    assert not waiting[1].done() and slots.taken == 2
    slots.resize(1)
    slots.release()
    await asyncio.sleep(0)
    assert slots.taken == 1 and not waiting[1].done()
    slots.release()
    await until(waiting[1].done)
    slots.release()
    assert slots.taken == 0


def test_every_setting_is_either_reloaded_or_named_as_one_for_a_restart(tmp_path: Path) -> None:
    before = load(tmp_path, "").settings
    fresh = load(
        tmp_path,
        'journal_days = 3\ndefault_agent = "x"\nmodel_requests = 5\n[store]\ntimeout = 3.0\n'
        '[gateway.limits]\ntools = 3\n[log]\nlevel = "warning"\n'
        '[tools.media]\nprocesses = 1\n[agents.x]\n[cluster]\nname = "n1"\n',
    ).settings
    merged, changes = with_reloadable(before, fresh), compare_settings(before, fresh)
    still = compare_settings(merged, fresh)
    assert still.reloadable == [] and still.needs_restart == changes.needs_restart
    assert changes.needs_restart == [
        "store.timeout",
        "cluster.name",
        "journal_days",
        "tools.media.processes",
        "gateway.limits.tools",
        "log.level",
    ]
    assert compare_settings(before, before) == ([], [])


def test_a_new_section_of_the_settings_is_thought_of_here() -> None:
    reloaded = {
        "default_agent",
        "model",
        "models",
        "model_requests",
        "context",
        "summary",
        "tools",
        "hooks",
        "agents",
    }
    reloaded |= {"budget", "fronts"}
    at_start = {"workspace", "state", "store", "journal_days", "gateway", "log", "channels", "cluster", "mcp"}
    at_start |= {"push", "schedules"}
    not_ours = {"bridge"}  # another process reads it
    assert {*Settings.__struct_fields__} == reloaded | at_start | not_ours, (
        "say in config/listing.py what a reload does"
    )


def test_many_settings_of_one_part_are_named_by_the_part() -> None:
    of_agent = [f"agents.careful.{name}" for name in ("deny", "mode", "model", "skills")]
    assert shorten_keys(["agents", *of_agent, "agents.other.mode", "tools.shown"]) == [
        "agents.careful",
        "agents.other.mode",
        "tools.shown",
    ]
