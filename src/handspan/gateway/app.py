"""All parts of the product, put together from the settings. The only module that imports all rooms."""

import asyncio
import importlib
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from handspan.agent.agents import Agents
from handspan.agent.budgets import Budgets
from handspan.agent.compaction.compactor import Compactor
from handspan.agent.instructions import DefaultInstructions
from handspan.agent.loading import ConversationLoader
from handspan.channels.bus import MessageBus
from handspan.channels.page import ShowMessage, show_nowhere
from handspan.config import mcp_file
from handspan.config.listing import SettingsAtStart, shorten_keys
from handspan.config.load import LoadedSettings
from handspan.config.model_file import StoredModels
from handspan.config.secrets import read_secret
from handspan.config.settings import Settings
from handspan.config.watch import SettingsWatch
from handspan.core.agents import Agent
from handspan.core.bus import ScheduleChanged, ToolsChanged
from handspan.core.context import Progress, no_progress
from handspan.core.errors import ConfigError
from handspan.core.principals import OPERATOR, Principal
from handspan.core.questions import Questions
from handspan.core.records import Recovery
from handspan.core.schedules import Schedule
from handspan.core.sources import Broken, ToolSource, problem_lines
from handspan.core.store import ArtifactStore, Store, Switches
from handspan.engine.caller import Caller
from handspan.engine.concurrency import SlotsByOrigin
from handspan.engine.engine import Engine
from handspan.engine.hooks import Hooks
from handspan.gateway.channels.delivery import ChannelDelivery
from handspan.gateway.model_choices import ModelChoices
from handspan.gateway.one_node import GatewayNodes, OneNode
from handspan.gateway.serving.listening import browser_url
from handspan.gateway.setting_problems import agent_problems, check_settings, setting_notes
from handspan.gateway.stores import make_store
from handspan.media.workers import MediaWorkers, OwnerImages
from handspan.net.guard import NetGuard
from handspan.registry.name_rights import describe_owner
from handspan.registry.pins import PinnedSpecs
from handspan.registry.registry import Registry, RegistryRules
from handspan.registry.selection import Reason
from handspan.registry.toolbox import Toolbox
from handspan.skills.folders import skill_folders
from handspan.skills.skills import Skills
from handspan.sources.builtin import BuiltinTools
from handspan.sources.folder import FolderTools
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.servers import McpServers
from handspan.sources.plugins import PluginTools
from handspan.tools.bubblewrap import CommandLimits
from handspan.tools.sandbox import Sandbox, create_workspace
from handspan.tools.schedule import SchedulingParts

_log = logging.getLogger(__name__)
_CHANNELS: Final = "handspan.channels.setup"
"""Loaded only with the setting `channels`."""


class App:
    """The registry, the engine, the store and all tools. `async with App(settings) as app:` opens and closes them."""

    def __init__(
        self,
        settings: Settings,
        questions: Questions | None = None,
        config_folder: Path | None = None,
        *,
        store: Store | None = None,
        guard: NetGuard | None = None,
        nodes: GatewayNodes | None = None,
        sources: "Callable[[App], Sequence[ToolSource]] | None" = None,
        starts_servers: bool = True,
        loaded: LoadedSettings | None = None,
        show_message: ShowMessage = show_nowhere,
        explain_absence: Callable[[str, str], str] = lambda owner, tool: "",
    ) -> None:
        """An app without a gateway makes its own store and is the only node.

        `sources` makes the tool sources, in place of the built-in tools, the plugins and the person's own tools folder.
        `starts_servers`: MCP servers are started by `open`, else by the first `mcp.settle`. `loaded` says where the
        settings come from. `show_message` shows a message to the owner's clients. `explain_absence` returns why an
        owner has no tool of this name, if a device that is away has it.
        """
        self.settings = settings
        self._starts_servers = starts_servers
        self.models = StoredModels(settings)
        """The models of the settings, and those that a person added."""
        self.started_with = SettingsAtStart(settings, loaded, check_settings)
        self.sandbox = Sandbox(
            settings.workspace,
            hidden=[settings.state, *([config_folder] if config_folder else [])],
            uid=settings.tools.sandbox.uid,
            limits=CommandLimits(all_memory=settings.tools.sandbox.memory_bytes),
            switch=settings.tools.sandbox.enabled,
            network=settings.tools.sandbox.network,
        )
        self.guard = guard or NetGuard(settings.tools.url_policy)
        nodes = self._nodes = nodes or OneNode(settings.state)
        self.media = MediaWorkers(settings.tools.media)
        self.store: Store = store or make_store(settings, self.guard, is_alone=False)
        self.artifacts: ArtifactStore = self.store.artifacts
        self.switches: Switches = self.store.switches
        self._pinned = PinnedSpecs(self.store.pins)
        self.registry = Registry(
            registry_rules(settings),
            self._pinned,
            lambda owner: nodes.bus.publish(ToolsChanged(owner)),
            lambda owner, tool: self.mcp.explain_absence(tool) or explain_absence(owner, tool),
        )
        self.budgets = Budgets(self.store.budgets, nodes.bus, settings, questions)
        self.choices = ModelChoices(self.models, self.guard, self.budgets)
        """Chooses the models that answer."""
        self.recovery = Recovery()
        """What an earlier process left half done, and how it was closed; set by `open`."""
        self.engine = Engine(
            self.artifacts,
            settings.workspace,
            questions=questions,
            question_timeout=settings.tools.question_timeout,
            hooks=hooks_of(settings),
            ledger=self.store.ledger,
            slots=SlotsByOrigin(settings.tools.concurrency),
            result_limit=settings.tools.result_limit,
            result_preview=settings.tools.result_preview,
            bus=nodes.bus,
        )
        self.agents = Agents(settings, self.store.agents)
        folders = skill_folders(settings.workspace, config_folder, [settings.state])
        self.skills = Skills(folders, self.store.skill_switches)
        self.loader = ConversationLoader(
            self.store,
            self.engine,
            self.registry,
            self.skills,
            instructions=DefaultInstructions(settings.workspace, self.describe_shell),
            compactor=Compactor(self.store, lambda: self.settings, self.choices.choose),
            describe_agents=self.agents.describe,
            images_of=partial(OwnerImages, self.artifacts, self.media),
            budgets=self.budgets,
        )
        """Loads conversations."""
        self.messages = _make_message_bus(settings, self.guard, show_message)
        """The channels to people."""
        self.delivery = ChannelDelivery(self.messages, self.store.channels)
        changed = partial(nodes.bus.publish, ToolsChanged(""))
        self._folder = FolderTools(self.registry, config_folder / "tools", changed) if config_folder else None
        self.sources: list[ToolSource] = (
            list(sources(self))
            if sources is not None
            else [
                BuiltinTools(
                    self.registry,
                    settings,
                    self.sandbox,
                    self.guard,
                    media=self.media,
                    delivery=self.delivery,
                    find_result=self.store.contexts.find_result,
                    scheduling=self._scheduling_parts(),
                ),
                PluginTools(self.registry),
                *([self._folder] if self._folder else []),
            ]
        )
        """The tool sources that are open with the app. Clients bring their tools with their connections instead."""
        self.mcp = McpServers(
            settings.tools.mcp_servers,
            self.registry,
            self.guard,
            partial(read_secret, environ=os.environ, setting="tools.mcp_servers"),
            folder=settings.workspace,
            logins=McpLogins(
                settings.state / "mcp_logins", self.guard, browser_url(settings.gateway, settings.gateway.port)
            ),
            questions=questions,
            file=(config_folder or settings.state) / mcp_file.NAME,
            share=nodes.share_server,
        )
        """The MCP servers. They are changed while the gateway runs."""
        self._watch = SettingsWatch(lambda: self.started_with.files, self._follow_settings) if loaded else None

    def _scheduling_parts(self) -> SchedulingParts:
        """Return what the tool `schedule` works with."""
        own = self.settings.schedules
        return SchedulingParts(
            self.store.schedules,
            self.publish_schedule,
            own.zone_name,
            own.spread,
            check_delivery=self.delivery.check,
            clock=self.store.ledger.now,
        )

    def publish_schedule(self, schedule: Schedule) -> None:
        """Let all nodes and pages know that this schedule has changed."""
        self._nodes.bus.publish(ScheduleChanged(schedule.maker.owner, schedule.id, schedule.next))

    async def open(self) -> None:
        """Make the folders and register the tools. Raises `ConfigError` when a folder can't be used."""
        has_files = not self.settings.store.url
        if has_files:
            await self._apply_switches()  # first: if the switches can't be read, nothing may be opened
        try:
            create_workspace(self.settings.workspace, self.settings.tools.sandbox.uid)
            self.settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(
                f"The folder {error.filename!r} can't be made: {error.strerror}. Set another one."
            ) from None
        await self.store.open()
        try:
            await self._open_parts(has_files=has_files)
        except BaseException:
            await self.close()
            raise

    async def _open_parts(self, *, has_files: bool) -> None:
        """Open the parts in the order in which they need each other; first, recover what an earlier process left."""
        if not has_files:
            await self._apply_switches()
        if self._nodes.runs_turns:  # else other nodes recover for this one
            self.recovery = await self.store.recover()
        await self._pinned.open()
        self.media.open()
        for source in self.sources:
            await source.open()
        if self._starts_servers:
            await self.mcp.open()
            if self._watch is not None:
                self._watch.open()
        self.engine.open()

    async def _apply_switches(self) -> None:
        for pattern in await self.switches.off():
            self.registry.disable(pattern)

    async def read_pins(self) -> None:
        """Read again which tool definitions persons agreed to: they may have done so at another node."""
        await self._pinned.open()

    async def follow_switches(self) -> None:
        """Switch tools off and on as the store says now: another node has changed that."""
        self.registry.follow_switches(await self.switches.off())

    async def close(self) -> None:
        """Close all parts, in the opposite order."""
        if self._watch is not None:
            await self._watch.close()
        await self.choices.close()
        await self.budgets.close()
        await self.engine.close()
        await self.mcp.close()
        for source in reversed(self.sources):
            await source.close()
        await self.messages.close()
        await self._pinned.close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def all_sources(self) -> list[ToolSource]:
        """The sources that are open with the app, and the MCP servers."""
        return [*self.sources, *self.mcp]

    @property
    def broken(self) -> list[Broken]:
        """The parts of sources that can't be used."""
        return [broken for source in self.all_sources for broken in source.state.broken]

    @property
    def setting_notes(self) -> list[str]:
        """A sentence for each setting that names a tool or, for an agent, a model that can't be had."""
        names = (entry.spec.name for entry in self.registry)
        return [*setting_notes(self.settings, names), *agent_problems(self.settings, os.environ)]

    async def refresh_tools(self, *, is_forced: bool = False) -> None:
        """Read the files of the tools folder that have changed since the last look; `is_forced`: all of them."""
        if self._folder is not None:
            await self._folder.refresh(is_forced=is_forced)

    async def _follow_settings(self) -> None:
        """Take the MCP servers of the settings as they are now. Raises `ConfigError` when they can't be used."""
        await self.mcp.reload(self.started_with.read_servers)
        reloadable, needs_restart = await asyncio.to_thread(self.started_with.changes)
        if reloadable:
            _log.info("The settings have changed. `handspan reload` applies %s", ", ".join(shorten_keys(reloadable)))
        if needs_restart:
            _log.info("The settings have changed. A restart applies %s", ", ".join(shorten_keys(needs_restart)))

    def explain(self, box: Toolbox, name: str, *, for_operator: bool = True) -> list[Reason]:
        """Return why this tool can or can't be used; if it is unknown, which sources may be the cause (R8).

        Only the operator gets the details of a broken source: they may name files, commands and addresses.
        """
        reasons = [*box.explain(name), *_name_reasons(self.registry, box, name)]
        if box.knows(name):
            return reasons
        states = [(source.name, source.state) for source in self.all_sources]
        visible = [(name, state if for_operator else state.without_details()) for name, state in states]
        return [
            *reasons,
            *(Reason(ok=False, text=line) for name, state in visible for line in problem_lines(name, state)),
        ]

    async def find_agent(self, name: str | None = None) -> Agent:
        """Return the agent of this name, or the default agent. Raises `ConfigError` when there is none."""
        return (await self.agents.find(name)).agent

    async def describe_shell(self) -> str:
        """Return a sentence for the model on where its commands run."""
        if (
            self.sandbox.expected_report.active
        ):  # the sandbox is not tested for this: every first answer would be slower
            return "Commands (exec_shell, spawn) run in a sandbox: of this computer they can change the workspace only."
        return "Commands (exec_shell, spawn) run without a sandbox here: only a short list of them is allowed."

    def caller(
        self,
        agent: Agent | str | None = None,
        who: Principal = OPERATOR,
        session: str = "",
        progress: Progress = no_progress,
    ) -> Caller:
        """Return a caller for this agent. A name is looked up in the settings only: `find_agent` knows all agents."""
        acting = agent if isinstance(agent, Agent) else self.agents.of_settings(agent)
        return Caller(who, acting, self.registry.toolbox(acting, who, session), session, progress=progress)


def _make_message_bus(settings: Settings, guard: NetGuard, show: ShowMessage) -> MessageBus:
    """Return the bus of messages to people, with the channels that the settings name."""
    if not settings.channels:
        return MessageBus({})
    made: MessageBus = (
        importlib.import_module(_CHANNELS).ChannelMaker(guard, os.environ, show).make_bus(settings.channels)
    )
    return made


def hooks_of(settings: Settings) -> Hooks:
    """Return the hooks that the settings name. Raises `ConfigError` when one can't be made."""
    if not (settings.hooks.enabled and settings.hooks.chain):
        return Hooks(())
    from handspan.engine.builtin_hooks import make_hooks  # noqa: PLC0415 - most have no hooks, and start-up counts

    return Hooks(make_hooks(settings.hooks.chain, settings.state))


def _name_reasons(registry: Registry, box: Toolbox, name: str) -> list[Reason]:
    """Return whose name this is, if clients wanted it or its source is not there (SPEC R2)."""
    owner, refused = registry.rights.find_owner(name), registry.rights.refusals(box.scopes).get(name, ())
    if owner is None or (box.knows(name) and not refused):
        return []
    clients = f" It was refused to {', '.join(map(str, refused))}." if refused else ""
    return [Reason(box.knows(name), f"The name is reserved for {describe_owner(owner)}.{clients}")]


def registry_rules(settings: Settings) -> RegistryRules:
    """Return the settings that apply to all tools."""
    tools = settings.tools
    return RegistryRules(tools.timeouts, tools.disabled, tools.allow_shadowing, tools.shown)
