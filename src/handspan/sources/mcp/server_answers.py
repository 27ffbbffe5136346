"""Answers of an MCP server before the SDK reads them: completed, cut, or replaced by an error."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.shared.message import SessionMessage
from msgspec import Raw, Struct

from handspan.core.late_imports import ctypes

_log = logging.getLogger(__name__)
_LARGE: Final = 1024 * 1024
"""Bytes of an answer after which memory is given back to the system."""
_RELEASE_SECONDS: Final = 2.0
"""How long after a large answer: it is stored by then, and sent on."""


class _AnswerHead(Struct, frozen=True):
    """What shows that a line is an answer, and of which request."""

    id: int | str
    result: Raw


_answer_head: Final = msgspec.json.Decoder(_AnswerHead)
_raw_object: Final = msgspec.json.Decoder(dict[str, Raw])
_raw_list: Final = msgspec.json.Decoder(list[Raw])


class AnswerReader:
    """Reads the answers of one server. A list of tools is cut: to read a very long one would block the loop."""

    def __init__(self) -> None:
        self.most_tools = 0
        """How many tools of one page of the list are read; set before each list."""
        self.lost = asyncio.Event()
        """Set when no more answers come."""
        self._is_release_planned = False

    def parse(self, line: bytes) -> SessionMessage | Exception:
        """Return the message of a line; an error in place of an answer that can't be read."""
        if len(line) > _LARGE:
            self._plan_release()
            line = _cut_list(line, self.most_tools)
        try:
            received = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:  # not JSON, or not a message: some servers print words on standard output
            _log.info("An MCP server wrote something that is no message: %r", line[:200])
            return _unread_answer(line) or error
        self.take(received.message)
        return received

    def take(self, message: types.JSONRPCMessage) -> None:
        """Complete an answer, and cut its list of tools."""
        if not isinstance(message, types.JSONRPCResponse):
            return
        result = message.result
        result.setdefault("resultType", "complete")  # the SDK refuses an answer without it
        tools = result.get("tools")
        if isinstance(tools, list) and len(tools) > self.most_tools:
            del tools[self.most_tools :]
            self._plan_release()
        elif _size(result) > _LARGE:
            self._plan_release()

    def _plan_release(self) -> None:
        """Give freed memory back in a moment. The GNU C library keeps it as long as something small lies above it."""
        if not self._is_release_planned and sys.platform == "linux":
            self._is_release_planned = True
            asyncio.get_running_loop().call_later(_RELEASE_SECONDS, self._release_memory)

    def _release_memory(self) -> None:
        self._is_release_planned = False
        with contextlib.suppress(AttributeError):  # another C library has no `malloc_trim`
            ctypes.CDLL(None).malloc_trim(0)


def _cut_list(line: bytes, most: int) -> bytes:
    """Return the line without the tools that are too many. Only their number is read, not what they are."""
    try:
        answer = _answer_head.decode(line)
        result = _raw_object.decode(answer.result)
        tools = _raw_list.decode(result["tools"])
    except (ValueError, RecursionError, KeyError):  # no list of tools
        return line
    if len(tools) <= most:
        return line
    return msgspec.json.encode({"jsonrpc": "2.0", "id": answer.id, "result": {**result, "tools": tools[:most]}})


def _size(result: Mapping[str, Any]) -> int:
    """Return how many characters the parts of a call's result have."""
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return sum(len(value) for block in blocks for value in block.values() if isinstance(value, str))


def _unread_answer(line: bytes) -> SessionMessage | None:
    """Return an error in place of an answer that can't be read, so that its request ends; None if it is no answer.

    Such an answer may have a number with too many digits, or too many lists in lists.
    """
    try:
        answer = _answer_head.decode(line)
    except (ValueError, RecursionError):
        return None
    begin = bytes(answer.result)[:100].decode(errors="replace")
    text = f"The answer of the server can't be read: it begins with {begin!r}."
    fault = types.ErrorData(code=types.INTERNAL_ERROR, message=f"{text} Ask for less, or for other values.")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=answer.id, error=fault))
