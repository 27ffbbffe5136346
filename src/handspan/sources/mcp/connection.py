"""One MCP server as a source of tools. A server that crashed is started again here: restart with backoff (SPEC C4).

One task owns the link: the task opens the link, reads the server's list of tools, follows its changes, and opens the
link again after a loss. The tools stay registered while the server is started again, and calls that come meanwhile
wait. The tools are removed when the server can't be started again at once.

Where there are several nodes, one of them runs a server that is a program. The connection's `share` says which node
that is. When another node runs the server, the link leads to that node, and all the rest is the same.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from handspan.config.tool_settings import McpServer
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.names import outside_name
from handspan.core.principals import Origin
from handspan.core.results import Success
from handspan.core.sources import Broken, SourceState
from handspan.core.tasks import Tasks
from handspan.core.tool import UNKNOWN_EFFECTS, Handling
from handspan.core.values import Arguments, Json
from handspan.registry.pins import DefinitionChange, PinPolicy
from handspan.registry.registry import Registry
from handspan.sources.mcp.logins.login import ScopeMissing
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.opening import LinkOpener, describe_failure
from handspan.sources.mcp.process import ServerLost
from handspan.sources.mcp.sharing import OWN_SERVER, NotRun, ServedTool, ServerElsewhere, ServerShare, ServerSnapshot
from handspan.sources.mcp.tools import McpTool, ServerPrompt, make_tools

if TYPE_CHECKING:
    from handspan.sources.mcp.sdk import McpLink

_log = logging.getLogger(__name__)

_LONGEST_PAUSE: Final = 60.0
_STEADY_SECONDS: Final = 10.0
"""A link that was ready for this time was a good one: the next try comes at once."""

_LIST_SECONDS: Final = 1.0
"""The time between two reads of the list. Some servers say after each read that the list has changed."""
_CLOSED: Final = "it was removed or changed while this call waited for it"


class _Route(Struct, frozen=True, eq=False):
    """An open link, to the server itself or to the node that runs it."""

    run: Callable[[McpTool, Arguments, ToolContext], Awaitable[Json | Success]]
    lost: asyncio.Event


class McpConnection:
    """One MCP server. While it is open, the registry holds the tools that the server has."""

    def __init__(
        self,
        server_name: str,
        server: McpServer,
        registry: Registry,
        opener: LinkOpener,
        changed: "Callable[[McpConnection], None]",
        logins: McpLogins,
        share: ServerShare = OWN_SERVER,
    ) -> None:
        """`changed` is called after each read of the list. `share`: for a program that one node of several runs."""
        self.server_name = server_name
        self.server = server
        self.origin = Origin("mcp", server_name)
        self._registry = registry
        self.opener = opener
        self._changed = changed
        self._logins = logins
        self.share = share
        self.is_internal = server.internal_only
        """Whether models can't see the server's tools: the settings of the node that runs the server decide."""
        self.is_trusted = server.trusted
        self.prompts: tuple[ServerPrompt, ...] = ()
        """The prompts of the server; none while another node runs it."""
        self.state = SourceState()
        """Whether the server is up, how many tools it has, or why it is not up."""
        self._route: _Route | None = None
        self._up_since = inf
        """When the link of this try became ready for calls; infinite: not yet."""
        self._opened: asyncio.Future[_Route] | None = None
        """The link that calls wait for while there is none."""
        self._wanted = asyncio.Event()
        """Ends the wait before the next try: a call needs the link, or another node may run the server."""
        self._slots = asyncio.Semaphore(server.concurrency)
        self._tools: dict[str, McpTool] = {}
        """The registered tools, by the server's own names."""
        self._calls = 0
        self.idle = asyncio.Event()
        """Set while no call runs, and none waits for the server."""
        self.idle.set()
        self._last_used = time.monotonic()
        self._tasks = Tasks()
        self._is_closing = False

    @property
    def name(self) -> str:
        """The name of this connection among the sources."""
        return str(self.origin)

    async def open(self) -> None:
        """Begin to connect, without waiting for the server (SPEC R5)."""
        self.state, self._is_closing = SourceState("opening"), False
        self._tasks.start(self._supervise())

    async def close(self) -> None:
        """End the link and the server's process, and remove its tools."""
        self._is_closing = True
        await self._tasks.close()
        self._refuse_waiting(_CLOSED)
        self._registry.replace(self.origin, [])
        self.state = SourceState()
        await self.share.close()

    async def settle(self, seconds: float) -> None:
        """Try to connect now if the server is not up. Return after a success, a failure, or `seconds`."""
        with suppress(TimeoutError, ToolError):
            async with asyncio.timeout(seconds):
                await self._open_route()

    async def reconnect(self, seconds: float) -> None:
        """Open the link anew, as after a login, and wait as `settle` does."""
        self.drop()
        await self.settle(seconds)

    def wake(self) -> None:
        """Look for the server now: it may be at another node."""
        self._wanted.set()

    def drop(self) -> None:
        """End the link, with the program, and look anew which node runs the server."""
        if self._route is not None:
            self._route.lost.set()
        self.wake()

    def full_name(self, own_name: str) -> str:
        """Return the name under which the registry has this tool of the server."""
        tool = self._tools.get(own_name)
        return outside_name(own_name, self.server_name) if tool is None else tool.spec.name

    def snapshot(self, *, is_leaving: bool = False) -> ServerSnapshot:
        """Return what other nodes have to know of the server, which this node runs."""
        served = [
            ServedTool(entry.tool.own_name, entry.spec, entry.spec.annotations is not UNKNOWN_EFFECTS, entry.change)
            for entry in self._registry
            if entry.origin == self.origin and isinstance(entry.tool, McpTool)
        ]
        state, server = self.state, self.server
        return ServerSnapshot(
            state.status,
            tuple(served),
            state.reason,
            state.broken,
            internal_only=server.internal_only,
            trusted=server.trusted,
            is_leaving=is_leaving,
        )

    async def run_named(self, own_name: str, arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Run the tool that the server calls by this name, for another node. Raises `ToolError`."""
        tool = self._tools.get(own_name)
        if tool is None:
            raise ToolError("tool_not_found", f"The MCP server {self.server_name!r} has no tool {own_name!r} any more.")
        return await self.run_tool(tool, arguments, ctx)

    async def run_tool(self, tool: McpTool, arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Run a tool as soon as the link is open and a slot is free; once more after a login if a scope is missing."""
        try:
            return await self._run_tool(tool, arguments, ctx)
        except ScopeMissing as missing:
            await self._logins.widen(self, missing)
            return await self._run_tool(tool, arguments, ctx)

    async def _run_tool(self, tool: McpTool, arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Run a tool on the node that runs the server. Meanwhile the server has one slot less, and is not idle."""
        self._calls += 1
        self.idle.clear()
        try:
            async with self._slots:
                while True:
                    try:
                        return await (await self._open_route()).run(tool, arguments, ctx)
                    except NotRun:  # that node does not run the server any more: the next node runs the call
                        continue
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()
            self._last_used = time.monotonic()

    async def _open_route(self) -> _Route:
        """Return the open link; without one, wait for the next try. Raises `ToolError` when that try fails."""
        if self._route is not None and not self._route.lost.is_set():
            return self._route
        if self._is_closing:
            raise self._unreachable(_CLOSED)
        if self._opened is None or self._opened.done():
            self._opened = asyncio.get_running_loop().create_future()
        self._wanted.set()
        return await asyncio.shield(self._opened)

    # The task.

    async def _supervise(self) -> None:
        """Start the server, or open its link, again after each loss, with a pause after failures."""
        failures, logged, said = 0, "", ""
        while True:
            self._up_since = inf
            try:
                await self._connect()
                reason = said = ""
            except Exception as error:  # code and answers of others: whatever they do, the gateway goes on
                reason = describe_failure(error)
                said = error.said if isinstance(error, ServerLost) else ""
            finally:
                self._route = None
            if self._is_closing:  # a link that fails while it is cancelled raises its failure, not the cancellation
                return
            is_steady = time.monotonic() - self._up_since > _STEADY_SECONDS
            failures = 0 if not reason or is_steady else failures + 1
            if reason and reason != logged:
                _log.warning("MCP server %s: %s", self.server_name, reason)
            logged = reason
            if failures:
                await self._pause(failures, reason, said)
            elif not reason:  # the link was idle: a call wakes it. A link that was lost is opened again at once
                await self._wanted.wait()

    async def _connect(self) -> None:
        """Use the server, on this node or another, until its link is lost or idle."""
        while (elsewhere := await self.share.claim()) is not None:
            await self._serve_elsewhere(elsewhere)
        self._wanted.clear()
        async with self.opener.open(lambda: self._logins.ask(self)) as link:
            await self._serve(link)
            if link.lost.is_set() and self.share.is_held:
                raise ServerLost("its link was lost")

    async def _pause(self, failures: int, reason: str, said: str) -> None:
        """Wait before the next try, longer each time (backoff). After the first failure there is no wait.

        The tools stay registered until the second failure.
        """
        if failures == 1:
            return
        self._registry.replace(self.origin, [])
        await self.share.release()  # another node may be able to run the server
        pause = min(_LONGEST_PAUSE, 2.0 ** (failures - 2)) * random.uniform(0.8, 1.2)
        # What the server said is for the operator alone: calls that wait get the reason without it.
        told = f"{reason}. It said last: {said}" if said else reason
        self.state = SourceState("failed", reason=told, next_try=time.time() + pause)
        self._refuse_waiting(reason)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wanted.wait()

    def _refuse_waiting(self, reason: str) -> None:
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(self._unreachable(reason))
            self._opened.exception()  # asyncio would log an error that is never read: perhaps no call waits any more

    def _unreachable(self, reason: str) -> ToolError:
        return ToolError("tool_not_available", f"The MCP server {self.server_name!r} can't be reached: {reason}")

    async def _serve_elsewhere(self, link: ServerElsewhere) -> None:
        """Keep the tools as they are on the node that runs the server, until that node runs it no longer."""
        self._wanted.clear()
        route = _Route(lambda tool, arguments, ctx: link.call(tool.own_name, arguments, ctx), link.lost)
        try:
            while not link.lost.is_set():
                link.changed.clear()
                self._take_snapshot(link)
                if link.snapshot.status == "ready":
                    self._use(route)
                await _wait_for_first(link.changed, link.lost)
        finally:
            self._route = None

    def _take_snapshot(self, link: ServerElsewhere) -> None:
        """Register the tools that the other node has, and take its state."""
        snapshot = link.snapshot
        self.is_internal, self.is_trusted = snapshot.internal_only, snapshot.trusted
        if snapshot.status == "ready":
            tools = [McpTool(served.definition, served.own_name, self.run_tool) for served in snapshot.tools]
            # The other node goes on with a call when this node is gone: the node that takes the call over asks for
            # its answer.
            handling = Handling("loop", "connection", outlives=True, internal=snapshot.internal_only)
            changes = {one.spec.name: one.change for one in snapshot.tools if one.change is not None}
            self._register(tools, handling, changes, link.id)
        tools_here = self._registry.count(self.origin)
        self.state = SourceState(snapshot.status, tools_here, snapshot.reason, broken=snapshot.broken)

    def _use(self, route: _Route) -> None:
        """Send calls over this link, also those that wait."""
        self._route = route
        self._last_used = time.monotonic()
        self._up_since = min(self._up_since, self._last_used)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(route)

    async def _serve(self, link: "McpLink") -> None:
        """Keep the tools right until the link is lost, or no call has used it for long."""
        await self._read_tools(link)
        if not self.share.is_held:
            return  # while the program started, another node got the lease

        async def run(tool: McpTool, arguments: Arguments, ctx: ToolContext) -> Json | Success:
            # The call may have waited while the server moved here from another node: `tool` is that node's then.
            return await self._tools.get(tool.own_name, tool).run_over(link, arguments, ctx)

        self._use(_Route(run, link.lost))
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(link.follow())
            while await self._wait_for_event(link):
                try:
                    await self._read_tools(link)
                except TimeoutError:  # perhaps the server is busy: it is asked again
                    limit = self.server.start_timeout
                    _log.warning("MCP server %s: its changed tools did not come within %g s", self.server_name, limit)
                    link.changed.set()
                await _wait_for_first(link.lost, seconds=_LIST_SECONDS)
                if self._is_idle():  # checked here, too: a server may say without end that its list has changed
                    break
            following.cancel()

    async def _wait_for_event(self, link: "McpLink") -> bool:
        """Wait for a change of the list, and return True. Return False when the link is lost or idle."""
        while True:
            await _wait_for_first(link.changed, link.lost, seconds=self.server.idle_timeout)
            if link.lost.is_set():
                return False
            if link.changed.is_set():
                link.changed.clear()
                return True
            if self._is_idle():
                return False

    def _is_idle(self) -> bool:
        limit = self.server.idle_timeout
        return limit is not None and not self._calls and time.monotonic() - self._last_used >= limit

    async def _read_tools(self, link: "McpLink") -> None:
        """Register what the server offers now."""
        async with asyncio.timeout(self.server.start_timeout):
            offer = await link.offer(self.server.most_tools)
        server = self.server
        self.is_internal, self.is_trusted = server.internal_only, server.trusted
        self.prompts = offer.prompts
        tools = list(make_tools(self.server_name, server, offer, self.run_tool))
        handling = Handling("loop", internal=server.internal_only)
        refused = self._register(tools, handling, None if server.trusted else "blocks")
        self.state = SourceState("ready", self._registry.count(self.origin), broken=(*offer.notes, *refused))
        self._changed(self)

    def _register(
        self,
        tools: Sequence[McpTool],
        handling: Handling,
        pins: PinPolicy | Mapping[str, DefinitionChange] | None,
        lease: str = "",
    ) -> list[Broken]:
        """Register these tools in place of the server's earlier ones. Return the refused tools.

        `lease`: the lease of the other node that runs the server.
        """
        self._tools = {tool.own_name: tool for tool in tools}
        origin = Origin("mcp", self.server_name, lease)
        if origin != self.origin:  # the server has moved
            self._registry.replace(self.origin, [])
            self.origin = origin
        return self._registry.replace(origin, tools, handling=handling, pins=pins)


async def _wait_for_first(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of these events is set, at most `seconds`."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
