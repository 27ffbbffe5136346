"""`handspan doctor`: does everything work here, and what to do where it does not."""

import asyncio
import platform
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path

import click

from handspan.cli.doctor_gateway import Finding, gateway_findings, source_findings
from handspan.cli.options import config_folder, json_option, read_settings, settings_options
from handspan.cli.render import print_json
from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import HandspanError
from handspan.core.results import Success
from handspan.core.version import VERSION
from handspan.gateway.app import App

_LIBRARIES = ("msgspec", "jsonschema-rs", "httpx2", "pydantic", "click")


@click.command("doctor")
@click.option("--url", help="Look at the gateway there too; default: the one that serves the state folder.")
@click.option("--token", help="The token to show to it; default: the operator's, where this user can read it.")
@json_option
@settings_options
def command(url: str | None, token: str | None, as_json: bool) -> None:
    """See whether everything works here, and what to do where it does not. Exit code 1: something does not."""
    findings = asyncio.run(_collect(url, token))
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            click.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.what}: {finding.found}")
            if finding.remedy:
                click.echo(f"      do this: {finding.remedy}")
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


async def _collect(url: str | None, token: str | None) -> list[Finding]:
    return [finding async for finding in _findings(url, token)]


async def _findings(url: str | None, token: str | None) -> AsyncIterator[Finding]:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("versions", True, f"handspan {VERSION}, Python {platform.python_version()}, {libraries}")
    try:
        settings = read_settings()
        yield Finding("configuration", True, f"read; folder {config_folder()}")
        async with App(settings, config_folder=config_folder(), durable=True) as app:
            async for finding in _of_app(app):
                yield finding
        for finding in await asyncio.to_thread(lambda: list(gateway_findings(settings, url, token))):
            yield finding
    except HandspanError as error:
        yield Finding("configuration", False, str(error), "correct the settings")


async def _of_app(app: App) -> AsyncIterator[Finding]:
    yield await _workspace(app)
    yield Finding("state", True, str(app.settings.state))
    report = await app.sandbox.ready()
    yield Finding(
        "sandbox",
        report.active and not report.warning,
        f"{'active' if report.active else 'NOT active'}: {report.reason}"
        + (f"; {report.warning}" if report.warning else ""),
        report.remedy,
    )
    async for finding in _agent_and_model(app):
        yield finding
    yield Finding("tools", True, f"{len(app.registry)} registered")
    for note in app.setting_notes:
        yield Finding("setting", False, note, "correct the setting, or take it out")
    for finding in source_findings("source", {source.name: source.state for source in app.sources}):
        yield finding


async def _agent_and_model(app: App) -> AsyncIterator[Finding]:
    """Which agent `handspan chat` would begin with, which model it would talk to, and why (SPEC M5)."""
    model = ""
    try:
        agent = await app.find_agent()
        model = agent.model
        yield Finding("agent", True, f"{agent.name!r} is meant where none is named")
    except HandspanError as error:
        yield Finding(
            "agent", False, str(error), "correct default_agent, or make that agent: `handspan agents create NAME`"
        )
    try:
        yield Finding("model", True, (await app.choose_model(model)).why)
    except HandspanError as error:
        yield Finding(
            "model", False, str(error), "correct the settings, or set the key; `handspan model which` asks again"
        )


async def _workspace(app: App) -> Finding:
    """Write and read a file through the engine, as an agent that may do everything would."""
    folder, caller = app.settings.workspace, app.caller(GENERAL)
    name = f".handspan-doctor-{new_call_id()[:8]}"
    try:
        written = await app.engine.call(
            ToolCall("write_file", {"path": name, "content": "hello"}, new_call_id()), caller
        )
        read = await app.engine.call(ToolCall("read_file", {"path": name}, new_call_id()), caller)
    finally:
        await asyncio.to_thread(Path(folder, name).unlink, missing_ok=True)
    failed = next((result for result in (written, read) if not isinstance(result, Success)), None)
    if failed is None:
        return Finding("workspace", True, f"{folder} can be written and read")
    return Finding("workspace", False, f"{folder}: {failed}", "choose a folder that can be written: --workspace")
