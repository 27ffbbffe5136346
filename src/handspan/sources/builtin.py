"""The built-in tools, made from the settings (SPEC B)."""

from collections.abc import Iterator

from handspan.config.settings import Settings, ToolSettings
from handspan.core.names import matches_any
from handspan.core.principals import BUILTIN
from handspan.core.sources import SourceState, SourceStatus
from handspan.core.tool import Tool
from handspan.net.guard import NetGuard
from handspan.registry.registry import Registry
from handspan.tools.artifact import ReadArtifact
from handspan.tools.clock import GetCurrentTime
from handspan.tools.files import file_tools
from handspan.tools.memory import memory_tools
from handspan.tools.message import MessageOutlet, SendMessage
from handspan.tools.sandbox import Sandbox
from handspan.tools.search import SearchTools
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import shell_tools
from handspan.tools.web import web_tools
from handspan.tools.workspace import Workspace


class BuiltinTools:
    """Keeps the built-in tools in the registry while it is open."""

    name = "builtin"

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        sandbox: Sandbox,
        guard: NetGuard,
        outlet: MessageOutlet | None = None,
        *,
        only: tuple[str, ...] = ("*",),
    ) -> None:
        """`only`: globs of the names of the tools to register."""
        self._registry = registry
        self._settings = settings
        self._sandbox = sandbox
        self._guard = guard
        self._outlet = outlet
        self._only = only
        self._workspace: Workspace | None = None

    @property
    def state(self) -> SourceState:
        """Whether it is open, and how many tools it has."""
        status: SourceStatus = "closed" if self._workspace is None else "ready"
        return SourceState(status, self._registry.count(BUILTIN))

    async def open(self) -> None:
        """Register the built-in tools."""
        workspace = self._workspace = Workspace(
            self._settings.workspace, self._sandbox.hidden, self._sandbox.file_owner
        )
        for tool in self._tools(workspace):
            if matches_any(self._only, tool.spec.name):
                self._registry.register(tool, BUILTIN)

    async def close(self) -> None:
        """Unregister them."""
        self._registry.unregister_by_source(BUILTIN)
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _tools(self, workspace: Workspace) -> Iterator[Tool]:
        tools: ToolSettings = self._settings.tools
        yield GetCurrentTime()
        yield from file_tools(workspace)
        yield from memory_tools(self._settings.state / "memory")
        yield from shell_tools(
            self._settings.workspace,
            CommandPolicy(tools.command_policy.mode, tools.command_policy.allowlist, tools.command_policy.denylist),
            self._sandbox,
            unsafe_shell_without_sandbox=tools.unsafe_shell_without_sandbox,
        )
        yield from web_tools(
            self._guard,
            search_endpoint=tools.web_search.endpoint or None,
            search_api_key=tools.web_search.api_key or None,
            http_hosts=tools.http_request.allowed_hosts,
        )
        yield ReadArtifact(tools.result_limit)
        yield SendMessage(self._outlet)
        if tools.shown:
            yield SearchTools()
