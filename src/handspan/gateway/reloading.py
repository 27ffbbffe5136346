"""New settings for a gateway that runs: everything that needs no restart (SPEC U4).

`config/listing.py` says which settings need one. Calls and turns that run go on as they began.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from handspan.config.listing import SettingChanges, compare_settings, shorten_keys, with_reloadable
from handspan.config.settings import Settings
from handspan.gateway.app import App, hooks_of, registry_rules
from handspan.gateway.live import ALL_OWNERS, Live
from handspan.models.choice import choose
from handspan.sources.builtin import BuiltinTools

_log = logging.getLogger(__name__)


class Reloading:
    """Takes the settings as their files have them now, one reload at a time."""

    def __init__(self, app: App, live: Live, forget_models: Callable[[], None]) -> None:
        self._app = app
        self._live = live
        self._forget_models = forget_models
        self._busy = asyncio.Lock()

    async def reload(self) -> SettingChanges:
        """Return what has changed. Raises `ConfigError`, and changes nothing, if the settings can't be used."""
        async with self._busy:
            changes = await reload_settings(self._app)
        self._forget_models()
        for topic in ("agents", "models", "tools"):
            self._live.publish(ALL_OWNERS, topic, {})
        return changes


async def reload_settings(app: App) -> SettingChanges:
    """Let the app use the settings as their files have them now. Return what has changed, and what needs a restart.

    Raises `ConfigError`, and changes nothing, when the files, a hook or the model that they name can't be used.
    """
    before, fresh = app.settings, app.started_with.read_fresh()
    settings = with_reloadable(before, fresh.settings)
    # The MCP servers in force are those of now: they are added and changed without a reload.
    in_force = replace(before, tools=replace(before.tools, mcp_servers=dict(app.mcp.settings)))
    changes = compare_settings(in_force, fresh.settings)
    if settings.model or settings.models:  # only a check: it raises `ConfigError`, and opens no connection
        choose(settings, app.guard, os.environ)
    hooks = hooks_of(settings) if settings.hooks != before.hooks else None
    switched_off = await app.switches.off()
    app.settings = settings
    app.started_with.take(fresh)
    app.agents.use(settings)
    app.models.use(settings)
    app.budgets.use(settings)
    app.guard.use(settings.tools.url_policy)
    if hooks is not None:
        app.engine.use_hooks(hooks)
    _apply_tool_settings(app, before, switched_off)
    await app.mcp.reload(lambda: settings.tools.mcp_servers)
    _log_changes(changes)
    return changes


def _log_changes(changes: SettingChanges) -> None:
    if changes.reloadable:
        _log.info("Settings in force now: %s", ", ".join(shorten_keys(changes.reloadable)))
    if changes.needs_restart:
        _log.info("Settings that a restart applies: %s", ", ".join(shorten_keys(changes.needs_restart)))
    if not any(changes):
        _log.info("Settings: nothing has changed")


def _apply_tool_settings(app: App, before: Settings, switched_off: Sequence[str]) -> None:
    """Let the new settings of tools take effect."""
    tools = app.settings.tools
    app.engine.use_limits(
        question_timeout=tools.question_timeout,
        result_limit=tools.result_limit,
        result_preview=tools.result_preview,
    )
    app.engine.slots.use(tools.concurrency)
    app.registry.use(registry_rules(app.settings), switched_off)
    if tools != before.tools:
        for source in app.sources:
            if isinstance(source, BuiltinTools):
                source.use(app.settings)
