"""`handspan config`: where the settings are, which are in force and why, and whether they can be used (SPEC U2, U4)."""

import asyncio
import os
import tempfile
from pathlib import Path

import click
import msgspec

from handspan.cli.door import RequestCommand, find_gateway, request_options
from handspan.cli.options import CommandGroup, config_folder, json_option, read_loaded_settings, settings_options
from handspan.cli.render import print_as_json, print_done, print_rows
from handspan.config.example import example_file
from handspan.config.listing import setting_rows, shorten_keys
from handspan.config.load import load_with_sources
from handspan.config.settings import Settings
from handspan.config.store_settings import StoreSettings
from handspan.core.errors import ConfigError
from handspan.core.values import Json
from handspan.gateway.app import App
from handspan.gateway.setting_problems import find_problems
from handspan.wire.rest.status import SettingsInForce, SettingView


@click.group("config", cls=CommandGroup, invoke_without_command=True)
@request_options
def command() -> None:
    """Print every setting, its value and its source: those of the gateway that runs, else those of this command.

    Keys and passwords are shown as '…'.
    """
    _show(())


@command.command("show", cls=RequestCommand)
@click.argument("keys", metavar="[KEY]…", nargs=-1)
def show(keys: tuple[str, ...]) -> None:
    """Print every setting with its value and its source, or only those below each KEY, such as tools.sandbox."""
    _show(keys)


def _show(keys: tuple[str, ...]) -> None:
    """Print these settings, or all: value and source."""
    remote = find_gateway()
    shown = _read_here() if remote is None else remote.get("/api/settings", SettingsInForce)
    rows = [row for row in shown.settings if not keys or any(f"{row.key}.".startswith(f"{key}.") for key in keys)]
    if not rows:
        raise click.UsageError(f"There is no setting {', '.join(keys)}: `handspan config show` lists all.")
    if print_as_json(msgspec.structs.replace(shown, settings=rows)):
        return
    click.echo(f"File: {shown.file or 'none'}")
    for line in describe_changes(shown):
        click.echo(f"      {line}")
    print_rows(("setting", "value", "source"), [(row.key, _render(row.value), row.source) for row in rows])


@command.command("path")
@json_option
@settings_options
def path() -> None:
    """Print the path of the settings file; of the usual one if there is none yet."""
    loaded = read_loaded_settings()
    file = loaded.file or config_folder() / "config.toml"
    print_done({"file": str(file), "exists": loaded.file is not None}, str(file))


@command.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@json_option
@settings_options
def check(file: Path | None) -> None:
    """Say whether the settings, or those of FILE, can be used. Exit code 1: they can't, with every reason.

    Keys are looked for in the environment of this command; folders are tried and left as they are. Names of tools are
    compared with those that are there without MCP servers and devices.
    """
    loaded = read_loaded_settings() if file is None else load_with_sources(file)
    folder = config_folder() if file is None else file.absolute().parent
    problems = find_problems(loaded.settings, os.environ) or asyncio.run(_find_notes(loaded.settings, folder))
    if problems:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {problem}" for problem in problems)]))
    text = f"{loaded.file}: no error." if loaded.file else "There is no settings file, and no error elsewhere."
    answer = {"file": None if loaded.file is None else str(loaded.file), "ok": True}
    print_done(answer, text)


@command.command("example")
def example() -> None:
    """Print a settings file (TOML) with every setting, its meaning and its default, all as comments."""
    click.echo(example_file(), nl=False)


async def _find_notes(settings: Settings, folder: Path) -> list[str]:
    """Return a sentence for each setting that names a tool that is not there. Nothing is left in any folder."""
    with tempfile.TemporaryDirectory() as place:
        away = msgspec.structs.replace(
            settings, state=Path(place, "state"), workspace=Path(place, "workspace"), store=StoreSettings()
        )
        async with App(away, config_folder=folder, starts_servers=False) as app:
            return app.setting_notes


def describe_changes(shown: SettingsInForce) -> list[str]:
    """Return what the settings file says that is not in force, and how to apply it."""
    if shown.problem:
        return [f"changed since start, and can't be used: {shown.problem}"]
    changes = (("`handspan reload` applies", shown.reloadable), ("restart the gateway to apply", shown.needs_restart))
    return [f"changed since start; {how} {', '.join(shorten_keys(keys))}" for how, keys in changes if keys]


def _read_here() -> SettingsInForce:
    loaded = read_loaded_settings()
    rows = [SettingView(*row) for row in setting_rows(loaded)]
    return SettingsInForce(None if loaded.file is None else str(loaded.file), is_changed=False, settings=rows)


def _render(value: Json) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
