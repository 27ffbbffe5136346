"""Fixtures that use the SDK's own server: we offer sampling, logging, completion and subscriptions nowhere else.

In the newer era of the protocol a server asks by its answer: the client repeats the request with what it was asked for.
The fixtures of that show its single rounds, as the suite wants them.
"""

import asyncio
import hashlib
import hmac
import secrets
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning

from handspan.mcp.offer import ProvidedPrompt
from handspan.mcp.protocol import ProtocolServer
from handspan.mcp.provider import ProvidedTool
from mcp import MCPError

Context: TypeAlias = ServerRequestContext[Any, Any]
Requests: TypeAlias = Mapping[str, types.InputRequest]
_Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
_Call: TypeAlias = Callable[[Context, types.CallToolRequestParams], Awaitable[_Result]]

_PROMPT: Final = "test_input_required_result_prompt"
_KEY: Final = secrets.token_bytes(32)


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


# Sampling and logging: the older era.


async def _sample(ctx: Context, params: types.CallToolRequestParams) -> _Result:
    prompt = str((params.arguments or {}).get("prompt", ""))
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
        answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return _text(f"LLM response: {answer.content.text if isinstance(answer.content, types.TextContent) else ''}")


async def _log(ctx: Context, params: types.CallToolRequestParams) -> _Result:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
            await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)  # the suite asks for pauses
    return _text("logged")


async def _need_sampling(ctx: Context, params: types.CallToolRequestParams) -> _Result:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling.", data)
    return _text("sampling is there")


async def _close_stream(ctx: Context, params: types.CallToolRequestParams) -> _Result:
    """Close the stream of the call before its result: the client has to come back for it."""
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.1)  # the suite asks for a pause
    return _text("Reconnection test completed")


class MemoryEvents(EventStore):
    """What was sent, by number."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Return the number of this event."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send all later events of the same stream."""
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (found, message) in enumerate(self._events[last:], last + 1):
            if found == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


# Answers that ask for more: the newer era.


def _elicit(text: str, **properties: str) -> types.ElicitRequest:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=text, requested_schema=schema))


def _ask_model(text: str, tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


_ROOTS: Final = types.ListRootsRequest()
_ASK_NAME: Final = _elicit("What is your name?", name="string")
_CONFIRM: Final = _elicit("Please confirm", ok="boolean")
_ROUNDS: Final[Mapping[str, Sequence[Requests]]] = {
    "elicitation": ({"user_name": _ASK_NAME},),
    "sampling": ({"capital_question": _ask_model("What is the capital of France?", 100)},),
    "list_roots": ({"client_roots": _ROOTS},),
    "request_state": ({"confirm": _CONFIRM},),
    "multiple_inputs": (
        {"user_name": _ASK_NAME, "greeting": _ask_model("Generate a greeting", 50), "client_roots": _ROOTS},
    ),
    "multi_round": (
        {"step1": _elicit("Step 1: What is your name?", name="string")},
        {"step2": _elicit("Step 2: What is your favorite color?", color="string")},
    ),
    "tampered_state": ({"confirm": _CONFIRM},),
    "capabilities": ({"user_name": _ASK_NAME, "greeting": _ask_model("Generate a greeting", 50)},),
}
"""For each tool: what it asks for in each round."""
_WITHOUT_STATE: Final = frozenset({"elicitation", "sampling", "list_roots", "capabilities"})
_PREFIX: Final = "test_input_required_result_"


def _sign(value: str) -> str:
    return f"{value}.{hmac.new(_KEY, value.encode(), hashlib.sha256).hexdigest()}"


def _read_state(tool: str, state: str | None) -> int:
    """Return the round of this state. Raises `MCPError` when we did not make it."""
    if state is None:
        return 0
    value = state.partition(".")[0]
    owner, _, number = value.partition(":")
    if not hmac.compare_digest(_sign(value), state) or owner != tool:
        raise MCPError(types.INVALID_PARAMS, "The request state was changed.")
    return int(number)


async def _ask_in_rounds(ctx: Context, params: types.CallToolRequestParams) -> _Result:
    tool = params.name.removeprefix(_PREFIX)
    rounds, number = _ROUNDS[tool], _read_state(tool, params.request_state)
    answers = params.input_responses or {}
    if rounds[number].keys() <= answers.keys():
        number += 1
        if number == len(rounds):
            return _text(_conclude(tool, answers))
    requests = _supported(ctx, rounds[number]) if tool == "capabilities" else dict(rounds[number])
    state = None if tool in _WITHOUT_STATE else _sign(f"{tool}:{number}")
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def _supported(ctx: Context, requests: Requests) -> dict[str, types.InputRequest]:
    """Return those requests that the client said it can answer."""
    can = ctx.session.client_capabilities
    can_elicit = can is not None and can.elicitation is not None
    return {key: one for key, one in requests.items() if can_elicit or not isinstance(one, types.ElicitRequest)}


def _conclude(tool: str, answers: Mapping[str, types.InputResponse]) -> str:
    match answers.get("user_name"):
        case types.ElicitResult(content={"name": name}) if tool == "elicitation":
            return f"Hello, {name}!"
    said = [one.model_dump_json(by_alias=True, exclude_none=True) for one in answers.values()]
    return "state-ok " + " ".join(said)


# Completion, log level, subscriptions.


async def _complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def _accept(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


_CALLS: Final[Mapping[str, _Call]] = {
    "test_sampling": _sample,
    "test_tool_with_logging": _log,
    "test_logging_tool": _log,
    "test_reconnection": _close_stream,
    "test_missing_capability": _need_sampling,
    **{_PREFIX + name: _ask_in_rounds for name in _ROUNDS},
}
_CHANGES: Final = ("test_trigger_tool_change", "test_trigger_prompt_change")
TOOLS: Final = [ProvidedTool(name, f"The tool {name}.") for name in (*_CALLS, *_CHANGES)]
PROMPTS: Final = [ProvidedPrompt(_PROMPT, "A prompt that asks for its context.")]


def add_fixtures(server: ProtocolServer) -> None:
    """Put these fixtures in front of what the server does for its offer."""
    sdk = server.sdk
    call_tool, get_prompt = sdk.get_request_handler("tools/call"), sdk.get_request_handler("prompts/get")
    assert call_tool is not None and get_prompt is not None

    async def call(ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name in _CHANGES:
            await server.tell_of_changes()
            return _text("changed")
        return await _CALLS.get(params.name, call_tool.handler)(ctx, params)

    async def prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name != _PROMPT:
            return await get_prompt.handler(ctx, params)
        match (params.input_responses or {}).get("user_context"):
            case types.ElicitResult(content={"context": context}):
                message = types.PromptMessage(role="user", content=types.TextContent(text=f"Context: {context}"))
                return types.GetPromptResult(messages=[message])
        question = _elicit("What context should the prompt use?", context="string")
        return types.InputRequiredResult(input_requests={"user_context": question})

    sdk.add_request_handler("tools/call", types.CallToolRequestParams, call)
    sdk.add_request_handler("prompts/get", types.GetPromptRequestParams, prompt)
    sdk.add_request_handler("completion/complete", types.CompleteRequestParams, _complete)
    sdk.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _accept)
    sdk.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _accept)
    sdk.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _accept)
