"""A provider of read-only tools: the tools, the rules for consumers, and the answer to each request (cetp.md).

app = Provider("org.example.notes", description="Your notes.")

@app.tool
def read_note(title: str) -> str:
    "Read one note."
    return (FOLDER / f"{title}.md").read_text()

app.main()
"""

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from msgspec import Struct

from handspan.core.errors import DefinitionError, ToolError
from handspan.core.names import check_own_name, did_you_mean
from handspan.core.schema import Validator
from handspan.core.signature import AnyFunction, Signature
from handspan.core.threads import CallThreads
from handspan.core.values import Json, JsonObject
from handspan.provider.access import Access, AccessGate, Grants, grants_path
from handspan.provider.answers import AnswerMemory, CallKey, CallRate
from handspan.provider.peer import Consumer
from handspan.wire.cetp import (
    ERROR_CODES,
    EXECUTE_TOOL,
    GET_PROVIDER_INFO,
    LIST_TOOLS,
    RESPONSE_BYTES,
    CetpError,
    CetpRequest,
    CetpResponse,
    CetpSuccess,
    ProviderError,
    ProviderInfo,
    ProviderScope,
    ProviderTool,
    ToolRequest,
    ToolsData,
    read_data,
    read_extras,
    success,
)
from handspan.wire.cetp_manifest import ProviderManifest, encode_manifest, read_manifest

_Function = TypeVar("_Function", bound=AnyFunction)
_CODES: Final = {ours: theirs for theirs, ours in ERROR_CODES.items()}
"""The codes of CETP, by our own error codes."""
_LOG: Final = logging.getLogger("handspan.provider")


class OfferedFunction(Struct, frozen=True):
    """A tool of a provider."""

    entry: ProviderTool
    validator: Validator
    is_async: bool
    call: Callable[[JsonObject, Consumer], Any]


class Provider:
    """An app that offers tools which only read. It serves any consumer of CETP."""

    def __init__(
        self,
        provider_id: str,
        *,
        label: str = "",
        description: str = "",
        scopes: Mapping[str, str] | None = None,
        access: Access | None = None,
        calls_per_minute: int = 300,
        calls_at_once: int = 16,
        timeout: float = 30.0,
        idle: float = 300.0,
    ) -> None:
        """Define a provider.

        `scopes`: the kinds of data, each with a sentence. `calls_per_minute` holds for each program (0: no limit).
        `timeout`: seconds for one call. `idle`: seconds without a call after which a provider that a consumer has
        started ends (0: never). Raises `ManifestError` when the id can't be one.
        """
        self.manifest = read_manifest(encode_manifest(ProviderManifest(provider_id, label)))
        self.info = ProviderInfo(
            self.manifest.name, description, tuple(ProviderScope(*one) for one in (scopes or {}).items())
        )
        self.access = access or Access()
        self.idle = idle
        self.calls_running = 0
        self.grants = Grants(grants_path(provider_id, os.environ))
        self._gate = AccessGate(self.access, self.grants, os.getuid())
        self._tools: dict[str, OfferedFunction] = {}
        self._rate = CallRate(calls_per_minute)
        self._at_once = calls_at_once
        self._timeout = timeout
        self._answers = AnswerMemory()
        self._threads = CallThreads()

    @overload
    def tool(self, function: _Function, /) -> _Function: ...

    @overload
    def tool(
        self, /, *, name: str | None = None, description: str | None = None
    ) -> Callable[[_Function], _Function]: ...

    def tool(
        self, function: AnyFunction | None = None, /, *, name: str | None = None, description: str | None = None
    ) -> Any:
        """Offer a function as a tool: `@app.tool`, or with a name or a description of its own.

        A parameter of type `Consumer` gets the program that calls. A function that is not async runs on a thread.
        """

        def define(function: _Function) -> _Function:
            self._add(_read_function(function, name, description))
            return function

        return define if function is None else define(function)

    def add_tool(self, name: str, description: str, parameters: JsonObject, run: Callable[[JsonObject], Any]) -> None:
        """Offer a tool whose schema is known only at run time. `run` gets the arguments, which fit the schema."""
        check_own_name(name)
        entry = ProviderTool(name, description, parameters)
        self._add(
            OfferedFunction(
                entry, Validator(parameters), inspect.iscoroutinefunction(run), lambda arguments, _: run(arguments)
            )
        )

    async def answer(self, request: CetpRequest, consumer: Consumer) -> CetpResponse:
        """Return the response to one request. Raises nothing but cancellation."""
        match request.method:
            case "list_tools":
                return success(ToolsData([tool.entry for tool in self._tools.values()]))
            case "get_provider_info":
                return success(self.info)
            case "execute_tool":
                return await self._answer_call(request.extras, consumer)
        known = f"{LIST_TOOLS}, {EXECUTE_TOOL} and {GET_PROVIDER_INFO}"
        return CetpError("TOOL_NOT_FOUND", f"There is no method {request.method[:80]!r}: there are {known}")

    async def call(self, tool: str, /, **arguments: Json) -> Json:
        """Return what a consumer that is admitted would get from this tool: for tests. Raises `ProviderError`."""
        offered = self._find(ToolRequest(tool, arguments))
        answer = await self._run(offered, arguments, Consumer(os.getuid(), os.getpid()))
        if isinstance(answer, CetpError):
            raise ProviderError(
                answer.error_code, answer.error_message, hint=answer.resolution_hint, intent=answer.authorize_intent
            )
        return read_data(answer.data)

    async def close(self) -> None:
        """End the calls that run on without a consumer."""
        await self._answers.close()
        self._threads.close()

    def main(self, argv: Sequence[str] | None = None, *, before: Sequence[str] = ()) -> None:
        """Run the provider's own command: serve, authorize, install, remove.

        `before`: what the program needs before the command, such as a folder; the manifest keeps it.
        """
        from handspan.provider.command import run_command  # noqa: PLC0415 - a provider that is embedded has no command

        raise SystemExit(run_command(self, argv, before))

    def _add(self, offered: OfferedFunction) -> None:
        if offered.entry.name in self._tools:
            raise DefinitionError(f"this provider has a tool {offered.entry.name!r} already")
        self._tools[offered.entry.name] = offered

    async def _answer_call(self, extras: JsonObject | None, consumer: Consumer) -> CetpResponse:
        """Return the response to a call, and log the call."""
        began, call = time.monotonic(), None
        try:
            call = read_extras(extras)
            answer = await self._execute(call, consumer)
        except ProviderError as refusal:
            answer = refusal.answer
        except OSError as error:  # the file of grants can't be written
            answer = CetpError("INTERNAL_ERROR", f"This app can't keep its grants: {error.strerror}")
        _log_call(call, consumer, answer, time.monotonic() - began)
        return answer

    async def _execute(self, call: ToolRequest, consumer: Consumer) -> CetpResponse:
        """Return the tool's answer, perhaps a kept one. Raises `ProviderError` when the consumer may not call now."""
        consumer = self._gate.admit(consumer)
        wait = self._rate.seconds_to_wait(consumer.program)
        if wait:
            raise ProviderError("RATE_LIMITED", f"Too many calls: try again in {max(1, round(wait))} seconds")
        tool = self._find(call)
        run = functools.partial(self._run, tool, call.arguments, consumer)
        return await self._answers.answer(_key(call, consumer), run) if call.request_id else await run()

    def _find(self, call: ToolRequest) -> OfferedFunction:
        """Return the tool, if the arguments fit it. Raises `ProviderError`."""
        tool = self._tools.get(call.tool_name)
        if tool is None:
            hint = did_you_mean(call.tool_name, self._tools)
            raise ProviderError("TOOL_NOT_FOUND", f"There is no tool {call.tool_name[:80]!r}.{hint}")
        try:
            tool.validator.check(call.arguments)
        except ToolError as error:
            raise ProviderError("INVALID_ARGS", error.message) from None
        return tool

    async def _run(self, tool: OfferedFunction, arguments: JsonObject, consumer: Consumer) -> CetpResponse:
        """Return the answer of the app's function, whatever that function does. It ends at the time limit."""
        if self.calls_running >= self._at_once:
            return CetpError("RATE_LIMITED", f"{self._at_once} calls are running: try again soon")
        self.calls_running += 1
        try:
            async with asyncio.timeout(self._timeout) as timer:
                if tool.is_async:
                    return _limit_size(success(await tool.call(arguments, consumer)))
                end_run = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, self._end_run)
                run = functools.partial(_call_on_thread, tool, arguments, consumer, end_run)
                return _limit_size(success(await self._threads.run(run)))
        except ProviderError as error:
            return error.answer
        except ToolError as error:  # arguments that the function's own types refuse
            return CetpError(_CODES.get(error.code, "INTERNAL_ERROR"), error.message)
        except (Exception, SystemExit) as error:  # the app's own code: the consumer gets the error
            if timer.expired():
                return CetpError("INTERNAL_ERROR", f"The call took longer than {self._timeout:g} seconds")
            _LOG.exception("tool %s failed", tool.entry.name)
            cause = error.__cause__  # of a function that would have ended the program: its `SystemExit`
            raised = error if cause is None or isinstance(cause, Exception) else cause
            return CetpError("INTERNAL_ERROR", f"The tool failed: {type(raised).__name__}: {raised}"[:1000])
        finally:
            if tool.is_async:
                self._end_run()

    def _end_run(self) -> None:
        """Count one call less. A function on a thread counts until it returns: its thread can't be stopped."""
        self.calls_running -= 1


def _read_function(function: AnyFunction, name: str | None, description: str | None) -> OfferedFunction:
    """Return the function as a tool. Raises `DefinitionError` when it can't be described."""
    signature = Signature(function, Consumer)
    entry = ProviderTool(*signature.name_tool(name, description), signature.schema)

    def call(arguments: JsonObject, consumer: Consumer) -> Any:
        return function(**signature.fill(arguments, consumer))

    return OfferedFunction(entry, Validator(signature.schema), inspect.iscoroutinefunction(function), call)


def _call_on_thread(
    tool: OfferedFunction, arguments: JsonObject, consumer: Consumer, end_run: Callable[[], object]
) -> Any:
    """Return what the tool returns. `end_run` counts one call less after it, even if the caller was cancelled."""
    try:
        return tool.call(arguments, consumer)
    finally:
        with contextlib.suppress(RuntimeError):  # the event loop of the provider is closed: it counts no more
            end_run()


def _limit_size(answer: CetpSuccess) -> CetpResponse:
    """Return the answer, or an error in its place when no consumer would take it (cetp.md 2.8)."""
    if 2 * len(answer.data) < RESPONSE_BYTES:  # in the response its quotes are escaped
        return answer
    return CetpError(
        "INTERNAL_ERROR", f"The answer has {len(answer.data):,} characters, which is too much: ask for less"
    )


def _key(call: ToolRequest, consumer: Consumer) -> CallKey:
    """Return the identity of a call: the same id with other arguments, or from another program, is another call."""
    view = "coarse" if consumer.is_coarse else "full"
    return call.request_id, consumer.program, view, call.tool_name, repr(call.arguments)


def _log_call(call: ToolRequest | None, consumer: Consumer, answer: CetpResponse, seconds: float) -> None:
    """Log a call with its outcome; never its arguments or its data."""
    tool, request_id = (call.tool_name[:80], call.request_id) if call else ("", "")
    outcome = answer.error_code if isinstance(answer, CetpError) else "ok"
    _LOG.info(
        "call request_id=%r tool=%r consumer=%r outcome=%s ms=%.1f",
        request_id,
        tool,
        consumer.name,
        outcome,
        seconds * 1e3,
    )
