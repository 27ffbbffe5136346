"""The state of this gateway for its operator: what works, what to do where something does not, and its settings.

To add a check: a function that yields `Finding`, and its line in `_findings`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

from handspan.config.listing import setting_rows, shorten_keys
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.core.sources import SourceState, describe_state
from handspan.gateway.app import App
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.models import choose_model
from handspan.gateway.rest.route import Family, RestRequest
from handspan.gateway.rest.tools import visible_entries
from handspan.tools.workspace import Workspace
from handspan.wire.rest.status import Diagnosis, Finding, ReloadedSettings, SettingsInForce, SettingView

family: Final = Family("status")


@family.get("/api/settings", "admin")
async def settings(request: RestRequest) -> SettingsInForce:
    """The settings with which this gateway runs, without secrets."""
    started = request.parts.app.started_with
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
    try:
        applied, needs_restart = await request.parts.reloading.reload()
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
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
    return Diagnosis([finding async for finding in _findings(request)])


async def _findings(request: RestRequest) -> AsyncIterator[Finding]:
    app = request.parts.app
    await app.refresh_tools()
    for finding in await asyncio.to_thread(lambda: list(_settings_file(app))):
        yield finding
    yield await asyncio.to_thread(_workspace, app)
    yield await _check_state(request)
    async for finding in _check_artifacts(request):
        yield finding
    yield await _sandbox(app)
    async for finding in _agent_and_model(request):
        yield finding
    yield Finding("tools", True, f"{len(await visible_entries(request, ''))}; `handspan tools` lists them")
    for note in app.setting_notes:
        yield Finding("setting", False, note, "correct the setting, or take it out")
    await app.messages.check()
    for finding in _channels(app):
        yield finding
    for source in app.all_sources:
        for finding in source_findings(source.name, source.state):
            yield finding


def _settings_file(app: App) -> Iterator[Finding]:
    reloadable, needs_restart = app.started_with.changes()
    file = app.started_with.file or "the settings file"
    if problem := app.started_with.problem:
        yield Finding("settings", False, problem, "correct the file; what it said before stays in force until then")
    if reloadable:
        text = f"{file} has changed since the gateway started: {', '.join(shorten_keys(reloadable))}"
        yield Finding("settings", True, text, "`handspan reload` applies it")
    if needs_restart:
        text = f"{file} has changed since the gateway started: {', '.join(shorten_keys(needs_restart))}"
        yield Finding("settings", True, text, "restart the gateway to apply it")


def _workspace(app: App) -> Finding:
    """Return whether a file can be written and read, as the file tools do it."""
    folder, hidden = app.settings.workspace, app.sandbox.hidden
    name = f".handspan-doctor-{new_call_id()[:8]}"
    try:
        found = _try_out(folder, hidden, app.sandbox.file_owner, name)
    except HandspanError as error:
        return Finding("workspace", False, f"{folder}: {error}", "choose a folder that can be written: --workspace")
    return Finding("workspace", True, f"{folder} {found}")


def _try_out(folder: Path, hidden: Sequence[Path], owner: tuple[int, int] | None, name: str) -> str:
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
    report = await app.sandbox.ready()
    warning = f"; {report.warning}" if report.warning else ""
    text = f"{report.status}: {report.reason}{warning}"
    if report.is_possible:
        return Finding("sandbox", report.active and not report.warning, text, report.remedy)
    if app.sandbox.is_required:
        return Finding("sandbox", False, text, "set tools.sandbox.enabled to auto, or run the gateway on Linux")
    return Finding("sandbox", True, text, report.remedy)  # a limit of this system, and nothing to repair


async def _agent_and_model(request: RestRequest) -> AsyncIterator[Finding]:
    """Yield which agent `handspan chat` would begin with, which model it would talk to, and why (SPEC M5)."""
    model = ""
    try:
        agent = (await request.parts.app.agents.find(owner=request.owner)).agent
        model = agent.model
        yield Finding("agent", True, f"{agent.name!r} is meant where none is named")
    except StoreError:
        pass  # the check `store` says what to do
    except HandspanError as error:
        remedy = "correct default_agent, or make that agent: `handspan agents create NAME`"
        yield Finding("agent", False, str(error), remedy)
    try:
        yield Finding("model", True, (await choose_model(request, model)).why)
    except HandspanError as error:
        remedy = "correct the settings, or set the key; `handspan model which` asks again"
        yield Finding("model", False, str(error), remedy)


async def _check_state(request: RestRequest) -> Finding:
    """Return whether the store takes writes."""
    problem = await request.parts.store.check_writes()
    if request.parts.app.settings.store.url:
        remedy = "do what the message says; the gateway tries again by itself" if problem else ""
        return Finding("store", not problem, problem or "PostgreSQL takes writes", remedy)
    remedy = "make room, or let this user write the folder; or choose another one: --state" if problem else ""
    return Finding("state", not problem, problem or str(request.parts.app.settings.state), remedy)


async def _check_artifacts(request: RestRequest) -> AsyncIterator[Finding]:
    """Yield whether artifacts can be stored, where they are not in the database."""
    store = request.parts.app.settings.store
    if not store.url or store.objects.url:
        problem = await request.parts.artifacts.check()
        remedy = "do what the message says" if problem else ""
        where = store.objects.url if store.url else "the state folder"
        yield Finding("artifacts", not problem, problem or f"{where} takes them", remedy)


def _channels(app: App) -> Iterator[Finding]:
    """Yield whether each channel works. A gateway inside a command does not listen: `ready` is enough."""
    for queue in app.messages:
        state = queue.state
        is_ok = state.status in ("ready", "listening")
        text = f"{state.kind}, {state.status}" + (f": {state.reason}" if state.reason else "")
        remedy = "" if is_ok else "do what the message says; `handspan channels test` tries it"
        yield Finding(f"channel {queue.name}", is_ok, text, remedy)


def source_findings(name: str, state: SourceState) -> Iterator[Finding]:
    """Yield the state of a source of tools, then each tool of it that can't be used."""
    is_ok = state.status != "failed"
    yield Finding(
        f"source {name}",
        is_ok,
        describe_state(state),
        "" if is_ok else "do what the message says, or remove the source",
    )
    for broken in state.broken:
        yield Finding("tool", False, f"{broken.where}: {broken.problem}", "repair or remove it")
