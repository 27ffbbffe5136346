"""The built-in tools, made from the settings (SPEC B)."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import structs

from handspan.config.secrets import read_secret
from handspan.config.settings import Settings
from handspan.config.tool_settings import ToolSettings, WebSearchSettings
from handspan.core.children import ASK_AGENT
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches, matches_any
from handspan.core.principals import BUILTIN
from handspan.core.sources import SourceState
from handspan.core.tool import SEARCH_TOOLS, Tool, ToolSpec
from handspan.media.workers import MediaWorkers
from handspan.net.guard import NetGuard
from handspan.registry.registry import Registry
from handspan.tools.artifact import FindResult, ReadArtifact
from handspan.tools.ask import AskUser
from handspan.tools.clock import GetCurrentTime
from handspan.tools.files import file_tools
from handspan.tools.memory import memory_tools
from handspan.tools.message import MessageDelivery, SendMessage
from handspan.tools.output import OutputLimits
from handspan.tools.sandbox import Sandbox
from handspan.tools.schedule import ScheduleTurns, SchedulingParts
from handspan.tools.search.search import search_tools
from handspan.tools.search_tools import SearchTools
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import shell_tools
from handspan.tools.web import web_tools
from handspan.tools.web_search import KEY_SETTING, SearchEndpoint
from handspan.tools.workspace import Workspace

if TYPE_CHECKING:
    from handspan.net.forward_proxy import ForwardProxy

_NOT_ALWAYS_HERE: Final = ("use_skill", ASK_AGENT, SEARCH_TOOLS)
"""Built-in tools that another part registers, or that exist only with a setting."""


class BuiltinTools:
    """Keeps the built-in tools in the registry while this source is open."""

    name = "builtin"

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        sandbox: Sandbox,
        guard: NetGuard,
        media: MediaWorkers,
        delivery: MessageDelivery | None = None,
        *,
        only: tuple[str, ...] = ("*",),
        find_result: FindResult | None = None,
        scheduling: SchedulingParts | None = None,
    ) -> None:
        """`only`: globs of the names of the tools to register. `find_result`: for `read_artifact`.

        `scheduling`: for `schedule`; None where nothing runs schedules.
        """
        self._scheduling = scheduling
        self._find_result = find_result
        self._registry = registry
        self._settings = settings
        self._sandbox = sandbox
        self._guard = guard
        self._media = media
        self._delivery = delivery
        self._only = only
        self._workspace: Workspace | None = None
        self._described: dict[Tool, ToolSpec] = {}
        """The shell tools, each with the spec that it was registered with."""
        self._names: set[str] = set()
        """The tools that this source registered. Other parts register built-in tools, too, such as `use_skill`."""
        self._shell = self._make_shell()

    def _make_shell(self) -> list[Tool]:
        """Return the tools that run commands, with the policy and the limits of the settings."""
        tools, policy = self._settings.tools, self._settings.tools.command_policy
        return list(
            shell_tools(
                self._settings.workspace,
                CommandPolicy(policy.mode, policy.allowlist, policy.allow_also, policy.denylist),
                self._sandbox,
                unsafe_shell_without_sandbox=tools.unsafe_shell_without_sandbox,
                open_proxy=self._open_proxy,
                limits=OutputLimits(
                    tools.result_limit, min(tools.result_preview, tools.result_limit), tools.output_limit
                ),
            )
        )

    @property
    def state(self) -> SourceState:
        """Whether this source is open, and how many built-in tools there are."""
        return SourceState("closed" if self._workspace is None else "ready", self._registry.count(BUILTIN))

    async def open(self) -> None:
        """Register the built-in tools. Raises `ConfigError` when a glob of `only` matches no tool."""
        workspace = self._workspace = Workspace(
            self._settings.workspace, self._sandbox.hidden, self._sandbox.file_owner
        )
        tools = list(self._tools(workspace))
        self._check_globs([tool.spec.name for tool in tools])
        for tool in self._choose(tools):
            self._registry.register_own(tool)
            self._names.add(tool.spec.name)
        self._note_shell_specs()
        self._sandbox.listen(self._describe_shell_anew)

    def use(self, settings: Settings) -> None:
        """Register the tools of these settings. Calls that run go on with the former settings."""
        self._settings = settings
        self._shell = self._make_shell()
        if self._workspace is not None:
            tools = self._choose(self._tools(self._workspace))
            of_others = [one for one in self._registry if one.origin == BUILTIN and one.spec.name not in self._names]
            self._registry.replace(BUILTIN, [*tools, *(entry.tool for entry in of_others)])
            self._names = {tool.spec.name for tool in tools}
            self._note_shell_specs()

    def _check_globs(self, names: Sequence[str]) -> None:
        known = sorted({*names, *_NOT_ALWAYS_HERE})
        for glob in self._only:
            if not any(matches(glob, name) for name in known):
                hint = did_you_mean(glob, known)
                raise ConfigError(f"There is no built-in tool {glob!r}.{hint} There are: {', '.join(known)}.")

    def _choose(self, tools: Iterable[Tool]) -> list[Tool]:
        return [tool for tool in tools if matches_any(self._only, tool.spec.name)]

    def _note_shell_specs(self) -> None:
        """Note the specs of the shell tools as they are registered now."""
        self._described = {tool: tool.spec for tool in self._shell if matches_any(self._only, tool.spec.name)}

    async def close(self) -> None:
        """Unregister the tools of this source, and close the workspace. Tools of other parts stay."""
        for name in self._names:
            self._registry.unregister(name)
        self._names.clear()
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _describe_shell_anew(self) -> None:
        """Register the shell tools again if the test of the sandbox has changed their descriptions."""
        for tool, spec in self._described.items():
            if tool.spec != spec and self._workspace is not None:
                self._registry.register_or_replace(tool, BUILTIN)

    def _open_proxy(self) -> "ForwardProxy":
        """Return the proxy of one command with a guarded network."""
        from handspan.net.forward_proxy import ForwardProxy, ProxyLimits  # noqa: PLC0415 - only with such a network

        sandbox = self._settings.tools.sandbox
        return ForwardProxy(self._guard, ProxyLimits(sandbox.network_connections, sandbox.network_bytes))

    def _tools(self, workspace: Workspace) -> Iterator[Tool]:
        """Yield all built-in tools, for this workspace."""
        tools: ToolSettings = self._settings.tools
        yield GetCurrentTime()
        yield from file_tools(workspace, tools.result_limit, self._media)
        yield from search_tools(workspace, tools.result_limit)
        yield from memory_tools(self._settings.state / "memory")
        yield from self._shell
        yield from web_tools(
            self._guard,
            workspace,
            search=_search_endpoint(tools.web_search),
            http_hosts=tools.http_request.allowed_hosts,
        )
        yield ReadArtifact(tools.result_limit, self._find_result)
        yield SendMessage(self._delivery)
        yield AskUser()
        yield ScheduleTurns(self._scheduling)
        if tools.shown:
            yield SearchTools()


def _search_endpoint(settings: WebSearchSettings) -> SearchEndpoint | None:
    """Return the search API; None without one. A missing key makes only the tool unusable: the gateway starts."""
    if not settings.endpoint:
        return None
    api = None if settings.api == "auto" else settings.api
    pointers = tuple((name, pointer) for name, pointer in structs.asdict(settings.pointers).items() if pointer)
    try:
        key = read_secret(settings.api_key, os.environ, KEY_SETTING)
    except ConfigError as error:
        return SearchEndpoint(settings.endpoint, "", api, pointers, missing=str(error).rstrip("."))
    return SearchEndpoint(settings.endpoint, key, api, pointers)
