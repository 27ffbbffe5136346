"""A client made step by step, with a callback for each kind of frame: the form of the seed, with its names."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from handspan.client.calls import AskPermission
from handspan.client.functions import ToolCode, is_async
from handspan.client.results import ToolCallRequest
from handspan.client.tools import ClientTools
from handspan.client.ws import Backoff
from handspan.core.tool import Tool, ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.wire.ws import ServerFrame
from handspan.wire.ws_chat_frames import (
    AbortedFrame,
    CallNote,
    ChannelMessage,
    Chunk,
    ChunkReset,
    DebugPrompt,
    Done,
    ResultNote,
    SessionStart,
    ThinkingFrame,
    TitleUpdated,
)
from handspan.wire.ws_frames import Connected, ErrorFrame

Callback: TypeAlias = Callable[..., Awaitable[None] | None]
_log = logging.getLogger(__name__)
_CALLBACKS: Final[dict[type[ServerFrame], tuple[str, ...]]] = {
    Connected: ("connected",),
    SessionStart: ("session_start", "session_id", "name", "resumed", "message_count"),
    Chunk: ("chunk", "content"),
    ChunkReset: ("chunk_reset",),
    ThinkingFrame: ("thinking", "content"),
    Done: ("done", "full_response"),
    CallNote: ("tool_call", "id", "name", "args"),
    ResultNote: ("tool_result", "id", "name", "output"),
    AbortedFrame: ("aborted",),
    TitleUpdated: ("title_updated", "title"),
    ErrorFrame: ("error", "message", "code"),
    DebugPrompt: ("debug_prompt", "messages", "estimated_tokens"),
}
"""The name of the callback for each frame, and the fields that it gets."""


class Callbacks:
    """Callbacks by the name of what they get. A callback that raises is logged, and nothing else changes."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Callback] = {}

    def set(self, name: str, callback: Callback) -> None:
        """Call this function for `name` from now on."""
        self._callbacks[name] = callback

    async def receive(self, frame: ServerFrame) -> None:
        """Call the callback for this frame, if there is one for its kind."""
        if isinstance(frame, ChannelMessage):
            await self.call("channel_message", frame)
        elif type(frame) in _CALLBACKS:
            name, *fields = _CALLBACKS[type(frame)]
            await self.call(name, *(getattr(frame, field) for field in fields))

    async def call(self, name: str, *args: Any) -> None:
        """Call the callback of this name, if there is one."""
        callback = self._callbacks.get(name)
        if callback is None:
            return
        try:
            waiting = callback(*args)
            if waiting is not None:
                await waiting
        except Exception:  # the program's own code
            _log.exception("on_%s failed", name)


class _Buildable(Protocol):
    _tools: ClientTools


Built = TypeVar("Built", bound=_Buildable)


class ClientBuilder(Generic[Built]):
    """Collects the options of a client; `build` makes it. Without `device` the client is a chat."""

    def __init__(self, url: str, make: Callable[..., Built]) -> None:
        self._url = url
        self._make = make
        self._options: dict[str, Any] = {"role": "chat"}
        self._tools: list[tuple[ToolSpec | JsonObject | Tool, Callable[..., Any] | None]] = []
        self._call: Callable[[ToolCallRequest], Any] | None = None
        self._callbacks = Callbacks()

    def build(self) -> Built:
        """Return the client."""
        client = self._make(self._url, callbacks=self._callbacks, **self._options)
        for tool, code in self._tools:
            client._tools.register(tool, code)
        if self._call is not None:
            client._tools.run_others_with(_code_of_all(self._call))
        return client

    # Its options.

    def auth_token(self, token: str) -> "ClientBuilder[Built]":
        """Set the token that the gateway checks."""
        return self._with(token=token)

    def device(self, label: str | None = None, prefix: bool = True) -> "ClientBuilder[Built]":
        """Make the client a device: its tools are for every session of its owner."""
        return self._with(role="device", label=label, prefix=prefix)

    def session(self, session_id: str) -> "ClientBuilder[Built]":
        """Continue this session, or begin it with this id."""
        return self._with(session=session_id)

    def persona(self, agent: str) -> "ClientBuilder[Built]":
        """Choose the agent of the session."""
        return self._with(agent=agent)

    def state(self, path: Path | str) -> "ClientBuilder[Built]":
        """Set the state file, with which the client resumes even after it was killed."""
        return self._with(state=path)

    def concurrency(self, count: int) -> "ClientBuilder[Built]":
        """Set how many calls run at once."""
        return self._with(concurrency=count)

    def reconnect_policy(self, backoff: Backoff) -> "ClientBuilder[Built]":
        """Set how long to wait before the client connects again."""
        return self._with(backoff=backoff)

    def ask_permission(self, ask: AskPermission) -> "ClientBuilder[Built]":
        """Set the function that asks the person at this device."""
        return self._with(ask_permission=ask)

    # Its tools.

    def register_tool(
        self, spec: ToolSpec | dict[str, Json] | Tool, code: Callable[..., Any] | None = None
    ) -> "ClientBuilder[Built]":
        """Offer a tool; without code of its own `tool_call_handler` runs it."""
        self._tools.append((spec, code))
        return self

    def tool_call_handler(self, call: Callable[[ToolCallRequest], Any]) -> "ClientBuilder[Built]":
        """Run this for every tool without code of its own; it returns a `ToolCallResult` or the output."""
        self._call = call
        return self

    # Its callbacks: plain functions or coroutine functions.

    def on_connected(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the gateway has answered."""
        return self._on("connected", callback)

    def on_disconnected(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the link has dropped."""
        return self._on("disconnected", callback)

    def on_session_start(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(session_id, name, resumed, message_count)`: the session is open."""
        return self._on("session_start", callback)

    def on_chunk(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(text)`: more text of the answer."""
        return self._on("chunk", callback)

    def on_chunk_reset(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: discard the draft of the answer."""
        return self._on("chunk_reset", callback)

    def on_thinking(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(text)`: more of the model's thinking."""
        return self._on("thinking", callback)

    def on_done(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(full_response)`: the turn has ended."""
        return self._on("done", callback)

    def on_tool_call(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(id, name, args)`: a tool of any client is about to run."""
        return self._on("tool_call", callback)

    def on_tool_result(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(id, name, output)`: a tool has its result."""
        return self._on("tool_result", callback)

    def on_aborted(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback()`: the turn was stopped."""
        return self._on("aborted", callback)

    def on_title_updated(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(title)`: the session has a new title."""
        return self._on("title_updated", callback)

    def on_error(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(message, code)`: the gateway refused a frame, or the turn failed."""
        return self._on("error", callback)

    def on_debug_prompt(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(messages, estimated_tokens)`: what the model gets."""
        return self._on("debug_prompt", callback)

    def on_channel_message(self, callback: Callback) -> "ClientBuilder[Built]":
        """`callback(channel, chat_id, content)`: an agent writes to the person, outside of any answer."""
        return self._with(on_channel_message=lambda told: callback(told.channel, told.chat_id, told.content))

    def _with(self, **options: Any) -> "ClientBuilder[Built]":
        self._options.update(options)
        return self

    def _on(self, name: str, callback: Callback) -> "ClientBuilder[Built]":
        self._callbacks.set(name, callback)
        return self


def _code_of_all(call: Callable[[ToolCallRequest], Any]) -> ToolCode:
    """Return the code of every tool without its own: one function that gets the tool's name with its arguments."""
    return ToolCode(
        lambda arguments, ctx: call(ToolCallRequest(ctx.call_id, ctx.tool, arguments)),
        is_async(call),
    )
