"""Loads the settings: defaults, then one file, the environment and the command line; the later ones win."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from handspan.config import mcp_file
from handspan.config.check import Key, RawText, SettingPlace, SettingReader, Values
from handspan.config.formats import read_file
from handspan.config.other_writers import check_writers
from handspan.config.setting_types import PREFIX, build
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.fast import FAST_VARIABLE
from handspan.core.values import Json

_NOTHING_TO_REACH: Final = "it needs a 'command' to start or a 'url' to ask"
FILE_VARIABLE: Final = "HANDSPAN_CONFIG"
_SHORT: Final = {"HANDSPAN_DATABASE_URL": ["STORE", "URL"], "HANDSPAN_CLUSTER": ["CLUSTER", "URL"]}
"""Variables that are named after what they hold, and not after the key of their setting."""


def load_settings(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Json] | None = None
) -> Settings:
    """Return the settings of this user. Raises `ConfigError` with everything that is wrong with them.

    The arguments are those of `load_with_sources`.
    """
    return load_with_sources(path, environ, overrides).settings


class LoadedSettings(NamedTuple):
    """Settings, and where they come from."""

    settings: Settings
    file: Path | None
    """The file that was read; None if there is none."""
    sources: Mapping[Key, str]
    """The source of each key that is given: the file, a variable, the command line. The others have their default."""
    reload: "Callable[[], LoadedSettings] | None" = None
    """Reads the same sources again, with the same variables and flags; None: a program made the settings."""


def load_with_sources(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Json] | None = None,
    *,
    with_servers: bool = True,
    may_be_missing: bool = False,
) -> LoadedSettings:
    """Return the settings of this user and their sources. Raises `ConfigError` with everything that is wrong.

    `path`: the file; None is the default one. `environ`: the environment; None is the real one. `overrides` come from
    flags: their keys may be dotted ("tools.result_limit"), None counts as not given, and a `RawText` is read as in
    the environment. Without `with_servers`, `mcp.json` is not read: only a gateway needs its servers. With
    `may_be_missing`, a named file that is not there says nothing, as the default one.
    """
    environ = os.environ if environ is None else environ
    errors: list[str] = []
    sources: dict[Key, str] = {}
    file = find_file(environ) if path is None else path
    servers = _read(folder_of(file, environ) / mcp_file.NAME, mcp_file.read_servers, errors) if with_servers else {}
    is_missing = may_be_missing and file is not None and not os.path.lexists(file)
    content = {} if is_missing else _read(file, read_file, errors)
    merged = _merge_layers(_layers(file, servers, content, environ, overrides=overrides or {}), errors, sources)
    if with_servers:  # else those are missing that the other sources add to
        errors.extend(_incomplete_servers(merged, sources))
    errors.extend(_contradictions(merged, sources))
    if environ.get(FAST_VARIABLE, "on") not in ("on", "off"):
        errors.append(f"environment variable {FAST_VARIABLE}: {environ[FAST_VARIABLE]!r} is neither 'on' nor 'off'.")
    _raise(errors)
    reload = partial(load_with_sources, path, dict(environ), overrides, with_servers=with_servers)
    return LoadedSettings(build(Settings, merged), file, sources, reload)


def load_place(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Json] | None = None
) -> Settings:
    """Return settings that have only what finds a gateway: its state folder, workspace and certificate.

    Everything else is as by default: a mistake there keeps no command from a gateway that runs. The arguments are those
    of `load_with_sources`. Raises `ConfigError` when the file can't be read, or one of the three is wrong.
    """
    environ = os.environ if environ is None else environ
    errors: list[str] = []
    file = find_file(environ) if path is None else path
    layers = _layers(file, {}, _read(file, read_file, errors), environ, overrides=overrides or {})
    merged = _merge_layers((_Layer(layer.place, _of_place(layer.values)) for layer in layers), errors, {})
    _raise(errors)
    found: Settings = build(Settings, merged)
    return found


def _of_place(values: Mapping[str, Any]) -> Values:
    """Return those values that find a gateway. Names of variables are in capitals."""
    found = {name: value for name, value in values.items() if name.lower() in ("state", "workspace")}
    for name, value in values.items():
        if name.lower() == "gateway" and isinstance(value, Mapping):
            found[name] = {inner: one for inner, one in value.items() if inner.replace("_", "").lower() == "tlscert"}
    return found


def _raise(errors: list[str]) -> None:
    """Raise `ConfigError` if there are errors."""
    if errors:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {error}" for error in errors)]))


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Return the settings file of this user: `$HANDSPAN_CONFIG`, or config.toml or config.json in the usual folder."""
    if named := environ.get(FILE_VARIABLE):
        return _home(environ) / named[2:] if named.startswith("~/") else Path(named)
    folder = folder_of(None, environ)
    files = [file for file in (folder / "config.toml", folder / "config.json") if os.path.lexists(file)]
    if len(files) > 1:
        raise ConfigError(f"Both {files[0]} and {files[1]} are there. Keep one of them.")
    return files[0] if files else None


def folder_of(path: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of this settings file, or the usual one. A person's own tools are in its `tools/` (SPEC T6)."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "handspan" if path is None else path.absolute().parent


class _Layer(NamedTuple):
    place: SettingPlace
    values: Mapping[str, Any]


def _read(file: Path | None, read: Callable[[Path], Mapping[str, Any]], errors: list[str]) -> Mapping[str, Any]:
    """Return the content of the file. If it can't be read or trusted, add an error and return an empty one."""
    try:
        if file is None:
            return {}
        check_writers(file)
        return read(file)
    except ConfigError as error:
        errors.append(str(error))
        return {}


def _layers(
    file: Path | None,
    servers: Mapping[str, Any],
    content: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Mapping[str, Json],
) -> Iterator[_Layer]:
    """Yield the sources of settings, the weakest first."""
    home, here = _home(environ), Path()
    yield _Layer(SettingPlace("default", here, home), _defaults(environ))
    if servers:
        folder = folder_of(file, environ)
        place = SettingPlace(str(folder / mcp_file.NAME), folder, home)
        yield _Layer(place, {"tools": {"mcp_servers": servers}})
    if file is not None:
        yield _Layer(SettingPlace(str(file), file.parent, home), content)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in (FILE_VARIABLE, FAST_VARIABLE):
            place = SettingPlace(f"environment variable {name}", here, home, capitals=True)
            keys = _SHORT.get(name) or name.removeprefix(PREFIX).split("__")
            yield _Layer(place, _nest(keys, RawText(environ[name])))
    for dotted, value in overrides.items():
        if value is not None:
            yield _Layer(SettingPlace("command line", here, home), _nest(dotted.split("."), value))


def _defaults(environ: Mapping[str, str]) -> Values:
    return {
        "workspace": str(_xdg(environ, "XDG_DATA_HOME", ".local/share") / "handspan" / "workspace"),
        "state": str(_xdg(environ, "XDG_STATE_HOME", ".local/state") / "handspan"),
        "agents": {"General": {}},
    }


def _xdg(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    """Return a folder of the XDG base directory specification, which ignores relative paths."""
    named = environ.get(variable, "")
    return Path(named) if named.startswith("/") else _home(environ) / fallback


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _nest(keys: list[str], value: Any) -> Values:
    """Return the value inside dicts, one for each key."""
    for key in reversed(keys):
        value = {key: value}
    nested: Values = value
    return nested


def _merge_layers(layers: Iterable[_Layer], errors: list[str], sources: dict[Key, str]) -> Values:
    """Return the values of all layers, and note the source of each."""
    merged: Values = {}
    for layer in layers:
        given: Values = SettingReader(layer.place, errors).read(Settings, layer.values, below=merged)
        _merge(merged, given, sources, layer.place.source)
    return merged


def _merge(under: Values, over: Values, sources: dict[Key, str], source: str, key: Key = ()) -> None:
    """Put the values of one layer over those of earlier layers, and note their source."""
    for name, value in over.items():
        here = (*key, name)
        sources[here] = source
        if isinstance(value, dict):
            below = under.get(name)
            under[name] = below if isinstance(below, dict) else {}
            _merge(under[name], value, sources, source, key=here)
        else:
            under[name] = value


def _incomplete_servers(values: Values, sources: Mapping[Key, str]) -> Iterator[str]:
    """Yield the errors of MCP servers of which nothing says how to reach them, or two things do."""
    tools = values.get("tools")
    servers = tools.get("mcp_servers") if isinstance(tools, dict) else None
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if not isinstance(server, dict) or bool(server.get("command")) != bool(server.get("url")):
            continue
        key: Key = ("tools", "mcp_servers", name)
        wrong = "it has a 'command' and a 'url': keep one" if server.get("url") else _NOTHING_TO_REACH
        yield f"{sources[key]}: {'.'.join(key)}: {wrong}."


def _contradictions(values: Values, sources: Mapping[Key, str]) -> Iterator[str]:
    """Return the errors of settings that do not fit together."""
    cluster, store = values.get("cluster"), values.get("store")
    if isinstance(cluster, dict) and cluster.get("url") and not (isinstance(store, dict) and store.get("url")):
        text = "several gateways share their state in PostgreSQL: set store.url (HANDSPAN_DATABASE_URL), too."
        yield f"{sources['cluster', 'url']}: cluster.url: {text}"
    gateway = values.get("gateway")
    if isinstance(gateway, dict) and gateway.get("tls_key") is not None and gateway.get("tls_cert") is None:
        yield f"{sources['gateway', 'tls_key']}: gateway.tls_key: it needs its certificate, gateway.tls_cert."
