"""The hooks that come with Handspan: an audit log (`audit_log.py`), a rate limit, a path prefix (SPEC E7).

Settings name these hooks, and those of the entry points `handspan.hooks`, by type:

    [[hooks.chain]]
    type = "rate_limit"
    config = { per_minute = 60, tools = ["web_*"] }
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from handspan.config.check import SettingPlace, SettingReader
from handspan.config.entry_points import entry_points_of
from handspan.config.settings import HookSettings
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches_any
from handspan.core.results import ToolResult
from handspan.core.values import describe_wait
from handspan.engine.audit_log import AuditLog, AuditLogConfig
from handspan.engine.hook_thread import HookThread
from handspan.engine.hooks import BeforeVerdict, CancelCall, Hook, HookedCall, ModifyCall, NamedHook

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "handspan.hooks"
"""An entry point of this group is a function that takes a config and returns a hook."""


class RateLimitConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The `config` of `rate_limit`."""

    per_minute: int
    tools: tuple[str, ...] = ("*",)
    """Globs of the tools that count."""


class RateLimit:
    """Limits the calls of each owner in any 60 seconds."""

    def __init__(self, config: RateLimitConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._calls: dict[str, deque[tuple[float, str]]] = {}
        """The calls of each owner: when the call came, and its id."""

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Cancel a call above the limit. A call that was changed comes here again, and is counted once."""
        if not matches_any(self._config.tools, call.name):
            return None
        now, calls = self._clock(), self._calls.setdefault(call.owner, deque())
        while calls and calls[0][0] <= now - 60:
            calls.popleft()
        if call.is_changed and any(counted == call.id for _, counted in calls):
            return None
        if len(calls) >= self._config.per_minute:
            wait = 60 - (now - calls[0][0]) if calls else 60
            return CancelCall(
                f"the rate limit of {self._config.per_minute} calls a minute is reached; "
                f"try again {describe_wait(wait)}"
            )
        calls.append((now, call.id))
        return None

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Nothing to do."""


class PathPrefixConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The `config` of `path_prefix`."""

    prefix: str
    tools: tuple[str, ...] = ("read_file", "write_file", "edit_file", "list_directory")
    parameter: str = "path"


class PathPrefixHook:
    """Puts a folder before the path of file tools, so that the agent works below it."""

    def __init__(self, config: PathPrefixConfig) -> None:
        self._config = config
        self._prefix = config.prefix.strip("/") + "/"

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Put the prefix before the path. A call that hooks have seen before may have the prefix already."""
        path = call.arguments.get(self._config.parameter)
        if not matches_any(self._config.tools, call.name) or not isinstance(path, str):
            return None
        if path.startswith("/") or ".." in path.split("/"):
            return CancelCall(f"the path {path[:80]!r} has to be relative and without '..'")
        if call.is_changed and path.startswith(self._prefix):
            return None
        return ModifyCall(call.name, {**call.arguments, self._config.parameter: self._prefix + path})

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Nothing to do."""


BUILTIN_HOOKS: Final[Mapping[str, tuple[Callable[[Any, Path], Hook], type[Struct]]]] = {
    "audit_log": (AuditLog, AuditLogConfig),
    "rate_limit": (lambda config, _: RateLimit(config), RateLimitConfig),
    "path_prefix": (lambda config, _: PathPrefixHook(config), PathPrefixConfig),
}
"""For each type of hook: what makes the hook from its config and the state folder, and the type of its config."""


def make_hooks(
    chain: Iterable[HookSettings], state: Path, found: "Iterable[EntryPoint] | None" = None
) -> list[NamedHook]:
    """Return the hooks that the settings name, in their order. Raises `ConfigError` when a hook can't be made.

    `state`: the folder for files that a hook writes. `found`: entry points of plugins; None: those that are installed.
    """
    links = list(chain)
    plugins = _find_plugins(links, found)
    made = ((link, _make_hook(link, plugins, state)) for link in links)
    # The hook of a plugin gets a thread, because its code may block.
    return [
        NamedHook(link.type, hook, link.timeout, HookThread() if link.type in plugins else None) for link, hook in made
    ]


def check_hooks(chain: Iterable[HookSettings], found: "Iterable[EntryPoint] | None" = None) -> list[str]:
    """Return why hooks of the settings can't be made, a text each. No code of a plugin runs for that."""
    links, problems = list(chain), []
    plugins = _find_plugins(links, found)
    for link in links:
        try:
            _check_type(link, plugins)
            if link.type not in plugins:
                _read_config(link)
        except ConfigError as error:
            problems.append(str(error))
    return problems


def _find_plugins(links: list[HookSettings], found: "Iterable[EntryPoint] | None") -> "Mapping[str, EntryPoint]":
    if found is None:
        found = entry_points_of(GROUP) if links else ()
    return {point.name: point for point in found}


def _make_hook(link: HookSettings, plugins: "Mapping[str, EntryPoint]", state: Path) -> Hook:
    """Return the hook that these settings describe: a built-in one, or a plugin's. Raises `ConfigError`."""
    _check_type(link, plugins)
    plugin = plugins.get(link.type)
    if plugin is None:
        make, _ = BUILTIN_HOOKS[link.type]
        return make(_read_config(link), state)
    try:
        hook: Hook = plugin.load()(link.config)
    except Exception as error:  # code that is not ours
        raise ConfigError(f"{_place(link)}: the hook can't be made: {error}") from error
    return hook


def _check_type(link: HookSettings, plugins: "Mapping[str, EntryPoint]") -> None:
    """Raise `ConfigError` when there is no such hook: it may guard the tools, so it must not be skipped."""
    if link.type not in plugins and link.type not in BUILTIN_HOOKS:
        hint = did_you_mean(link.type, [*BUILTIN_HOOKS, *plugins])
        raise ConfigError(f"{_place(link)}: there is no such hook.{hint} Built-in are {', '.join(BUILTIN_HOOKS)}.")


def _read_config(link: HookSettings) -> Any:
    """Return the config of a built-in hook. Raises `ConfigError` with everything that is wrong with it."""
    errors: list[str] = []
    reader = SettingReader(SettingPlace(_place(link), Path(), Path.home()), errors)
    config = reader.read_whole(BUILTIN_HOOKS[link.type][1], link.config, ("config",))
    if errors:
        raise ConfigError(" ".join(errors))
    return config


def _place(link: HookSettings) -> str:
    return f"hooks.chain, type {link.type!r}"
