"""`handspan config`: the settings that are in force, each with its source (SPEC U2, U4)."""

import re
from collections.abc import Iterator
from typing import Final

import click
import msgspec
from msgspec import Struct

from handspan.cli.options import json_option, read_loaded_settings, settings_options
from handspan.cli.render import print_json, print_rows
from handspan.core.values import Json

_SECRETS: Final = frozenset(("api_key", "key", "password", "secret", "token"))
"""Settings whose values are secret."""
_SECRET_TABLES: Final = frozenset(("env", "headers", "options"))
"""Tables in which every value may be secret."""
_REFERENCES: Final = ("env:", "file:")
"""What a key begins with that only says where the key is."""
_USER_OF_URL: Final = r"(?<=://)[^/@\s]+(?=@)"


class SettingRow(Struct, frozen=True):
    """One setting."""

    key: str
    value: Json
    source: str
    """`default`, the file, `environment variable NAME`, or `command line`."""


class _Config(Struct, frozen=True):
    file: str | None
    settings: list[SettingRow]


@click.command("config")
@json_option
@settings_options
def command(as_json: bool) -> None:
    """Print every setting, its value and its source. Keys and passwords are shown as '…'."""
    loaded = read_loaded_settings()
    rows = [
        SettingRow(".".join(key), hide_secret(key, value), loaded.sources.get(key, "default"))
        for key, value in _values(msgspec.to_builtins(loaded.settings, enc_hook=str))
    ]
    if as_json:
        print_json(_Config(None if loaded.file is None else str(loaded.file), rows))
        return
    click.echo(f"File: {loaded.file or 'none'}")
    print_rows(("setting", "value", "source"), [(row.key, _render(row.value), row.source) for row in rows])


def hide_secret(key: tuple[str, ...], value: Json) -> Json:
    """The value as it may be shown."""
    if not value or not isinstance(value, str):
        return "…" if value and _SECRET_TABLES & set(key) else value
    is_secret = key[-1] in _SECRETS and not value.startswith(_REFERENCES)
    return "…" if is_secret or _SECRET_TABLES & set(key) else re.sub(_USER_OF_URL, "…", value)


def _values(value: Json, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Each value that is no table, with its key; an empty table counts as a value."""
    if isinstance(value, dict) and (value or not key):
        for name, item in value.items():
            yield from _values(item, (*key, name))
    else:
        yield key, value


def _render(value: Json) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
