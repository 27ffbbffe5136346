"""`handspan doctor`: does everything work here, and what to do where it does not."""

import asyncio
import platform
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import HandspanError
from handspan.core.results import Success
from handspan.core.version import VERSION
from handspan.gateway.app import App

_LIBRARIES = ("msgspec", "jsonschema-rs", "httpx2", "pydantic", "click")


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options
def command(as_json: bool) -> None:
    """See whether everything works here, and what to do where it does not. Exit code 1: something does not."""
    findings = asyncio.run(_collect())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        for finding in findings:
            click.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.what}: {finding.found}")
            if finding.remedy:
                click.echo(f"      do this: {finding.remedy}")
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


async def _collect() -> list[Finding]:
    return [finding async for finding in _findings()]


async def _findings() -> AsyncIterator[Finding]:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("versions", True, f"handspan {VERSION}, Python {platform.python_version()}, {libraries}")
    try:
        settings = read_settings()
        yield Finding("configuration", True, f"read; folder {config_folder()}")
        async with App(settings, config_folder=config_folder(), durable=True) as app:
            async for finding in _of_app(app):
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
    yield await _model(app)
    yield Finding("tools", True, f"{len(app.registry)} registered")
    for broken in app.broken:
        yield Finding("tool", False, f"{broken.where}: {broken.problem}", "repair or remove it")


async def _model(app: App) -> Finding:
    """Which model `handspan chat` would talk to, and why (SPEC M5)."""
    try:
        agent = await app.find_agent()
        return Finding("model", True, (await app.choose_model(agent.model)).why)
    except HandspanError as error:
        return Finding(
            "model", False, str(error), "correct the settings, or set the key; `handspan model which` asks again"
        )


async def _workspace(app: App) -> Finding:
    """Write and read a file through the engine, as an agent would."""
    folder, caller = app.settings.workspace, app.caller()
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
