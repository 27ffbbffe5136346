"""`handspan config`: the settings that are in force, each with its source (SPEC U2, U4)."""

import click
import msgspec

from handspan.cli.door import find_gateway, place_options
from handspan.cli.options import json_option, read_loaded_settings, settings_options
from handspan.cli.render import print_json, print_rows
from handspan.config.listing import setting_rows
from handspan.core.values import Json
from handspan.wire.rest.status import SettingsInForce, SettingView


@click.command("config")
@json_option
@settings_options
@place_options
def command(as_json: bool) -> None:
    """Print every setting, its value and its source: those of the gateway that runs, else those of this command.

    Keys and passwords are shown as '…'.
    """
    remote = find_gateway(says=not as_json)
    shown = _read_here() if remote is None else remote.get("/api/settings", SettingsInForce)
    if as_json:
        print_json(shown)
        return
    click.echo(f"File: {shown.file or 'none'}")
    if shown.is_changed:
        click.echo("      changed since start; restart the gateway to apply it")
    print_rows(("setting", "value", "source"), [(row.key, _render(row.value), row.source) for row in shown.settings])


def _read_here() -> SettingsInForce:
    loaded = read_loaded_settings()
    rows = [SettingView(*row) for row in setting_rows(loaded)]
    return SettingsInForce(None if loaded.file is None else str(loaded.file), False, rows)


def _render(value: Json) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
