"""MCP servers in a file of their own, `mcp.json`, in the form that other MCP clients use: `{"mcpServers": {…}}`.

A person can copy such a file from another program. `handspan mcp add` and the gateway's API write it. The servers in
goose's settings (`config.yaml`) have other words: `read_servers` turns them into ours.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from handspan.config.formats import read_file, read_yaml
from handspan.config.other_writers import check_writers
from handspan.config.private_files import make_private, replace_private
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError

NAME: Final = "mcp.json"
_LISTS: Final = ("mcpServers", "mcp_servers", "servers")
"""The key of the servers: most programs, ours, VS Code."""
_FOREIGN: Final = frozenset(("type", "transport", "disabled", "enabled", "autoApprove", "alwaysAllow", "name"))
"""Keys of other programs that mean nothing to us, or that this module handles itself."""
_YAML: Final = (".yaml", ".yml")
_GOOSE_LIST: Final = "extensions"
_GOOSE_KEYS: Final = {
    "cmd": "command",
    "args": "args",
    "uri": "url",
    "headers": "headers",
    "timeout": "timeout",
    "enabled": "enabled",
}
"""Keys of a server in goose's settings, and ours for them."""


def read_servers(path: Path) -> dict[str, Any]:
    """Return the servers of an `mcp.json` by name, as settings; none if there is no file. Raises `ConfigError`.

    Models see the tools of such a server: `internal_only` is false unless the file says otherwise.
    """
    return {name: _server(path, name, given) for name, given in _entries(path).items() if not _is_off(given)}


def names_in(path: Path) -> frozenset[str]:
    """Return the names of all servers in the file, also of those that are switched off. Raises `ConfigError`."""
    return frozenset(_entries(path))


def _entries(path: Path) -> dict[str, Any]:
    """Return the servers of the file as they are written there; none if there is no file."""
    if not path.exists():
        return {}
    content = _from_goose(read_yaml(path)) if path.suffix.lower() in _YAML else read_file(path)
    servers: Any = next((content[key] for key in _LISTS if key in content), {})
    if not isinstance(servers, dict):
        raise ConfigError(f'{path}: "mcpServers" has to be an object with one entry for each server.')
    return servers


def _server(path: Path, name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: the server {name!r} has to be an object with a 'command' or a 'url'.")
    known = {key: value for key, value in given.items() if key not in _FOREIGN}
    return known if {"internal_only", "internalOnly"} & set(known) else {**known, "internal_only": False}


def _from_goose(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return goose's settings in our words. Extensions of goose that are no MCP servers are left out."""
    listed: Any = content.get(_GOOSE_LIST) or {}
    if not isinstance(listed, dict):
        return {_LISTS[0]: listed}
    kinds = ("stdio", "streamable_http")
    found = {name: given for name, given in listed.items() if isinstance(given, dict) and given.get("type") in kinds}
    return {_LISTS[0]: {str(name): _from_goose_server(given) for name, given in found.items()}}


def _from_goose_server(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return one server in our words. The values of `env_keys` are in goose's key store: we read our environment."""
    server = {ours: given[key] for key, ours in _GOOSE_KEYS.items() if given.get(key) is not None}
    keys = {str(key): f"env:{key}" for key in given.get("env_keys") or ()}
    env = {**keys, **(given.get("envs") or {})}
    allow = given.get("available_tools")  # empty: all tools
    return {**server, **({"env": env} if env else {}), **({"allow": allow} if allow else {})}


def _is_off(given: Any) -> bool:
    return isinstance(given, dict) and (given.get("disabled") is True or given.get("enabled") is False)


def write_server(path: Path, name: str, server: McpServer | None) -> None:
    """Write one server into the file, or remove it with None. Raises `OSError`, and `ConfigError` for a broken file.

    Everything else in the file stays as it is now: servers that are switched off, and what only other programs read.
    The file may hold keys, so only its owner can read it.
    """
    check_writers(path)  # else a server that another user has entered would be taken from now on
    content = read_file(path) if path.exists() else {}
    key = next((key for key in _LISTS if key in content), _LISTS[0])
    servers = dict(content.get(key) or {})
    before = servers.pop(name, {})
    if server is not None:
        kept = _FOREIGN - {"disabled", "enabled"}  # a server that is added again is switched on
        foreign = {key: before[key] for key in before if key in kept} if isinstance(before, dict) else {}
        servers[name] = {**foreign, **_changed_fields(server)}
    make_private(path.parent)
    replace_private(path, json.dumps({**content, key: servers}, indent=2).encode() + b"\n")


def _changed_fields(server: McpServer) -> dict[str, Any]:
    """Return the fields that differ from their defaults in such a file."""
    given: dict[str, Any] = msgspec.to_builtins(server)
    defaults = {**msgspec.to_builtins(McpServer()), "internal_only": False}
    return {key: value for key, value in given.items() if value != defaults[key]}
