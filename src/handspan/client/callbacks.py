"""The seed's callbacks: functions that hear what the gateway says, one a kind of frame."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from handspan.wire.ws_frames import (
    AbortedFrame,
    CallNote,
    Chunk,
    ChunkReset,
    Connected,
    DebugPrompt,
    Done,
    ErrorFrame,
    ResultNote,
    ServerFrame,
    SessionStart,
    ThinkingFrame,
    TitleUpdated,
)

Callback: TypeAlias = Callable[..., Awaitable[None] | None]
_log = logging.getLogger(__name__)

NAMES: Final = (
    "connected",
    "disconnected",
    "session_start",
    "chunk",
    "chunk_reset",
    "thinking",
    "done",
    "tool_call",
    "tool_result",
    "aborted",
    "title_updated",
    "error",
    "debug_prompt",
)


class Callbacks:
    """Callbacks by name. One that fails is logged, and nothing else is hurt by it."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Callback] = {}

    def set(self, name: str, callback: Callback) -> None:
        """Call this from now on."""
        self._callbacks[name] = callback

    async def hear(self, frame: ServerFrame) -> None:
        """Tell whom it concerns."""
        match frame:
            case Connected():
                await self.call("connected")
            case SessionStart():
                await self.call("session_start", frame.session_id, frame.name, frame.resumed, frame.message_count)
            case Chunk(content=text):
                await self.call("chunk", text)
            case ChunkReset():
                await self.call("chunk_reset")
            case ThinkingFrame(content=text):
                await self.call("thinking", text)
            case Done(full_response=text):
                await self.call("done", text)
            case CallNote():
                await self.call("tool_call", frame.id, frame.name, frame.args)
            case ResultNote():
                await self.call("tool_result", frame.id, frame.name, frame.output)
            case AbortedFrame():
                await self.call("aborted")
            case TitleUpdated(title=title):
                await self.call("title_updated", title)
            case ErrorFrame():
                await self.call("error", frame.message, frame.code)
            case DebugPrompt():
                await self.call("debug_prompt", frame.messages, frame.estimated_tokens)

    async def call(self, name: str, *args: Any) -> None:
        """Call the callback of this name, if there is one."""
        callback = self._callbacks.get(name)
        if callback is None:
            return
        try:
            called = callback(*args)
            if called is not None:
                await called
        except Exception:  # the program's own code
            _log.exception("on_%s failed", name)
