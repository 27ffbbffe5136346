"""Where settings come from, the later over the earlier: defaults, one file, the environment, the command line."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from handspan.config.check import Key, RawText, Reading, SettingPlace, Values
from handspan.config.formats import read_file
from handspan.config.forms import build
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.fast import FAST_VARIABLE
from handspan.core.values import Json

PREFIX: Final = "HANDSPAN_"
FILE_VARIABLE: Final = "HANDSPAN_CONFIG"


def load_settings(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Json] | None = None
) -> Settings:
    """The settings of this user; a `ConfigError` lists everything that is wrong with them.

    `path` is the file, None the default one; `environ` the environment, None the real one. `overrides` come from
    flags: their keys may be dotted ("tools.result_limit"), None counts as not given, and a `RawText` is read as in
    the environment.
    """
    environ = os.environ if environ is None else environ
    merged: Values = {}
    errors: list[str] = []
    sources: dict[Key, str] = {}
    file = find_file(environ) if path is None else path
    for layer in _layers(file, _content(file, errors), environ, overrides or {}):
        given: Values = Reading(layer.place, errors).read(Settings, layer.values, below=merged)
        _merge(merged, given, sources, layer.place.source)
    errors.extend(_contradictions(merged, sources))
    if environ.get(FAST_VARIABLE, "on") not in ("on", "off"):
        errors.append(f"environment variable {FAST_VARIABLE}: {environ[FAST_VARIABLE]!r} is neither 'on' nor 'off'.")
    if errors:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {error}" for error in errors)]))
    settings: Settings = build(Settings, merged)
    return settings


def find_file(environ: Mapping[str, str]) -> Path | None:
    """The settings file of this user: `$HANDSPAN_CONFIG`, else config.toml or config.json in the usual folder."""
    if named := environ.get(FILE_VARIABLE):
        return _home(environ) / named[2:] if named.startswith("~/") else Path(named)
    folder = folder_of(None, environ)
    there = [file for file in (folder / "config.toml", folder / "config.json") if os.path.lexists(file)]
    if len(there) > 1:
        raise ConfigError(f"Both {there[0]} and {there[1]} are there. Keep one of them.")
    return there[0] if there else None


def folder_of(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The folder of that settings file, or the usual one: a person's own tools stand there, in `tools/` (SPEC T6)."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "handspan" if path is None else path.absolute().parent


class _Layer(NamedTuple):
    place: SettingPlace
    values: Mapping[str, Any]


def _content(file: Path | None, errors: list[str]) -> Mapping[str, Any]:
    """What the file says; nothing where it can't be read, which then stands among the errors."""
    try:
        return {} if file is None else read_file(file)
    except ConfigError as error:
        errors.append(str(error))
        return {}


def _layers(
    file: Path | None, content: Mapping[str, Any], environ: Mapping[str, str], overrides: Mapping[str, Json]
) -> Iterator[_Layer]:
    home, here = _home(environ), Path()
    yield _Layer(SettingPlace("default", here, home), _defaults(environ))
    if file is not None:
        yield _Layer(SettingPlace(str(file), file.parent, home), content)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in (FILE_VARIABLE, FAST_VARIABLE):
            place = SettingPlace(f"environment variable {name}", here, home, capitals=True)
            yield _Layer(place, _nested(name.removeprefix(PREFIX).split("__"), RawText(environ[name])))
    for dotted, value in overrides.items():
        if value is not None:
            yield _Layer(SettingPlace("command line", here, home), _nested(dotted.split("."), value))


def _defaults(environ: Mapping[str, str]) -> Values:
    return {
        "workspace": str(_xdg(environ, "XDG_DATA_HOME", ".local/share") / "handspan" / "workspace"),
        "state": str(_xdg(environ, "XDG_STATE_HOME", ".local/state") / "handspan"),
        "agents": {"General": {}},
    }


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """A folder of the XDG base directory specification, which has relative ones ignored."""
    named = environ.get(variable, "")
    return Path(named) if named.startswith("/") else _home(environ) / fallback


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _nested(keys: list[str], value: Any) -> Values:
    """The value below its keys."""
    for key in reversed(keys):
        value = {key: value}
    nested: Values = value
    return nested


def _merge(under: Values, over: Values, sources: dict[Key, str], source: str, key: Key = ()) -> None:
    """Put the values of one layer over those below, and remember whose they are."""
    for name, value in over.items():
        here = (*key, name)
        sources[here] = source
        if isinstance(value, dict):
            below = under.get(name)
            under[name] = below if isinstance(below, dict) else {}
            _merge(under[name], value, sources, source, here)
        else:
            under[name] = value


def _contradictions(values: Values, sources: Mapping[Key, str]) -> Iterator[str]:
    """What is right by itself but not together."""
    tools = values.get("tools")
    servers = tools.get("mcp_servers") if isinstance(tools, dict) else None
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if isinstance(server, dict) and not server.get("command") and not server.get("url"):
            key: Key = ("tools", "mcp_servers", name)
            yield f"{sources[key]}: {'.'.join(key)}: it needs a 'command' to start or a 'url' to ask."
    gateway = values.get("gateway")
    if isinstance(gateway, dict) and gateway.get("tls_key") is not None and gateway.get("tls_cert") is None:
        yield f"{sources['gateway', 'tls_key']}: gateway.tls_key: it needs its certificate, gateway.tls_cert."
