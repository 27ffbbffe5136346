"""The options of `Handspan`, and the settings, agent and tool sources that they become."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from handspan.agent.final_answer import FINAL_ANSWER
from handspan.config.settings import AgentSettings, Settings
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, DefinitionError
from handspan.core.function_tool import tool as make_tool
from handspan.core.names import did_you_mean, matches_any
from handspan.core.principals import Origin
from handspan.core.signature import AnyFunction
from handspan.core.sources import SourceState, ToolSource
from handspan.core.tool import Tool, is_tool
from handspan.gateway.app import App
from handspan.models.model import Model
from handspan.registry.registry import Registry
from handspan.sources.builtin import BuiltinTools

ToolLike: TypeAlias = Tool | AnyFunction
"""A tool, or a function that becomes a tool as with `@tool`."""

_PROGRAM = Origin("plugin", "program")
_USE_SKILL = "use_skill"


class HandspanOptions(Struct, frozen=True):
    """What a program has chosen; `Handspan.__init__` explains each option."""

    tools: tuple[Tool, ...]
    model: str | Model | Sequence[str | Model]
    builtins: tuple[str, ...]
    """Globs of the names of built-in tools."""
    state: Path | None
    workspace: Path | None
    agent: Agent | str
    instructions: str | None
    settings: Settings | None

    @contextmanager
    def open_settings(self) -> Iterator[Settings]:
        """Yield the settings. Folders that the program does not name are temporary, and removed after the block."""
        if self.settings is not None or (self.state is not None and self.workspace is not None):
            yield self._make_settings(self.settings or Settings(Path(), Path()))
            return
        with tempfile.TemporaryDirectory(prefix="handspan-", ignore_cleanup_errors=True) as folder:
            # Two folders: the sandbox hides the state from tools that work in the workspace.
            yield self._make_settings(Settings(Path(folder, "workspace"), Path(folder, "state")))

    def sources(self, app: App) -> Sequence[ToolSource]:
        """Return the sources of the tools."""
        find, media, only = app.store.contexts.find_result, app.media, self.builtins
        builtin = BuiltinTools(
            app.registry, app.settings, app.sandbox, app.guard, media=media, only=only, find_result=find
        )
        return [*([builtin] if self.builtins else []), ProgramTools(app.registry, self.tools)]

    def _make_settings(self, base: Settings) -> Settings:
        """Return these settings with the program's folders and agent."""
        workspace, state = self.workspace or base.workspace, self.state or base.state
        settings = structs.replace(base, workspace=workspace, state=state)
        agent = self._make_agent(settings)
        chosen = AgentSettings(**{name: getattr(agent, name) for name in AgentSettings.__struct_fields__})
        return structs.replace(settings, agents={**settings.agents, agent.name: chosen}, default_agent=agent.name)

    def _make_agent(self, settings: Settings) -> Agent:
        """Return the agent with the program's own tools, and without built-in ones that the program did not choose."""
        agent = self.agent if isinstance(self.agent, Agent) else _find_agent(self.agent, settings)
        own = (*(tool.spec.name for tool in self.tools), FINAL_ANSWER)
        hidden = () if matches_any(self.builtins, _USE_SKILL) else (_USE_SKILL,)
        return structs.replace(
            agent,
            tools=None if agent.tools is None else (*agent.tools, *own),
            deny=(*agent.deny, *hidden),
            instructions=agent.instructions if self.instructions is None else self.instructions,
        )


class ProgramTools:
    """The source of the program's own tools: they are in the registry while it is open."""

    name = "program"

    def __init__(self, registry: Registry, tools: Sequence[Tool]) -> None:
        self._registry = registry
        self._tools = tools
        self._is_open = False

    @property
    def state(self) -> SourceState:
        """The state with the number of tools."""
        return SourceState("ready" if self._is_open else "closed", self._registry.count(_PROGRAM))

    async def open(self) -> None:
        """Register the tools. Raises `NameTaken` when two have the same name."""
        for tool in self._tools:
            self._registry.register(tool, _PROGRAM)
        self._is_open = True

    async def close(self) -> None:
        """Unregister the tools."""
        self._registry.unregister_by_source(_PROGRAM)
        self._is_open = False


def read_tool(given: ToolLike) -> Tool:
    """Return this tool, or make a tool from this function. Raises `DefinitionError` for other objects."""
    if is_tool(given):
        found: Tool = given
    elif callable(given):
        found = make_tool(given)
    else:
        raise DefinitionError(f"{given!r} is not a tool: give a function, or an object with `spec` and `run`")
    if found.spec.name == FINAL_ANSWER:
        raise DefinitionError(f"The name {FINAL_ANSWER!r} is reserved for typed answers. Choose another name.")
    return found


def read_builtins(given: bool | Sequence[str]) -> tuple[str, ...]:
    """Return the globs of built-in tools. Raises `ConfigError` for a bare text: its letters would count as globs."""
    if isinstance(given, str):
        raise ConfigError(f"builtins is True, False or a list of names: [{given!r}], not {given!r}.")
    if isinstance(given, bool):
        return ("*",) if given else ()
    return tuple(given)


def _find_agent(name: str, settings: Settings) -> Agent:
    """Return the agent of this name, or the default one of the settings. Raises `ConfigError`."""
    wanted = name or settings.default_agent
    found = settings.agents.get(wanted)
    if found is None:
        hint = did_you_mean(wanted, settings.agents)
        raise ConfigError(
            f"There is no agent {wanted!r} in the settings.{hint} There are: {', '.join(sorted(settings.agents))}."
        )
    return Agent(wanted, **structs.asdict(found))
