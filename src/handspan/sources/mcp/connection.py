"""One MCP server as a source of tools; a server that died is started again here (SPEC C4).

One task owns the link: it opens it, reads the server's list, follows its changes, and opens it again when it was lost.
The tools stay registered while the server is started again; a call that comes meanwhile waits for it. They go when
that does not succeed at once.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from handspan.config.settings import McpOauth, McpServer
from handspan.core.errors import HandspanError, ToolError
from handspan.core.names import outside_name
from handspan.core.principals import Origin
from handspan.core.sources import SourceState
from handspan.core.tool import Handling
from handspan.net.exchange import describe_http_error
from handspan.net.guard import NetGuard
from handspan.registry.registry import Registry
from handspan.sources.mcp.logins.login import ScopeMissing
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.process import Cleaner, ServerProcess
from handspan.sources.mcp.tools import ToolLink, ToolRules, make_tools

if TYPE_CHECKING:
    from handspan.sources.mcp.sdk import McpLink

_log = logging.getLogger(__name__)

_LONGEST_PAUSE: Final = 60.0
_EXIT_SECONDS: Final = 0.5
"""How long the end of a process may lag behind the end of its output."""
_STEADY_SECONDS: Final = 10.0
"""A link that lasted so long counts as a good one: the next try comes at once."""


class McpConnection:
    """One MCP server. While it is open, the registry holds the tools that the server has."""

    def __init__(
        self,
        server_name: str,
        server: McpServer,
        registry: Registry,
        guard: NetGuard,
        cleaner: Cleaner,
        secret: Callable[[str], str],
        folder: Path,
        changed: "Callable[[McpConnection], None]",
        logins: McpLogins,
    ) -> None:
        """`secret` resolves `env:NAME` and `file:PATH`; `changed` is called after each list of the server."""
        self.server_name = server_name
        self.server = server
        self.origin = Origin("mcp", server_name)
        self._registry = registry
        self._guard = guard
        self._cleaner = cleaner
        self._secret = secret
        self._folder = folder
        self._changed = changed
        self._logins = logins
        self._state = SourceState()
        self._link: McpLink | None = None
        self._opened: asyncio.Future[McpLink] | None = None
        self._wanted = asyncio.Event()
        self._slots = asyncio.Semaphore(server.concurrency)
        self._names: dict[str, str] = {}
        self._calls = 0
        self._last_used = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def name(self) -> str:
        """Its name among the sources."""
        return str(self.origin)

    @property
    def state(self) -> SourceState:
        """How far it is: whether it runs, how many tools it has, and why not."""
        return self._state

    async def open(self) -> None:
        """Begin to connect. Nothing waits for the server (SPEC R5)."""
        self._state, self._is_closing = SourceState("opening"), False
        self._task = asyncio.create_task(self._supervise(), name=self.name)

    async def close(self) -> None:
        """End the link and the server's process, and remove its tools."""
        self._is_closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._registry.replace(self.origin, [])
        self._state = SourceState()

    async def settle(self, seconds: float) -> None:
        """Try to connect now if the server is not up. Return when that has succeeded or failed, or after the time."""
        try:
            async with asyncio.timeout(seconds):
                await self._open()
        except (TimeoutError, ToolError):
            pass

    async def reconnect(self, seconds: float) -> None:
        """Open the link anew, as after a login, and wait as `settle` does."""
        if self._link is not None:
            self._link.lost.set()
        await self.settle(seconds)

    @property
    def login_url(self) -> str:
        """The address at which a person can log in; empty for a program, and if the settings hold the key."""
        has_key = any(name.lower() == "authorization" for name in self.server.headers)
        return "" if self.server.command or has_key else self.server.url

    @property
    def login_client(self) -> McpOauth:
        """How we are known at its login, with the secret itself. Raises `ConfigError` when that is not there."""
        client = self.server.oauth
        return replace(client, client_secret=self._secret(client.client_secret)) if client.client_secret else client

    def full_name(self, own_name: str) -> str:
        """Return the name under which the registry has this tool of the server."""
        return self._names.get(own_name, outside_name(own_name, self.server_name))

    async def use(self, work: Callable[[ToolLink], Awaitable[Any]]) -> Any:
        """Do something with the link, as soon as it is open and a place is free; again after a login for it."""
        try:
            return await self._use(work)
        except ScopeMissing as missing:
            await self._logins.widen(self, missing)
            return await self._use(work)

    async def _use(self, work: Callable[[ToolLink], Awaitable[Any]]) -> Any:
        self._calls += 1
        try:
            async with self._slots:
                return await work(await self._open())
        finally:
            self._calls -= 1
            self._last_used = time.monotonic()

    async def _open(self) -> "McpLink":
        """Return the link, after the next try if it is not open now. Raises `ToolError` when that fails."""
        if self._link is not None and not self._link.lost.is_set():
            return self._link
        if self._opened is None or self._opened.done():
            self._opened = asyncio.get_running_loop().create_future()
        self._wanted.set()
        return await asyncio.shield(self._opened)

    # The task.

    async def _supervise(self) -> None:
        failures, told, said = 0, "", ""
        while True:
            began = time.monotonic()
            try:
                async with self._open_link() as link:
                    await self._serve(link)
                reason = said = ""
            except Exception as error:  # code and answers of others: whatever they do, the gateway goes on
                reason = describe_failure(error)
                said = error.said if isinstance(error, ServerLost) else ""
            finally:
                self._link = None
            if self._is_closing:  # a link that fails while it is cancelled raises its failure instead
                return
            is_steady = time.monotonic() - began > _STEADY_SECONDS
            failures = 0 if not reason or is_steady else failures + 1
            if reason and reason != told:
                _log.warning("MCP server %s: %s", self.server_name, reason)
            told = reason
            await (self._pause(failures, reason, said) if failures else self._rest(reason))

    async def _rest(self, reason: str) -> None:
        """After a good link: try again at once if it was lost, else wait until a call needs it."""
        if not reason:
            await self._wanted.wait()

    async def _pause(self, failures: int, reason: str, said: str) -> None:
        """Wait before the next try. The first one comes at once: the tools stay until it has failed, too."""
        if failures == 1:
            return
        self._registry.replace(self.origin, [])
        pause = min(_LONGEST_PAUSE, 2.0 ** (failures - 2)) * random.uniform(0.8, 1.2)
        # What the server said is for the operator alone: calls that wait get the reason without it.
        told = f"{reason}. It said last: {said}" if said else reason
        self._state = SourceState("failed", reason=told, next_try=time.time() + pause)
        self._refuse_waiting(reason)
        try:
            async with asyncio.timeout(pause):
                await self._wanted.wait()
        except TimeoutError:
            pass

    def _refuse_waiting(self, reason: str) -> None:
        if self._opened is not None and not self._opened.done():
            text = f"The MCP server {self.server_name!r} can't be reached: {reason}"
            self._opened.set_exception(ToolError("tool_not_available", text))
            self._opened.exception()  # read here: no call may wait for it any more

    @asynccontextmanager
    async def _open_link(self) -> AsyncGenerator["McpLink"]:
        self._wanted.clear()
        server = self.server
        if server.command:
            async with self._process() as process:
                sdk = await load_sdk()
                async with sdk.open_process_link(self.server_name, process, server.start_timeout) as link:
                    yield link
                    if link.lost.is_set():
                        raise ServerLost("its link was lost")
        elif server.url:
            async with self._http_link() as link:
                yield link
                if link.lost.is_set():
                    raise ServerLost("its link was lost")
        else:
            raise ServerLost("it has neither `command` nor `url` in the settings")

    @asynccontextmanager
    async def _http_link(self) -> AsyncGenerator["McpLink"]:
        """Open a link to an address, with the tokens of a login. A server that wants one is told to the operator."""
        server, sdk = self.server, await load_sdk()
        name, url = self.server_name, self.login_url
        auth = await self._logins.make_auth(name, url, self.login_client) if url else None
        opening = sdk.open_http_link(
            self.server_name, server.url, self._resolve(server.headers), self._guard, server.start_timeout, auth
        )
        try:
            async with opening as link:
                yield link
        except Exception as error:
            if auth is not None and auth.is_refused:
                if auth.problem:
                    raise ServerLost(auth.problem) from error
                self._logins.want(self.server_name, auth.missing_scope)
                self._logins.ask(self)
                raise ServerLost(f"needs a login: handspan mcp login {self.server_name}") from error
            raise

    @asynccontextmanager
    async def _process(self) -> AsyncGenerator[ServerProcess]:
        server = self.server
        try:
            process = await ServerProcess.start(
                self.server_name, server.command, server.args, self._resolve(server.env), self._cleaner, self._folder
            )
        except FileNotFoundError:  # not every event loop says which file
            remedy = "install it, or give its full path in `command`"
            raise ServerLost(f"there is no program {server.command!r}: {remedy}") from None
        try:
            yield process
        except Exception as error:
            if process.fault or await process.ends_within(
                _EXIT_SECONDS
            ):  # that is the true reason, whatever else went wrong
                raise ServerLost(process.exit_reason, await process.last_lines()) from error
            raise
        finally:
            await asyncio.shield(process.close())

    def _resolve(self, values: Mapping[str, str]) -> dict[str, str]:
        return {key: self._secret(value) for key, value in values.items()}

    async def _serve(self, link: "McpLink") -> None:
        """Keep the tools right until the link is lost, or no call has used it for long."""
        await self._read_tools(link)
        self._link = link
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(link)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(link.follow())
            while await self._wait_for_event(link):
                await self._read_tools(link)
            following.cancel()

    async def _wait_for_event(self, link: "McpLink") -> bool:
        """Whether the list has to be read again; False: the link is lost, or it is idle."""
        while True:
            waits = [asyncio.ensure_future(event.wait()) for event in (link.changed, link.lost)]
            try:
                await asyncio.wait(waits, timeout=self.server.idle_timeout, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if link.lost.is_set():
                return False
            if link.changed.is_set():
                link.changed.clear()
                return True
            if self._is_idle():
                return False

    def _is_idle(self) -> bool:
        limit = self.server.idle_timeout
        return limit is not None and self._calls == 0 and time.monotonic() - self._last_used >= limit

    async def _read_tools(self, link: "McpLink") -> None:
        async with asyncio.timeout(self.server.start_timeout):
            offer = await link.offer()
        server = self.server
        rules = ToolRules(server.allow, server.deny, server.permissions, server.timeout)
        tools = list(make_tools(self.server_name, offer, rules, self.use))
        self._names = {tool.own_name: tool.spec.name for tool in tools}
        refused = self._registry.replace(
            self.origin,
            tools,
            handling=Handling("loop", internal=server.internal_only),
            pins=None if server.trusted else "blocks",
        )
        self._state = SourceState("ready", self._registry.count(self.origin), broken=tuple(refused))
        self._changed(self)


class ServerLost(HandspanError):
    """The link to an MCP server ended, or can't be opened. `said` is what its process wrote to standard error last."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


async def load_sdk() -> Any:
    """Return our module that uses the SDK. A thread loads it: it would block the event loop for most of a second."""
    return await asyncio.to_thread(_import_sdk)


def _import_sdk() -> Any:
    from handspan.sources.mcp import sdk  # noqa: PLC0415 - a heavy library, loaded with the first server

    return sdk


def describe_failure(error: BaseException) -> str:
    """Return in one line why a server can't be used."""
    import httpx2  # noqa: PLC0415 - loaded with the first server

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case HandspanError():
            return str(error)
        case httpx2.RequestError():
            return describe_http_error(error)
        case OSError(strerror=str(why)):
            return f"the operating system refuses it: {why}"
    # The name of a class says nothing to a person, unless there is nothing else.
    return f"it failed: {str(error).partition(chr(10))[0] or type(error).__name__}"
