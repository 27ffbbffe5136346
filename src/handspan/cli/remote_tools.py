"""The tools of a gateway that runs: listed, explained, switched (SPEC R8, R9)."""

from msgspec import Struct

from handspan.cli.remote import Remote, segment
from handspan.cli.tools_shown import Why
from handspan.core.errors import ConfigError
from handspan.core.names import matches
from handspan.core.principals import Origin, OriginKind, ScopeKind
from handspan.core.values import JsonObject


class _Origin(Struct, frozen=True):
    kind: OriginKind
    name: str


class _Scope(Struct, frozen=True):
    kind: ScopeKind
    id: str


class RemoteTool(Struct, frozen=True):
    """A tool as the gateway shows it."""

    name: str
    description: str
    parameters: JsonObject
    origin: _Origin
    scope: _Scope
    version: str
    permissions: tuple[str, ...]
    enabled: bool
    timeout: float | None
    agents: tuple[str, ...]


class _Tools(Struct, frozen=True):
    tools: list[RemoteTool]


class _Switched(Struct, frozen=True):
    changed: bool


class _Switches(Struct, frozen=True):
    by_settings: list[str]


def tool_rows(remote: Remote, agent: str | None) -> list[JsonObject]:
    """What the list shows of each tool; with an agent, of those that it may use."""
    tools = remote.get("/api/tools", _Tools).tools if agent is None else tools_of(remote, agent)
    return [_row(tool) for tool in tools]


def tools_of(remote: Remote, agent: str, session: str = "") -> list[RemoteTool]:
    """What this agent may use, in this session; `RemoteRefused` when there is no such agent."""
    remote.get(f"/api/agents/{segment(agent)}", JsonObject)
    tools = remote.get("/api/tools", _Tools).tools
    return [
        tool for tool in tools if agent in tool.agents and (tool.scope.kind != "session" or tool.scope.id == session)
    ]


def why(remote: Remote, name: str, agent: str | None) -> Why:
    """Why an agent can or can't use a tool."""
    return remote.get(f"/api/tools/{segment(name)}/why", Why, agent=agent or "")


def switch(remote: Remote, pattern: str, *, on: bool) -> bool:
    """Whether that changed something."""
    if on and pattern in remote.get("/api/switches", _Switches).by_settings:
        raise ConfigError(f"{pattern!r} is switched off in the settings (tools.disabled): remove it there")
    path = f"/api/switches/{'enable' if on else 'disable'}"
    return remote.change("POST", path, _Switched, {"pattern": pattern}).changed


def tools_named(remote: Remote, pattern: str) -> tuple[bool, list[str]]:
    """Whether the pattern of a switch names a tool that is there, and the names of all that are."""
    tools = remote.get("/api/tools", _Tools).tools
    return any(_is_named_by(pattern, tool) for tool in tools), [tool.name for tool in tools]


def _is_named_by(pattern: str, tool: RemoteTool) -> bool:
    if pattern.startswith("origin:"):
        origin = str(Origin(tool.origin.kind, tool.origin.name))
        return matches(pattern.removeprefix("origin:"), origin) or pattern == f"origin:{tool.origin.kind}"
    return matches(pattern, tool.name)


def _row(tool: RemoteTool) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "origin": str(Origin(tool.origin.kind, tool.origin.name)),
        "version": tool.version,
        "permissions": list(tool.permissions),
        "enabled": tool.enabled,
        "timeout": tool.timeout,
        "parameters": tool.parameters,
    }
