"""`handspan tools`: what there is, why one can't be used, and the switches (SPEC R8, R9, A1)."""

import asyncio
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from handspan.cli.as_json import print_json
from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.place import find_gateway, place_options, remote_part
from handspan.cli.tools_shown import Why, table
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.gateway.app import App
from handspan.registry.entry import Entry
from handspan.registry.registry import is_named_by

if TYPE_CHECKING:
    from handspan.cli.remote import Remote


@click.group("tools", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.option("--agent", help="Only what this agent may use.")
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool, agent: str | None) -> None:
    """List the tools: name, description, origin, version, permissions."""
    if ctx.invoked_subcommand is None:
        remote = find_gateway(says=not as_json)
        rows = asyncio.run(_rows(agent)) if remote is None else remote_part("remote_tools").tool_rows(remote, agent)
        if as_json:
            print_json(rows)
        else:
            click.echo(table(rows))


@command.command("why")
@click.argument("name")
@click.option("--agent", help="The agent to ask about; default: the default agent of the settings.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options
@place_options
def why(name: str, agent: str | None, as_json: bool) -> None:
    """Say why an agent can or can't use the tool NAME. Exit code 1: it can't."""
    remote = find_gateway(says=not as_json)
    answer: Why = (
        asyncio.run(_why(name, agent)) if remote is None else remote_part("remote_tools").why(remote, name, agent)
    )
    if as_json:
        print_json(answer)
    else:
        click.echo(f"The agent {answer.agent!r} {'can' if answer.usable else 'can not'} use {name!r}:")
        for reason in answer.reasons:
            click.echo(f"  {'yes' if reason.ok else 'NO '}  {reason.text}")
    sys.exit(0 if answer.usable else 1)


@command.command("disable")
@click.argument("pattern")
@settings_options
@place_options
def disable(pattern: str) -> None:
    """Switch off for everybody what PATTERN names: a tool, a glob, origin:KIND or origin:KIND(NAME)."""
    _switch(pattern, on=False)


@command.command("enable")
@click.argument("pattern")
@settings_options
@place_options
def enable(pattern: str) -> None:
    """Take back `disable` of exactly this PATTERN."""
    _switch(pattern, on=True)


async def _rows(agent: str | None) -> list[JsonObject]:
    async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
        usable = {spec.name for spec in app.caller(await app.find_agent(agent)).box.specs()}
        entries = sorted(app.registry, key=lambda entry: entry.spec.name)
        for broken in app.broken:
            click.echo(f"skipped {broken.where}: {broken.problem}", err=True)
        return [_row(entry, app) for entry in entries if agent is None or entry.spec.name in usable]


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


async def _why(name: str, agent: str | None) -> Why:
    async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
        caller = app.caller(await app.find_agent(agent))
        reasons = app.explain(caller.box, name)
    return Why(name, caller.agent.name, all(reason.ok for reason in reasons), reasons)


def _switch(pattern: str, *, on: bool) -> None:
    remote = find_gateway()
    changed = asyncio.run(_switch_here(pattern, on=on)) if remote is None else _switch_there(remote, pattern, on=on)
    if changed:
        click.echo(f"{pattern} is {'on' if on else 'off'}.")
    else:
        click.echo(f"{pattern} was not switched off." if on else f"{pattern} was already off.")


async def _switch_here(pattern: str, *, on: bool) -> bool:
    async with App(read_settings(), config_folder=config_folder()) as app:
        if not on and not any(is_named_by(pattern, entry) for entry in app.registry):
            _note_nothing(pattern, (entry.spec.name for entry in app.registry))
        if on and pattern in app.settings.tools.disabled:
            raise ConfigError(f"{pattern!r} is switched off in the settings (tools.disabled): remove it there")
        return await (app.switches.switch_on(pattern) if on else app.switches.switch_off(pattern))


def _switch_there(remote: "Remote", pattern: str, *, on: bool) -> bool:
    part = remote_part("remote_tools")
    changed: bool = part.switch(remote, pattern, on=on)
    is_there, names = part.tools_named(remote, pattern)
    if not on and not is_there:
        _note_nothing(pattern, names)
    return changed


def _note_nothing(pattern: str, names: Iterable[str]) -> None:
    click.echo(f"Note: {pattern!r} names no tool that is here now.{did_you_mean(pattern, names)}", err=True)
