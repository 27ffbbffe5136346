"""The hooks that come with the house: an audit log, a rate limit, a path prefix (SPEC E7).

Settings name them, and those of entry point `handspan.hooks`, by type:

    [[hooks.chain]]
    type = "rate_limit"
    config = { per_minute = 60, tools = ["web_*"] }
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from handspan.config.entry_points import entry_points_of
from handspan.config.settings import HookSettings
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches_any
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json
from handspan.engine.hooks import BeforeVerdict, Cancel, Hook, HookedCall, Modify, NamedHook

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "handspan.hooks"

_log = logging.getLogger("handspan.audit")

MakeHook: TypeAlias = Callable[[dict[str, Json]], Hook]
"""What an entry point of the group gives: a hook made of its config."""


class AuditLog:
    """Writes a line for every call to the log `handspan.audit`: who, what, how it ended. Arguments only if asked."""

    class Config(Struct, frozen=True, forbid_unknown_fields=True):
        arguments: bool = False
        """Write the arguments too. They may hold what a person would not want in a log."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Note that the call begins."""
        self._write(call, {"event": "call"})
        return None

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Note how it ended."""
        status = result.code if isinstance(result, Failure) else "success"
        self._write(call, {"event": "result", "status": status})

    def _write(self, call: HookedCall, more: dict[str, Json]) -> None:
        line: dict[str, Json] = {"id": call.id, "tool": call.name, "owner": call.owner, "session": call.session, **more}
        if self._config.arguments and more["event"] == "call":
            line["arguments"] = dict(call.arguments)
        _log.info("%s", msgspec.json.encode(line).decode())


class RateLimit:
    """Lets an owner make so many calls in any minute."""

    class Config(Struct, frozen=True, forbid_unknown_fields=True):
        per_minute: int
        tools: tuple[str, ...] = ("*",)
        """Globs of the tools that count."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._calls: dict[str, deque[float]] = {}

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Cancel the call that is one too many."""
        if not matches_any(self._config.tools, call.name):
            return None
        now, calls = self._clock(), self._calls.setdefault(call.owner, deque())
        while calls and calls[0] <= now - 60:
            calls.popleft()
        if len(calls) >= self._config.per_minute:
            wait = 60 - (now - calls[0]) if calls else 60
            return Cancel(
                f"the rate limit of {self._config.per_minute} calls a minute is reached; try again in {wait:.0f} s"
            )
        calls.append(now)
        return None

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Nothing to do."""


class PathPrefixHook:
    """Puts a folder before the path of file tools, so that an agent works below it without knowing."""

    class Config(Struct, frozen=True, forbid_unknown_fields=True):
        prefix: str
        tools: tuple[str, ...] = ("read_file", "write_file", "edit_file", "list_directory")
        parameter: str = "path"

    def __init__(self, config: Config) -> None:
        self._config = config
        self._prefix = config.prefix.strip("/") + "/"

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Change the path."""
        path = call.arguments.get(self._config.parameter)
        if not matches_any(self._config.tools, call.name) or not isinstance(path, str):
            return None
        if path.startswith("/") or ".." in path.split("/"):
            return Cancel(f"the path {path[:80]!r} has to be relative and without '..'")
        return Modify(call.name, {**call.arguments, self._config.parameter: self._prefix + path})

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Nothing to do."""


BUILTIN_HOOKS: Final[Mapping[str, Any]] = {
    "audit_log": AuditLog,
    "rate_limit": RateLimit,
    "path_prefix": PathPrefixHook,
}


def make_hooks(chain: Iterable[HookSettings], found: "Iterable[EntryPoint] | None" = None) -> list[NamedHook]:
    """The hooks that the settings name, in their order; `ConfigError` for one that can't be made."""
    links = list(chain)
    if found is None:
        found = entry_points_of(GROUP) if links else ()
    plugins = {point.name: point for point in found}
    return [NamedHook(link.type, _made(link, plugins), link.timeout) for link in links]


def _made(link: HookSettings, plugins: "Mapping[str, EntryPoint]") -> Hook:
    where = f"hooks.chain, type {link.type!r}"
    plugin = plugins.get(link.type)
    if plugin is None and link.type not in BUILTIN_HOOKS:
        # No hook is not a weaker hook: what was meant to guard must not be skipped.
        hint = did_you_mean(link.type, [*BUILTIN_HOOKS, *plugins])
        raise ConfigError(f"{where}: there is no such hook.{hint} Built in are {', '.join(BUILTIN_HOOKS)}.")
    try:
        hook: Hook = (
            plugin.load()(link.config)
            if plugin is not None
            else BUILTIN_HOOKS[link.type](msgspec.convert(link.config, BUILTIN_HOOKS[link.type].Config))
        )
        return hook
    except Exception as error:  # code that is not ours, or a config that does not fit
        raise ConfigError(f"{where}: the hook can't be made: {error}") from error
