"""The MCP protocol around an offer, through the official SDK."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handspan.core.errors import ToolError
from handspan.core.questions import Answer
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import Json, JsonObject
from handspan.mcp.answers import (
    encode_prompt,
    encode_question,
    encode_resource,
    encode_result,
    encode_tool,
    read_answer,
    repeats_in_headers,
)
from handspan.mcp.asgi import AsgiApp, Receive, Scope, Send
from handspan.mcp.asking_calls import AskingCall, AskingCalls
from handspan.mcp.change_notices import ChangeNotices
from handspan.mcp.fast_calls import FastCalls
from handspan.mcp.offer import ClientRequest, McpOffer
from handspan.mcp.progress import ProgressSender
from handspan.mcp.session_bounds import SessionBounds, SessionLimits, client_of
from mcp import MCPError

_T = TypeVar("_T")
_Context = ServerRequestContext[Any, Any]
FindSchema: TypeAlias = Callable[[str], JsonObject | None]
_RETRY_MILLISECONDS: Final = 500
"""How long a client waits before it continues a broken stream."""
_CHANGES: Final = NotificationOptions(tools_changed=True, prompts_changed=True)


class _ChangingServer(Server[Any]):
    """A server whose lists change: clients of the older era learn that when they connect."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> InitializationOptions:
        """Return what a new client is told about the server."""
        return super().create_initialization_options(notification_options or _CHANGES, *args, **more)


class ProtocolServer:
    """An MCP server for this offer. One object serves any number of clients, of both eras of the protocol."""

    def __init__(
        self,
        offer: McpOffer,
        name: str,
        version: str,
        instructions: str = "",
        find_schema: FindSchema | None = None,
        stamp: Callable[[str], str] | None = None,
    ) -> None:
        """`find_schema` returns the schema of a tool of the client whose request runs; None: there is no such tool.

        Headers may have to repeat arguments of a tool (`Mcp-Param-…`), and its schema says which ones. Without
        `find_schema` the offer is listed for that. `stamp` signs the states of calls that wait for their client.
        """
        self._offer = offer
        self._find_schema = find_schema
        self._plain: set[str] = set()
        """Listed tools without an argument that a header repeats."""
        self._with_headers: set[str] = set()
        """Listed tools with an argument that a header repeats. A name can be in both sets: the offer may change."""
        self._bus = InMemorySubscriptionBus()
        self._notices = ChangeNotices()
        self._asking = AskingCalls(stamp)
        self.sdk: Server[Any] = _ChangingServer(
            name,
            version=version,
            instructions=instructions or None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=find_schema,
        )
        """The SDK's own server, for what no offer has. Change it before it serves."""
        self.sdk.middleware.clear()  # no tracing: the journal has every call

    # Serving.

    async def serve_stdio(self) -> None:
        """Serve one client over standard input and output, until it closes them."""
        async with stdio_server() as (incoming, outgoing):
            await self.sdk.run(incoming, outgoing, self.sdk.create_initialization_options())

    @asynccontextmanager
    async def serve_http(
        self,
        *,
        sessions: SessionLimits,
        body_bytes: int,
        hosts: Sequence[str] | None = None,
        events: EventStore | None = None,
    ) -> AsyncGenerator[AsgiApp]:
        """Yield the handler of HTTP requests. Leaving the context ends all sessions.

        `hosts`: host names that a request may use; None: the caller has checked it. `events` stores sent messages, so
        that a client of the older MCP protocol can continue a broken stream; None: nothing is stored.
        """
        http = StreamableHTTPSessionManager(
            self.sdk,
            event_store=events,
            retry_interval=None if events is None else _RETRY_MILLISECONDS,
            security_settings=None if hosts is None else _host_rules(hosts),
            session_idle_timeout=sessions.idle_timeout,
            max_sessions=None,  # `SessionBounds` ends old ones instead
            max_request_body_size=body_bytes,
        )
        async with http.run():
            try:
                stamp: JsonObject = self.sdk.server_info_stamp
                library = SessionBounds(_trim_headers(http.handle_request), sessions).answer
                yield FastCalls(self._offer, library, stamp, self._is_plain).answer
            finally:
                await self._notices.close()
                await self._asking.close()

    async def tell_of_changes(self) -> None:
        """Begin to tell all clients that the tools and prompts may have changed."""
        await self._bus.publish(ToolsListChanged())
        await self._bus.publish(PromptsListChanged())
        self._notices.send()

    def _is_plain(self, name: str) -> bool:
        """Whether no argument of this tool has to be repeated in a header. False also for an unknown tool."""
        if self._find_schema is None:
            return name in self._plain and name not in self._with_headers
        schema = self._find_schema(name)
        return schema is not None and not repeats_in_headers(schema)

    def _remember(self, ctx: _Context) -> None:
        """Remember a session of the older era: it is told of changes."""
        if not _is_modern(ctx):
            name = "" if ctx.request is None else ctx.request.headers.get(MCP_SESSION_ID_HEADER, "")
            self._notices.add(name, ctx.session)

    # What clients ask for.

    async def _list_tools(self, ctx: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self._remember(ctx)
        tools = await self._offer.list_tools(_request(ctx))
        if self._find_schema is None:
            for tool in tools:
                (self._with_headers if repeats_in_headers(tool.parameters) else self._plain).add(tool.name)
        return types.ListToolsResult(tools=[encode_tool(tool) for tool in tools])

    async def _call_tool(
        self, ctx: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self._remember(ctx)
        async with ProgressSender(ctx.session) as progress:
            if params.request_state is not None or (_is_modern(ctx) and _can_ask(ctx)):  # then it asks by its result
                return await self._step(self._asking_call(ctx, params), progress.show)
            result = await self._offer.call_tool(params.name, params.arguments or {}, _request(ctx, progress.show))
        return encode_result(result, is_modern=_is_modern(ctx))

    def _asking_call(self, ctx: _Context, params: types.CallToolRequestParams) -> AskingCall:
        """Return a new call, or the one that this request brings answers for."""
        scope, name, arguments = _scope(ctx), params.name, params.arguments or {}
        client = "" if scope is None else client_of(scope)  # over standard input and output there is one client
        if params.request_state is None:

            async def run(call: AskingCall) -> ToolResult:
                request = ClientRequest(scope, lambda value: call.show(value), call.ask)
                return await self._offer.call_tool(name, arguments, request)

            return AskingCall(client, name, arguments, run)
        try:
            call = self._asking.take(params.request_state, client, name, arguments)
        except ToolError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        responses = params.input_responses or {}
        call.answer({key: read_answer(one) for key, one in responses.items() if isinstance(one, types.ElicitResult)})
        return call

    async def _step(
        self, call: AskingCall, show: Callable[[Json], None]
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Return the result of the call; or its questions, with the state that the client has to bring back."""
        call.show = show
        step = await call.step()
        if isinstance(step, (Success, Failure)):
            return encode_result(step, is_modern=True)
        requests: types.InputRequests = {key: encode_question(one.text, one.schema) for key, one in step.items()}
        return types.InputRequiredResult(input_requests=requests, request_state=self._asking.keep(call))

    async def _list_prompts(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Answer `prompts/list`."""
        prompts = [
            types.Prompt(
                name=prompt.name,
                description=prompt.description,
                arguments=[types.PromptArgument(name=name, required=True) for name in prompt.arguments],
            )
            for prompt in await self._offer.list_prompts(_request(ctx))
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def _get_prompt(self, ctx: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        work = self._offer.get_prompt(params.name, params.arguments or {}, _request(ctx))
        return encode_prompt(await _find_or_refuse(work))

    async def _list_resources(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        resources = [
            types.Resource(uri=found.uri, name=found.name, mime_type=found.media_type or None, size=found.size)
            for found in await self._offer.list_resources(_request(ctx))
        ]
        return types.ListResourcesResult(resources=resources)

    async def _list_templates(
        self, ctx: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Answer `resources/templates/list`."""
        templates = [
            types.ResourceTemplate(
                uri_template=found.uri,
                name=found.name,
                description=found.description or None,
                mime_type=found.media_type or None,
            )
            for found in await self._offer.list_templates(_request(ctx))
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(self, ctx: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        found = await _find_or_refuse(self._offer.read_resource(uri, _request(ctx)), {"uri": uri})
        return types.ReadResourceResult(contents=[encode_resource(uri, found)])


def _request(ctx: _Context, progress: Callable[[Json], None] = lambda _: None) -> ClientRequest:
    async def ask(text: str, schema: JsonObject) -> Answer:
        return read_answer(await ctx.session.elicit_form(text, schema, ctx.request_id))

    can_ask = _can_ask(ctx) and ctx.session.can_send_request
    return ClientRequest(_scope(ctx), progress, ask if can_ask else None)


def _scope(ctx: _Context) -> Scope | None:
    return None if ctx.request is None else ctx.request.scope


def _is_modern(ctx: _Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _can_ask(ctx: _Context) -> bool:
    """Whether the client can ask its person."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


async def _find_or_refuse(work: Coroutine[Any, Any, _T], details: JsonObject | None = None) -> _T:
    """Return what the offer gives. Raises `MCPError` for what the offer does not have."""
    try:
        return await work
    except ToolError as error:
        raise MCPError(types.INVALID_PARAMS, error.message, details) from None


def _host_rules(hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return rules that allow these host names, with any port, and pages from them."""
    names = [name for host in hosts for name in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)


def _trim_headers(handle: AsgiApp) -> AsgiApp:
    """Return an application that removes the spaces around values of headers: some HTTP parsers leave them there."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await handle({**scope, "headers": headers}, receive, send)

    return app


def make_asgi(server: ProtocolServer, path: str, hosts: Sequence[str], events: EventStore | None = None) -> AsgiApp:
    """Return an ASGI application with this server at this path. The lifespan events open and close it."""
    handler: AsgiApp | None = None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal handler
        if scope["type"] == "lifespan":
            await receive()
            async with server.serve_http(
                sessions=SessionLimits(1000, 1000, 1800.0), body_bytes=4 * 1024 * 1024, hosts=hosts, events=events
            ) as handler:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http" and scope["path"] == path and handler is not None:
            await handler(scope, receive, send)
        else:
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    return app
