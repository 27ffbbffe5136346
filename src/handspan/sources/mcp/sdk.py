"""One open link to an MCP server, through the official SDK.

This module is loaded with the first server, on a thread: loading it takes most of a second.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Self

import mcp_types as types
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import ValidationError

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.questions import Answer, QuestionAction
from handspan.core.results import Success
from handspan.core.sources import Broken
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments, Json, JsonObject, strip_invisible
from handspan.core.version import VERSION
from handspan.net.guard import NetGuard
from handspan.sources.mcp.contents import Content, describe, read_result, read_tool
from handspan.sources.mcp.http_limits import PLAIN_BYTES
from handspan.sources.mcp.logins.bearer import RequestRefusal, request_refusal
from handspan.sources.mcp.logins.login import ScopeMissing
from handspan.sources.mcp.process import ServerProcess
from handspan.sources.mcp.server_answers import AnswerReader
from handspan.sources.mcp.tools import ServerOffer, ServerPrompt
from handspan.sources.mcp.transports import over_http, over_pipes
from mcp import Client, MCPError

_log = logging.getLogger(__name__)

_MAX_PAGES: Final = 200
"""Pages of one list. A list that never ends is cut off there."""


_TURN_TOOLS: Final = 100
_MOST_PROMPTS: Final = 100
_LONGEST_HINT: Final = 300
"""After so many tools of a list, other work has its turn."""
_caller: ContextVar[ToolContext | None] = ContextVar("_caller", default=None)
"""The call in whose task a server asks for something; None: the server asked by itself, on the link."""


class _RunningCall(Struct, frozen=True, eq=False):
    """A call that waits for its answer of the server."""

    ctx: ToolContext
    ended: asyncio.Event


class McpLink:
    """An open link to one server. `changed` is set when its tools may have changed, `lost` when it may be gone."""

    def __init__(self, name: str, transport: Any, answers: AnswerReader, *, is_over_http: bool) -> None:
        """`answers` reads what comes over the `transport`."""
        self._name = name
        self._is_over_http = is_over_http
        self._running: dict[str, _RunningCall] = {}
        self._answers = answers
        self.changed = asyncio.Event()
        self.lost = answers.lost
        self._client = Client(
            transport,
            client_info=types.Implementation(name="handspan", version=VERSION),
            message_handler=self._hear,
            elicitation_callback=self._elicit,
            cache=None,
        )

    @asynccontextmanager
    async def connect(self, seconds: float) -> AsyncGenerator[Self]:
        """Yield this link, connected during the block. Raises `TimeoutError` after `seconds` without an answer."""
        async with asyncio.timeout(seconds) as limit, self._client:
            limit.reschedule(None)
            yield self

    async def offer(self, most: int) -> ServerOffer:
        """Return what the server has: its first `most` tools, each name once; whether it has resources and prompts."""
        tools, notes = await self._list_tools(most)
        capabilities = self._client.server_capabilities
        return ServerOffer(
            tuple(tools.values()),
            tuple(notes),
            capabilities.resources is not None
            and (
                await _has(self._client.list_resources, "resources")
                or await _has(self._client.list_resource_templates, "resource_templates")
            ),
            () if capabilities.prompts is None else await self._first_prompts(),
        )

    async def _first_prompts(self) -> tuple[ServerPrompt, ...]:
        """Return the first prompts of the server. Many servers claim to have some, and have none."""
        try:
            found = await self._client.list_prompts()
        except MCPError:
            return ()
        return tuple(
            ServerPrompt(
                strip_invisible(one.name),
                strip_invisible(one.description or "")[:_LONGEST_HINT],
                tuple(strip_invisible(argument.name) for argument in one.arguments or ()),
            )
            for one in found.prompts[:_MOST_PROMPTS]
        )

    async def _list_tools(self, most: int) -> tuple[dict[str, ToolSpec], list[Broken]]:
        """Return the tools by name, and what of the list is not used. A long list gives way to other work."""
        tools: dict[str, ToolSpec] = {}
        notes: dict[str, Broken] = {}
        self._answers.most_tools = most + 1
        count = 0
        async for tool in _list_items(self._client.list_tools, "tools"):
            count += 1
            if count > most:
                where = f"all tools after the first {most}"
                notes[""] = Broken(where, "the server lists more; `most_tools` of its settings says how many are used")
                break
            if tool.name in tools:
                shown = strip_invisible(tool.name)
                notes[tool.name] = Broken(shown, "the server lists this name more than once; the first tool counts")
            else:
                tools[tool.name] = read_tool(tool)
            if not count % _TURN_TOOLS:
                await asyncio.sleep(0)
        return tools, list(notes.values())

    async def call(self, own_name: str, arguments: Arguments, ctx: ToolContext) -> Success:
        """Run a tool of the server. Raises `ToolError` when it fails, or when the link is lost meanwhile."""

        async def show(progress: float, total: float | None, message: str | None) -> None:
            ctx.progress(_progress(progress, total, message))

        work = self._client.call_tool(own_name, dict(arguments), progress_callback=show)
        return read_result(await self._ask(ctx, work))

    async def list_resources(self, ctx: ToolContext) -> Json:
        """Return the resources of the server, and its templates of resources."""
        resources: list[Json] = await self._ask(ctx, _describe_all(self._client.list_resources, "resources"))
        templates: list[Json] = []
        with suppress(MCPError):  # many servers with resources do not know this request
            templates = await _describe_all(self._client.list_resource_templates, "resource_templates")
        return {"resources": resources, "templates": templates}

    async def read_resource(self, uri: str, ctx: ToolContext) -> Success:
        """Return the content of a resource."""
        result: types.ReadResourceResult = await self._ask(ctx, self._client.read_resource(uri))
        content = Content()
        for part in result.contents:
            content.add_resource(part)
        return content.success(None)

    async def list_prompts(self, ctx: ToolContext) -> Json:
        """Return the prompts of the server."""
        prompts: list[Json] = await self._ask(ctx, _describe_all(self._client.list_prompts, "prompts"))
        return prompts

    async def get_prompt(self, name: str, arguments: dict[str, str], ctx: ToolContext) -> Success:
        """Return the messages of a prompt as text, with what is attached to them."""
        result: types.GetPromptResult = await self._ask(ctx, self._client.get_prompt(name, arguments))
        content = Content()
        for message in result.messages:
            content.texts.append(f"{message.role}:")
            content.add(message.content)
        return content.success(None)

    async def follow(self) -> None:
        """Set `changed` when the server says so, until the link is lost. In the older era, `_hear` does that."""
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with self._client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self.changed.set()
        except SubscriptionLost:
            self.lost.set()
        except MCPError as error:
            _log.debug("MCP server %s does not tell of changes: %s", self._name, error)

    async def _ask(self, ctx: ToolContext, work: Awaitable[Any]) -> Any:
        """Await a request of this call. What the server asks meanwhile goes to the person of the call."""
        token = _caller.set(ctx)
        refusal = RequestRefusal()
        refused = request_refusal.set(refusal)
        self._running[ctx.call_id] = _RunningCall(ctx, asyncio.Event())
        try:
            return await work
        except MCPError as error:
            if refusal.scope:
                raise ScopeMissing(self._name, refusal.scope, ctx) from error
            raise self._tool_error(error) from error
        except (ValidationError, RuntimeError) as error:
            text = f"The MCP server {self._name!r} sent an answer that breaks the protocol"
            raise ToolError("execution_failed", f"{text}: {str(error).partition(chr(10))[0]}") from error
        finally:
            self._running.pop(ctx.call_id).ended.set()
            request_refusal.reset(refused)
            _caller.reset(token)

    def _tool_error(self, error: MCPError) -> ToolError:
        """Return the failure of a call. Sets `lost` when the error means that the link may be gone."""
        message = strip_invisible(error.error.message)
        match error.error.code:
            case types.CONNECTION_CLOSED:
                self.lost.set()
                text = f"The MCP server {self._name!r} ended while it ran this call: the outcome is unknown."
                return ToolError("unknown_outcome", f"{text} Look before you call it again.")
            case types.INVALID_PARAMS:
                return ToolError("invalid_arguments", message)
            case types.METHOD_NOT_FOUND:
                return ToolError("tool_not_found", message)
            case types.REQUEST_TIMEOUT:
                return ToolError("timeout", message)
        if self._is_over_http:
            self.lost.set()  # a server that forgot our session says so in many ways: the link is opened anew
        return ToolError("execution_failed", message or f"The MCP server {self._name!r} failed and did not say why.")

    async def _hear(self, message: IncomingMessage) -> None:
        """Take a message that no request of ours waits for."""
        if isinstance(message, types.ToolListChangedNotification):
            self.changed.set()

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the person for whom the call runs (SPEC P6)."""
        subject = f"{self._name}: {strip_invisible(params.message)}"

        async def ask(ctx: ToolContext) -> types.ElicitResult:
            if isinstance(params, types.ElicitRequestURLParams):
                return _elicit_result(await ctx.ask("login", subject, action=QuestionAction(url=params.url)))
            schema = dict(params.requested_schema)
            return _elicit_result(await ctx.ask("input", subject, schema=schema), schema)

        ctx = _caller.get()
        try:
            return await (self._ask_running_call(ask) if ctx is None else ask(ctx))
        except ToolError as error:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=error.message)

    async def _ask_running_call(
        self, ask: Callable[[ToolContext], Coroutine[Any, Any, types.ElicitResult]]
    ) -> types.ElicitResult:
        """Ask the person of a running call: in the older era, the server does not say for which call it asks.

        When that call ends before its person answers, the question was for another call: then that one is taken.
        """
        while (call := self._find_running_call()) is not None:
            asking, ended = asyncio.create_task(ask(call.ctx)), asyncio.create_task(call.ended.wait())
            try:
                await asyncio.wait((asking, ended), return_when=asyncio.FIRST_COMPLETED)
                if asking.done() and not asking.cancelled():
                    return asking.result()
                await ended  # a question is cancelled with its call
            finally:
                asking.cancel()
                ended.cancel()
                await asyncio.gather(asking, ended, return_exceptions=True)
        return types.ElicitResult(action="cancel")

    def _find_running_call(self) -> _RunningCall | None:
        """Return a running call, if all running calls have the same owner."""
        owners = {call.ctx.who.owner for call in self._running.values()}
        return next(iter(self._running.values())) if len(owners) == 1 else None


@asynccontextmanager
async def open_process_link(name: str, process: ServerProcess, seconds: float) -> AsyncGenerator[McpLink]:
    """Open a link to a server that runs as a process. Raises `TimeoutError` when it does not answer in time."""
    answers = AnswerReader()
    async with McpLink(name, over_pipes(process, answers), answers, is_over_http=False).connect(seconds) as link:
        yield link


@asynccontextmanager
async def open_http_link(
    name: str, url: str, headers: dict[str, str], guard: NetGuard, *, seconds: float, auth: Any = None
) -> AsyncGenerator[McpLink]:
    """Open a link to a server at this address. The guard checks every connection (SPEC S2)."""
    answers = AnswerReader()
    # No limit on silence: a call may take long and say nothing. Each call has its own deadline.
    async with (
        guard.trust(url).client(headers={**PLAIN_BYTES, **headers}, timeout=None, auth=auth) as http,
        McpLink(name, over_http(url, http, answers), answers, is_over_http=True).connect(seconds) as link,
    ):
        yield link


async def _list_items(ask: Callable[..., Awaitable[Any]], field: str) -> AsyncIterator[Any]:
    """Yield all items of a list, page by page."""
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await ask(cursor=cursor)
        for item in getattr(page, field):
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return


async def _describe_all(ask: Callable[..., Awaitable[Any]], field: str) -> list[Json]:
    """Return what a list says about each of its items."""
    return [describe(found) async for found in _list_items(ask, field)]


async def _has(ask: Callable[..., Awaitable[Any]], field: str) -> bool:
    """Whether there is something in this list. Many servers claim to have resources and prompts, and have none."""
    try:
        return bool(getattr(await ask(), field))
    except MCPError:
        return False


def _progress(progress: float, total: float | None, message: str | None) -> JsonObject:
    shown: JsonObject = {"progress": progress, "total": total, "message": strip_invisible(message or "")}
    return {key: value for key, value in shown.items() if value not in (None, "")}


def _elicit_result(answer: Answer, schema: Mapping[str, Any] | None = None) -> types.ElicitResult:
    if answer.decision == "allow":
        content: Any = {**_defaults(schema or {}), **answer.value} if isinstance(answer.value, dict) else None
        return types.ElicitResult(action="accept", content=content)
    return types.ElicitResult(action="cancel" if answer.decision == "expired" else "decline")


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of this schema that count where the person gave none."""
    properties = schema.get("properties")
    found = properties.items() if isinstance(properties, dict) else ()
    return {name: one["default"] for name, one in found if isinstance(one, dict) and "default" in one}
