"""`handspan tools`: what there is, why one can't be used, and the switches (SPEC R8, R9, A1)."""

import asyncio
import shutil
import sys

import click
import msgspec

from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.gateway.app import App
from handspan.registry.entry import Entry
from handspan.registry.registry import is_named_by


@click.group("tools", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.option("--agent", help="Only what this agent may use.")
@settings_options
@click.pass_context
def command(ctx: click.Context, as_json: bool, agent: str | None) -> None:
    """List the tools: name, description, origin, version, permissions."""
    if ctx.invoked_subcommand is None:
        asyncio.run(_list(as_json, agent))


@command.command("why")
@click.argument("name")
@click.option("--agent", help="The agent to ask about; default: the default agent of the settings.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options
def why(name: str, agent: str | None, as_json: bool) -> None:
    """Say why an agent can or can't use the tool NAME. Exit code 1: it can't."""
    sys.exit(asyncio.run(_why(name, agent, as_json)))


@command.command("disable")
@click.argument("pattern")
@settings_options
def disable(pattern: str) -> None:
    """Switch off for everybody what PATTERN names: a tool, a glob, origin:KIND or origin:KIND(NAME)."""
    asyncio.run(_switch(pattern, on=False))


@command.command("enable")
@click.argument("pattern")
@settings_options
def enable(pattern: str) -> None:
    """Take back `disable` of exactly this PATTERN."""
    asyncio.run(_switch(pattern, on=True))


async def _list(as_json: bool, agent: str | None) -> None:
    async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
        usable = {spec.name for spec in app.caller(await app.find_agent(agent)).box.specs()}
        entries = sorted(app.registry, key=lambda entry: entry.spec.name)
        rows = [_row(entry, app) for entry in entries if agent is None or entry.spec.name in usable]
        for broken in app.broken:
            click.echo(f"skipped {broken.where}: {broken.problem}", err=True)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        click.echo(_table(rows))


def _row(entry: Entry, app: App) -> JsonObject:
    spec = entry.spec
    return {
        "name": spec.name,
        "description": spec.description,
        "origin": str(entry.origin),
        "version": spec.version,
        "permissions": list(spec.permissions),
        "enabled": app.registry.disabled_by(entry) is None,
        "timeout": entry.timeout,
        "parameters": spec.parameters,
    }


def _table(rows: list[JsonObject]) -> str:
    """One line a tool, as wide as the terminal."""
    columns = ("name", "origin", "version", "permissions")
    cells = [
        [", ".join(map(str, value)) if isinstance(value := row[key], list) else str(value) for key in columns]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    room = shutil.get_terminal_size((120, 24)).columns
    lines = [(columns, "description"), *zip(cells, (_said(row) for row in rows), strict=True)]
    return "\n".join(
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=True)), words])[:room].rstrip()
        for line, words in lines
    )


def _said(row: JsonObject) -> str:
    off = "" if row["enabled"] else "(off) "
    return off + " ".join(str(row["description"]).split())


async def _why(name: str, agent: str | None, as_json: bool) -> int:
    async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
        caller = app.caller(await app.find_agent(agent))
        reasons = caller.box.why(name)
    can = all(reason.ok for reason in reasons)
    if as_json:
        said = {"tool": name, "agent": caller.agent.name, "usable": can, "reasons": msgspec.to_builtins(reasons)}
        click.echo(msgspec.json.format(msgspec.json.encode(said)).decode())
    else:
        click.echo(f"The agent {caller.agent.name!r} {'can' if can else 'can not'} use {name!r}:")
        for reason in reasons:
            click.echo(f"  {'yes' if reason.ok else 'NO '}  {reason.text}")
    return 0 if can else 1


async def _switch(pattern: str, *, on: bool) -> None:
    async with App(read_settings(), config_folder=config_folder()) as app:
        if not on and not any(is_named_by(pattern, entry) for entry in app.registry):
            hint = did_you_mean(pattern, (entry.spec.name for entry in app.registry))
            click.echo(f"Note: {pattern!r} names no tool that is here now.{hint}", err=True)
        if on and pattern in app.settings.tools.disabled:
            raise ConfigError(f"{pattern!r} is switched off in the settings (tools.disabled): remove it there")
        changed = app.switches.switch_on(pattern) if on else app.switches.switch_off(pattern)
    state = "on" if on else "off"
    click.echo(
        f"{pattern} is {state}."
        if changed
        else f"{pattern} was not switched off."
        if on
        else f"{pattern} was already off."
    )
