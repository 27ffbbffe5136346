"""The seed's way to make a client, step by step, with the seed's names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from handspan.client.callbacks import Callback, Callbacks
from handspan.client.context import CallContext
from handspan.client.functions import Code, is_async
from handspan.client.results import ToolCallRequest
from handspan.client.running import AskPermission
from handspan.client.tools import Tools
from handspan.client.ws import Backoff
from handspan.core.tool import Tool, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject


class _Buildable(Protocol):
    _tools: Tools


Built = TypeVar("Built", bound=_Buildable)


class ClientBuilder(Generic[Built]):
    """Collects what a client needs; `build` makes it. Without `device` it is a chat, as the seed's is."""

    def __init__(self, url: str, make: Callable[..., Built]) -> None:
        self._url = url
        self._make = make
        self._options: dict[str, Any] = {"role": "chat"}
        self._tools: list[tuple[ToolSpec | JsonObject | Tool, Callable[..., Any] | None]] = []
        self._call: Callable[[ToolCallRequest], Any] | None = None
        self._callbacks = Callbacks()

    def build(self) -> Built:
        """The client."""
        client = self._make(self._url, callbacks=self._callbacks, **self._options)
        for tool, code in self._tools:
            client._tools.register(tool, code)
        client._tools.fallback = None if self._call is None else _code(self._call)
        return client

    # What it is.

    def auth_token(self, token: str) -> "ClientBuilder[Built]":
        """The token that lets it in."""
        return self._with(token=token)

    def device(self, label: str | None = None, prefix: bool = True) -> "ClientBuilder[Built]":
        """A device: its tools are for every session of its owner."""
        return self._with(role="device", label=label, prefix=prefix)

    def session(self, session_id: str) -> "ClientBuilder[Built]":
        """Go on with this session, or begin it under this id."""
        return self._with(session=session_id)

    def persona(self, agent: str) -> "ClientBuilder[Built]":
        """The agent to talk to."""
        return self._with(agent=agent)

    def state(self, path: Path | str) -> "ClientBuilder[Built]":
        """The file with which it comes back even after it was killed."""
        return self._with(state=path)

    def concurrency(self, count: int) -> "ClientBuilder[Built]":
        """How many calls run at once."""
        return self._with(concurrency=count)

    def reconnect_policy(self, backoff: Backoff) -> "ClientBuilder[Built]":
        """How long to wait before coming back."""
        return self._with(backoff=backoff)

    def ask_permission(self, ask: AskPermission) -> "ClientBuilder[Built]":
        """Asks the person here."""
        return self._with(ask_permission=ask)

    # Its tools.

    def register_tool(
        self, spec: ToolSpec | dict[str, Json] | Tool, code: Callable[..., Any] | None = None
    ) -> "ClientBuilder[Built]":
        """A tool; without code of its own `tool_call_handler` runs it."""
        self._tools.append((spec, code))
        return self

    def tool_call_handler(self, call: Callable[[ToolCallRequest], Any]) -> "ClientBuilder[Built]":
        """Runs every tool that has no code of its own; returns a `ToolCallResult`, or the output itself."""
        self._call = call
        return self

    # What it hears. Plain functions or coroutine functions.

    def on_connected(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the gateway has answered."""
        return self._on("connected", callback)

    def on_disconnected(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the link has dropped."""
        return self._on("disconnected", callback)

    def on_session_start(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(session_id, name, resumed, message_count)`."""
        return self._on("session_start", callback)

    def on_chunk(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(text)`: more of the answer."""
        return self._on("chunk", callback)

    def on_chunk_reset(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the draft is to be dropped."""
        return self._on("chunk_reset", callback)

    def on_thinking(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(text)`: more of the model's thinking."""
        return self._on("thinking", callback)

    def on_done(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(full_response)`: the turn is over."""
        return self._on("done", callback)

    def on_tool_call(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(id, name, args)`: a tool is about to run, anywhere."""
        return self._on("tool_call", callback)

    def on_tool_result(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(id, name, output)`: it has its result."""
        return self._on("tool_result", callback)

    def on_aborted(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the turn was stopped."""
        return self._on("aborted", callback)

    def on_title_updated(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(title)`: the session has a name now."""
        return self._on("title_updated", callback)

    def on_error(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(message, code)`: something was not taken, or failed."""
        return self._on("error", callback)

    def on_debug_prompt(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(messages, estimated_tokens)`: what the model is told."""
        return self._on("debug_prompt", callback)

    def _with(self, **options: Any) -> "ClientBuilder[Built]":
        self._options.update(options)
        return self

    def _on(self, name: str, callback: Callback) -> "ClientBuilder[Built]":
        self._callbacks.set(name, callback)
        return self


def _code(call: Callable[[ToolCallRequest], Any]) -> Code:
    """The seed's one function for all tools, as the code of each."""

    def request(arguments: Arguments, ctx: CallContext) -> ToolCallRequest:
        return ToolCallRequest(ctx.call_id, ctx.tool, arguments)

    def plain(arguments: Arguments, ctx: CallContext) -> Any:
        return call(request(arguments, ctx))

    async def on_loop(arguments: Arguments, ctx: CallContext) -> Any:
        return await call(request(arguments, ctx))

    return on_loop if is_async(call) else plain
