"""One app at the gateway: a device connection with its tools, whose calls go to the app (cetp.md 8)."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from handspan.bridge.transport import ProviderApp, Transport
from handspan.client import CallContext, Client, LoginRequest, LoginRequired
from handspan.core.errors import DefinitionError, HandspanError, ToolError, WireError
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.wire.cetp import (
    ERROR_CODES,
    GET_PROVIDER_INFO,
    LIST_TOOLS,
    CetpError,
    CetpResponse,
    CetpSuccess,
    ProviderInfo,
    ProviderTool,
    ProviderTools,
    execute_request,
    no_response_error,
    prefixed_name,
    read_data,
    read_info,
    read_tools,
)
from handspan.wire.ws_frames import DeviceNotes, DeviceScope

_log = logging.getLogger(__name__)
_SCAN_SECONDS: Final = 10.0
"""How long an app may take to list its tools."""
_OLD_LIST: Final = "Its tools could not be listed again, and stay as they were: "
_AUTHORIZE: Final = "authorize"
"""The intent of an app that names none, but can be authorized."""


class ConnectApp(Protocol):
    """Makes the client of one app, which is not connected yet."""

    def __call__(
        self, app: ProviderApp, label: str, name: str, start_login: Callable[[LoginRequest], Awaitable[None]]
    ) -> Client: ...


class BridgedApp:
    """Keeps the tools of one app at the gateway right, and forwards their calls. Its failures affect no other app."""

    def __init__(
        self, app: ProviderApp, label: str, transport: Transport, connect: ConnectApp, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when `state` has changed."""
        self.app = app
        self.label = label
        self.state = "it is being looked at"
        """Why the app's tools are not offered, for a person; empty when they are."""
        self._transport = transport
        self._connect = connect
        self._on_change = on_change
        self._client: Client | None = None
        self._running: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._tools: dict[str, ProviderTool] = {}
        """The tools that are offered, by their names at the gateway."""
        self._listed = ""
        """The fingerprint of the app when it listed these tools."""
        self._notes: DeviceNotes = DeviceNotes()
        self._rejected: list[str] = []
        """The tools that the gateway does not take, each with the reason."""
        self._old_list: CetpError | None = None
        """Why the offered tools are those of an earlier look; None when they are those of the last one."""

    @property
    def tools(self) -> list[str]:
        """The names of the tools that are offered."""
        return list(self._tools)

    def refresh(self, app: ProviderApp) -> None:
        """Look at the app again, in a task of its own. Calls that run go on."""
        is_same = app.fingerprint == self.app.fingerprint
        self.app = app
        if self._refreshing is not None and not self._refreshing.done():
            if is_same:
                return
            self._refreshing.cancel()
        self._refreshing = asyncio.create_task(self._refresh())

    async def close(self) -> None:
        """Take the tools back."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._disconnect()

    # The tools.

    async def _refresh(self) -> None:
        """Read the app's tools, and offer them to the gateway."""
        try:
            listed = await self._list_tools()
            if isinstance(listed, CetpError):
                self._set_state("" if self._tools else listed.text)
                self._note_old_list(listed)
                return
            await self._offer(listed, await self._read_info())
            self._listed = self.app.fingerprint
        except HandspanError as error:
            self._set_state(str(error))

    async def _list_tools(self) -> ProviderTools | CetpError:
        """Return the tools, or why there are none. A sleeping app is woken, silently (cetp.md 8.5)."""
        response = await self._ask(LIST_TOOLS)
        if _is_unanswered(response) and self._listed != self.app.fingerprint:
            self._set_state("it is being started, or waits for your answer whether it may")
            in_vain = await self._transport.wake(self.app, shows_screen=False)
            response = no_response_error(self.app.id, in_vain) if in_vain else await self._ask(LIST_TOOLS)
        if isinstance(response, CetpError):
            return response
        try:
            return read_tools(response.data)
        except WireError as error:
            return CetpError("INTERNAL_ERROR", str(error))

    async def _read_info(self) -> ProviderInfo:
        """Return what the app says of itself. Most say nothing, and that is no failure (cetp.md 1.5)."""
        response = await self._ask(GET_PROVIDER_INFO)
        try:
            return read_info(response.data) if isinstance(response, CetpSuccess) else ProviderInfo()
        except WireError:
            return ProviderInfo()

    async def _ask(self, method: str) -> CetpResponse:
        try:
            async with asyncio.timeout(_SCAN_SECONDS):
                return await self._transport.call(self.app, method, None)
        except TimeoutError:
            return no_response_error(self.app.id, f"no answer within {_SCAN_SECONDS:g} seconds")

    async def _offer(self, listed: ProviderTools, info: ProviderInfo) -> None:
        """Offer these tools in place of the earlier ones."""
        notes = [f"The tool {one.name!r} is not offered: {one.reason}." for one in listed.left_out]
        writing = [tool.name for tool in listed.tools if not tool.only_reads]
        notes += [f"The tool {name!r} is not offered: it says that it writes." for name in writing]
        offered = {prefixed_name(self.label, tool.name): tool for tool in listed.tools if tool.only_reads}
        client = self._client or self._new_client(info)
        for gone in self._tools.keys() - offered.keys():
            client.unregister(gone)
        for name, tool in tuple(offered.items()):
            if self._tools.get(name) == tool:
                continue
            try:
                client.register(_spec(name, tool), functools.partial(self._forward, tool.name))
            except DefinitionError as error:
                del offered[name]
                notes.append(f"The tool {tool.name!r} is not offered: {error}.")
        self._tools = offered
        scopes = [DeviceScope(one.name, one.description) for one in info.scopes]
        self._notes, self._rejected, self._old_list = DeviceNotes(info.description, scopes, notes), [], None
        self._describe(client)
        for note in notes:
            _log.info("%s: %s", self.app.id, note)
        await self._keep_connected(client)

    def _note_old_list(self, why: CetpError | None) -> None:
        """Show why the tools could not be listed again. None: there is nothing to show."""
        if self._client is None or why == self._old_list:
            return
        self._old_list = why
        if why is not None:  # an app without an answer may only sleep
            level = logging.INFO if why.is_unanswered else logging.WARNING
            _log.log(level, "%s: %s", self.app.id, f"{_OLD_LIST}{why.text}")
        self._describe(self._client)

    def _describe(self, client: Client) -> None:
        """Show what people should know of this app in the list of devices."""
        old = [] if self._old_list is None else [f"{_OLD_LIST}{self._old_list.text}"]
        notes = [*self._notes.notes, *self._rejected, *old]
        client.describe(DeviceNotes(self._notes.description, self._notes.scopes, notes))

    def _new_client(self, info: ProviderInfo) -> Client:
        return self._connect(self.app, self.label, info.provider_name or self.app.name, self._start_login)

    # The connection.

    async def _keep_connected(self, client: Client) -> None:
        """Connect the client while there are tools to offer; else disconnect it."""
        if not self._tools:
            await self._disconnect()
            self._set_state("; ".join(self._notes.notes) or "it offers no tools")
            return
        if self._running is None:
            self._client = client
            self._running = asyncio.create_task(self._run(client))
        self._set_state("")

    async def _run(self, client: Client) -> None:
        """Keep the app's connection to the gateway open, until it ends for good."""
        try:
            await client.run()
            reason = "the gateway has ended its connection"
        except HandspanError as error:
            reason = str(error)
        if self._client is client:  # else `_disconnect` has ended it. The next scan connects again
            self._client, self._running, self._tools, self._listed = None, None, {}, ""
            self._set_state(reason)

    async def _disconnect(self) -> None:
        client, running = self._client, self._running
        self._client, self._running, self._tools, self._listed = None, None, {}, ""
        if client is not None and running is not None:
            client.close()
            await asyncio.gather(running, return_exceptions=True)

    def rename(self, label: str, why: str) -> None:
        """Offer the tools under another label, if it is another one. `why`: the gateway's reason."""
        if label != self.label:
            _log.warning("%s: %s", self.app.id, why)
            self.label = label
            self.refresh(self.app)

    def note_rejected(self, rejected: dict[str, str]) -> None:
        """Show which tools the gateway has rejected, and why."""
        if self._client is not None and rejected:
            self._rejected = [f"The gateway does not take {name!r}: {reason}" for name, reason in rejected.items()]
            for text in self._rejected:
                _log.warning("%s: %s", self.app.id, text)
            self._describe(self._client)

    def _set_state(self, state: str) -> None:
        """Note why the app does not work now, empty if it works, and log a change."""
        if state != self.state:
            self.state = state
            if state:
                _log.info("%s: %s", self.app.id, state)
            else:
                count = len(self._tools)
                tools = f"{count} tool{'' if count == 1 else 's'}"
                _log.info("%s: %s as %s", self.app.id, tools, prefixed_name(self.label, "…"))
        self._on_change()

    # The calls.

    async def _forward(self, tool: str, arguments: Arguments, ctx: CallContext) -> Json:
        """Return the app's answer. Tried three times at most, with one `request_id` (cetp.md 8.4)."""
        request = execute_request(tool, dict(arguments), ctx.call_id)
        response = await self._transport.call(self.app, request.method, request.extras)
        for shows_screen in (False, True):
            if not _is_unanswered(response):
                break
            _log.info("%s: the call %s of %r is tried again", self.app.id, ctx.call_id, tool)
            in_vain = await self._transport.wake(self.app, shows_screen=shows_screen)
            if in_vain:
                response = no_response_error(self.app.id, in_vain)
            else:
                response = await self._transport.call(self.app, request.method, request.extras)
        if isinstance(response, CetpSuccess):
            if self._old_list is not None and self._old_list.is_unanswered:  # it slept at the last look
                self._note_old_list(None)
            return read_data(response.data)
        raise self._error(response)

    def _error(self, error: CetpError) -> ToolError:
        """Return the failure of a call; `LoginRequired` if the person has to log in."""
        if error.error_code != "AUTH_REQUIRED":
            return ToolError(ERROR_CODES[error.error_code], error.text)
        intent = (error.authorize_intent or _AUTHORIZE) if self.app.can_authorize else ""
        return LoginRequired(f"[AUTH_REQUIRED] {error.error_message}", hint=error.resolution_hint, intent=intent)

    async def _start_login(self, request: LoginRequest) -> None:
        intent = "" if request.intent == _AUTHORIZE else request.intent
        await self._transport.authorize(self.app, intent)


def _is_unanswered(response: CetpResponse) -> bool:
    return isinstance(response, CetpError) and response.is_unanswered


def _spec(name: str, tool: ProviderTool) -> ToolSpec:
    parameters: JsonObject = {"type": "object", **tool.parameters}
    return ToolSpec(name, tool.description, parameters, annotations=Annotations(read_only=True))
