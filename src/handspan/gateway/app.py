"""Everything, put together from the settings. The only place where all rooms meet."""

from pathlib import Path
from types import TracebackType
from typing import Self

from handspan.config.settings import Settings
from handspan.core.agents import Agent
from handspan.core.context import Progress, no_progress
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean
from handspan.core.principals import OPERATOR, Principal
from handspan.core.questions import Questions
from handspan.engine.builtin_hooks import make_hooks
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.engine.gates import Gates
from handspan.engine.hooks import Hooks
from handspan.engine.ledger import MemoryLedger
from handspan.net.guard import NetGuard
from handspan.registry.registry import Registry, Rules
from handspan.sources.builtin import BuiltinTools
from handspan.sources.plugins import Broken, FolderTools, PluginTools
from handspan.store.artifacts import FolderArtifacts
from handspan.store.switches import Switches
from handspan.tools.sandbox import Sandbox, create_workspace


class App:
    """The whole house. `async with App(settings) as app:` opens it and closes it again."""

    def __init__(
        self, settings: Settings, questions: Questions | None = None, config_folder: Path | None = None
    ) -> None:
        self.settings = settings
        self.switches = Switches(settings.state / "disabled.json")
        self.registry = Registry(_rules(settings, self.switches))
        self.sandbox = Sandbox(
            settings.workspace,
            hidden=[settings.state, *([config_folder] if config_folder else [])],
            uid=settings.tools.sandbox.uid,
            switch=settings.tools.sandbox.enabled,
        )
        self.ledger = MemoryLedger()
        self.engine = Engine(
            FolderArtifacts(settings.state / "artifacts"),
            settings.workspace,
            questions=questions,
            question_timeout=settings.tools.question_timeout,
            hooks=Hooks(make_hooks(settings.hooks.chain)) if settings.hooks.enabled else None,
            ledger=self.ledger,
            gates=Gates(settings.tools.concurrency),
            result_limit=settings.tools.result_limit,
        )
        self._builtin = BuiltinTools(self.registry, settings, self.sandbox, NetGuard(settings.tools.url_policy))
        self._plugins = PluginTools(self.registry)
        self._folder = FolderTools(self.registry, config_folder / "tools") if config_folder else None
        self.broken: list[Broken] = []
        """Tools of plugins and of the tools folder that could not be used."""

    async def open(self) -> None:
        """Make the folders, register the tools, begin to watch. `ConfigError` when a folder can't be used."""
        try:
            create_workspace(self.settings.workspace, self.settings.tools.sandbox.uid)
            self.settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(
                f"The folder {error.filename!r} can't be made: {error.strerror}. Set another one."
            ) from None
        self._builtin.open()
        self.broken = self._plugins.open() + (self._folder.open() if self._folder else [])
        self.engine.open()

    async def close(self) -> None:
        """Take everything back, in the other order."""
        await self.engine.close()
        if self._folder:
            self._folder.close()
        self._plugins.close()
        self._builtin.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def agent(self, name: str | None = None) -> Agent:
        """The agent of this name, or the default one; `ConfigError` when there is none."""
        wanted = name or self.settings.default_agent
        found = self.settings.agents.get(wanted)
        if found is None:
            hint = did_you_mean(wanted, self.settings.agents)
            raise ConfigError(
                f"There is no agent {wanted!r}.{hint} There are: {', '.join(sorted(self.settings.agents))}."
            )
        return Agent(wanted, found.tools, found.deny, found.mode)

    def caller(
        self,
        agent: str | None = None,
        who: Principal = OPERATOR,
        session: str = "",
        progress: Progress = no_progress,
    ) -> Caller:
        """Somebody to make calls for."""
        acting = self.agent(agent)
        return Caller(who, acting, self.registry.toolbox(acting, who, session), session, progress)


def _rules(settings: Settings, switches: Switches) -> Rules:
    tools = settings.tools
    return Rules(
        timeouts=tools.timeouts,
        disabled=(*tools.disabled, *switches.off()),
        allow_shadowing=tools.allow_shadowing,
    )
