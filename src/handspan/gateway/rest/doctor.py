"""The state of this gateway for its operator: what works, what to do where something does not, and its settings.

To add a check: a function that returns a `Finding`, and its line in `doctor`.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from handspan.config.listing import setting_rows, shorten_keys
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.core.sources import SourceState, describe_state
from handspan.gateway.app import App
from handspan.gateway.rest.models import choose_model
from handspan.gateway.rest.route import Family, RestRequest
from handspan.gateway.rest.tools import visible_entries
from handspan.tools.workspace import Workspace
from handspan.wire.rest.status import Diagnosis, Finding, ReloadedSettings, SettingsInForce, SettingView

family: Final = Family("status")


@family.get("/api/settings", "admin")
async def settings(request: RestRequest) -> SettingsInForce:
    """The settings with which this gateway runs, without secrets."""
    started = request.app.started_with
    rows = [SettingView(*row) for row in setting_rows(started.loaded)]
    changes = await asyncio.to_thread(started.changes)
    file = None if started.file is None else str(started.file)
    return SettingsInForce(file, started.is_changed, rows, *changes, started.problem)


@family.post("/api/settings/reload", "admin", also_refuses=(409,))
async def reload_settings(request: RestRequest) -> ReloadedSettings:
    """Take the settings as their files have them now, as far as that needs no restart.

    When they can't be used (409), those from before stay in force.
    """
    before = await _describe_model(request)
    applied, needs_restart = await request.parts.reloading.reload()
    after = await _describe_model(request)
    return ReloadedSettings(applied, needs_restart, "" if after == before else after)


async def _describe_model(request: RestRequest) -> str:
    """Return which model answers where none is named, and why; empty when none can."""
    try:
        return (await choose_model(request, "", at_once=True)).why
    except ConfigError:
        return ""


@family.get("/api/doctor", "admin")
async def doctor(request: RestRequest) -> Diagnosis:
    """Whether everything works here, and what to do where it does not. The journal does not show these checks."""
    app = request.app
    await app.refresh_tools()
    findings = [
        *await asyncio.to_thread(lambda: list(_settings_file(app))),
        await asyncio.to_thread(_workspace, app),
        await _check_state(request),
        *await _check_artifacts(request),
        await _sandbox(app),
        *await _agent_and_model(request),
        Finding("tools", ok=True, found=f"{len(await visible_entries(request, ''))}; `handspan tools` lists them"),
    ]
    remedy = "correct the setting, or take it out"
    findings += [Finding("setting", ok=False, found=note, remedy=remedy) for note in app.setting_notes]
    await app.messages.check()
    findings += _channels(app)
    return Diagnosis([*findings, *(each for one in app.all_sources for each in source_findings(one.name, one.state))])


def _settings_file(app: App) -> Iterator[Finding]:
    """Yield whether the settings file says the same as the settings in force."""
    reloadable, needs_restart = app.started_with.changes()
    file = app.started_with.file or "the settings file"
    if problem := app.started_with.problem:
        yield Finding(
            "settings",
            ok=False,
            found=problem,
            remedy="correct the file; what it said before stays in force until then",
        )
    if reloadable:
        text = f"{file} has changed since the gateway started: {', '.join(shorten_keys(reloadable))}"
        yield Finding("settings", ok=True, found=text, remedy="`handspan reload` applies it")
    if needs_restart:
        text = f"{file} has changed since the gateway started: {', '.join(shorten_keys(needs_restart))}"
        yield Finding("settings", ok=True, found=text, remedy="restart the gateway to apply it")


def _workspace(app: App) -> Finding:
    """Return whether a file can be written and read, as the file tools do it."""
    folder, hidden = app.settings.workspace, app.sandbox.hidden
    name = f".handspan-doctor-{new_call_id()[:8]}"
    try:
        found = _try_out(folder, hidden, app.sandbox.file_owner, name)
    except HandspanError as error:
        return Finding(
            "workspace", ok=False, found=f"{folder}: {error}", remedy="choose a folder that can be written: --workspace"
        )
    return Finding("workspace", ok=True, found=f"{folder} {found}")


def _try_out(folder: Path, hidden: Sequence[Path], owner: tuple[int, int] | None, name: str) -> str:
    """Write a file in this folder, read it and remove it. Raises what goes wrong."""
    with Workspace(folder, hidden, owner) as workspace:
        try:
            workspace.write(name, b"hello")
            with workspace.open_file(name) as file:
                file.read(0, file.size)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(folder / name)
    return "can be written and read"


async def _sandbox(app: App) -> Finding:
    """Return whether commands run in the sandbox."""
    report = await app.sandbox.ready()
    warning = f"; {report.warning}" if report.warning else ""
    text = f"{report.status}: {report.reason}{warning}"
    if report.is_possible:
        is_ok = report.active and not report.warning
        return Finding("sandbox", ok=is_ok, found=text, remedy=report.remedy)
    if app.sandbox.is_required:
        return Finding(
            "sandbox", ok=False, found=text, remedy="set tools.sandbox.enabled to auto, or run the gateway on Linux"
        )
    # Not possible on this system, and not required: nothing has to be repaired.
    return Finding("sandbox", ok=True, found=text, remedy=report.remedy)


async def _agent_and_model(request: RestRequest) -> list[Finding]:
    """Return which agent `handspan chat` would begin with, which model it would talk to, and why (SPEC M5)."""
    found: list[Finding] = []
    model = ""
    try:
        agent = (await request.app.agents.find(owner=request.owner)).agent
        model = agent.model
        found.append(Finding("agent", ok=True, found=f"{agent.name!r} is meant where none is named"))
    except StoreError:
        pass  # the check `store` says what to do
    except HandspanError as error:
        remedy = "correct default_agent, or make that agent: `handspan agents create NAME`"
        found.append(Finding("agent", ok=False, found=str(error), remedy=remedy))
    try:
        found.append(Finding("model", ok=True, found=(await choose_model(request, model)).why))
    except HandspanError as error:
        remedy = "correct the settings, or set the key; `handspan model which` asks again"
        found.append(Finding("model", ok=False, found=str(error), remedy=remedy))
    return found


async def _check_state(request: RestRequest) -> Finding:
    """Return whether the store takes writes."""
    problem, settings = await request.store.check_writes(), request.app.settings
    if settings.store.url:
        remedy = "do what the message says; the gateway tries again by itself"
        return _finding_of("store", problem, "PostgreSQL takes writes", remedy)
    remedy = "make room, or let this user write the folder; or choose another one: --state"
    return _finding_of("state", problem, str(settings.state), remedy)


async def _check_artifacts(request: RestRequest) -> list[Finding]:
    """Return whether artifacts can be stored, where they are not in the database."""
    store = request.app.settings.store
    if store.url and not store.objects.url:
        return []
    where = store.objects.url if store.url else "the state folder"
    problem = await request.parts.artifacts.check()
    return [_finding_of("artifacts", problem, f"{where} takes them", "do what the message says")]


def _finding_of(name: str, problem: str, good: str, remedy: str) -> Finding:
    return Finding(name, ok=False, found=problem, remedy=remedy) if problem else Finding(name, ok=True, found=good)


def _channels(app: App) -> Iterator[Finding]:
    """Yield whether each channel works. A gateway inside a command does not listen: `ready` is enough."""
    for queue in app.messages:
        state = queue.state
        is_ok = state.status in ("ready", "listening")
        text = f"{state.kind}, {state.status}" + (f": {state.reason}" if state.reason else "")
        remedy = "" if is_ok else "do what the message says; `handspan channels test` tries it"
        yield Finding(f"channel {queue.name}", ok=is_ok, found=text, remedy=remedy)


def source_findings(name: str, state: SourceState) -> Iterator[Finding]:
    """Yield the state of a source of tools, then each tool of it that can't be used."""
    is_ok = state.status != "failed"
    remedy = "" if is_ok else "do what the message says, or remove the source"
    yield Finding(f"source {name}", ok=is_ok, found=describe_state(state), remedy=remedy)
    for broken in state.broken:
        yield Finding("tool", ok=False, found=f"{broken.where}: {broken.problem}", remedy="repair or remove it")
