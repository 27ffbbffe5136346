"""A provider of CETP that fails in every way a test wants (`protocol/cetp.md`). The name of a tool is what it does.

    async with FakeProvider(tmp_path / "fake.sock", ["echo", "hang"]) as provider:
        …                        # a consumer calls
        assert provider.requests[-1]["extras"]["tool_name"] == "hang"
        provider.release()       # what hangs is answered

It uses nothing of `handspan.provider`, so it can check that, too. `python -m handspan.testing.provider SOCKET [TOOL …]`
is the same in a process that can be killed.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import msgspec

from handspan.core.tasks import Tasks
from handspan.core.values import Json, JsonObject

CODES: Final = (
    "AUTH_REQUIRED",
    "PERMISSION_DENIED",
    "TOOL_NOT_FOUND",
    "INVALID_ARGS",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
)
FAULTS: Final = {
    "hang": "It never answers, until `release`.",
    "cut_off": "It closes the connection without an answer.",
    "cut_in_half": "It closes the connection in the middle of the answer.",
    "die": "It ends its process at once; use it in a process of its own.",
    "flood": "Its answer never ends.",
    "drip": "Its answer comes byte by byte, in endless chunks.",
    "not_http": "It answers with bytes that are no HTTP.",
    "not_json": "Its body is no JSON.",
    "odd_status": "Its status is neither success nor error.",
    "odd_code": "Its error code is unknown.",
    "http_500": "It answers with HTTP status 500.",
    "says_more": "It announces more bytes than it sends, and closes.",
    "says_less": "It announces fewer bytes than it sends.",
    "endless_head": "The head of its answer never ends.",
    "deep": "Its data is nested 10,000 levels deep.",
}
"""Tools that misbehave, and how."""
TOOLS: Final = ("echo", "words", "login", "writes", *(code.lower() for code in CODES), *FAULTS)
"""All tools. `echo` returns its arguments, `words` a text that is no JSON, `login` succeeds once `is_authorized`."""
_ACCEPTING_TURNS: Final = 5
"""Turns of the event loop from the arrival of a connection to its callback. A server that closes before loses it."""
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class FakeProvider:
    """A provider on a Unix socket while it is open. Every request that it got is in `requests`."""

    def __init__(self, path: Path, tools: Sequence[str] = TOOLS) -> None:
        self.path = path
        self.tools = list(tools)
        self.requests: list[JsonObject] = []
        self.info: JsonObject | None = {"provider_name": "Fake", "description": "For tests.", "scopes": []}
        """The data of `get_provider_info`; None: it has no such method."""
        self.list_error = ""
        """The code with which `list_tools` fails; empty: it succeeds."""
        self.is_authorized = False
        self.connections = 0
        """How many are open now."""
        self.has_request = asyncio.Event()
        """Set with each request of `execute_tool`; a test that waits for the next one clears it first."""
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self.path)
        self.path.chmod(0o600)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
        for _turn in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        if self._server is not None:
            self._server.close()
        await self._tasks.close()

    def release(self) -> None:
        """Let every call that hangs, now or later, get its answer."""
        self._released.set()

    def calls(self, tool: str) -> list[JsonObject]:
        """The extras of each request to run this tool."""
        extras = [request.get("extras") for request in self.requests if request.get("method") == "execute_tool"]
        return [one for one in extras if isinstance(one, dict) and one.get("tool_name") == tool]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._tasks.start(self._serve(reader, writer))
        task.add_done_callback(lambda _: writer.transport.abort())  # also when it was cancelled before it began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                await self._respond(request, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1

    async def _respond(self, request: JsonObject, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        extras = request.get("extras")
        fields = extras if isinstance(extras, dict) else {}
        match request.get("method"):
            case "list_tools" if self.list_error:
                _send(writer, _error(self.list_error, "As the test wants: no list"))
            case "list_tools":
                _send(writer, _success({"tools": [_entry(tool) for tool in self.tools]}))
            case "get_provider_info" if self.info is not None:
                _send(writer, _success(self.info))
            case "execute_tool":
                self.has_request.set()
                await self._run(str(fields.get("tool_name")), fields, writer)
            case method:
                _send(writer, _error("TOOL_NOT_FOUND", f"There is no method {method!r}"))

    async def _run(self, tool: str, extras: JsonObject, writer: asyncio.StreamWriter) -> None:
        """Do what the name of the tool says."""
        arguments = msgspec.json.decode(str(extras.get("args") or "{}"))
        match tool:
            case _ if tool not in self.tools:
                _send(writer, _error("TOOL_NOT_FOUND", f"There is no tool {tool!r}"))
            case "echo" | "writes":
                _send(writer, _success(arguments))
            case "words":
                _send(writer, {"status": "success", "data": "Three words only."})
            case "login" if self.is_authorized:
                _send(writer, _success("secret"))
            case "login":
                _send(writer, _error("AUTH_REQUIRED", "Not allowed yet"))
            case "hang":
                await self._released.wait()
                _send(writer, _success("released"))
            case "cut_off":
                writer.close()
            case "die":
                os._exit(1)
            case _ if tool.upper() in CODES:
                _send(writer, _error(tool.upper(), f"As the test wants: {tool}"))
            case _:
                await _misbehave(tool, writer)


async def _misbehave(tool: str, writer: asyncio.StreamWriter) -> None:
    """Answer as a provider must not."""
    match tool:
        case "not_json":
            _send_bytes(writer, b"<html>")
        case "odd_status":
            _send(writer, {"status": "pending"})
        case "odd_code":
            _send(writer, {"status": "error", "error_code": "TEAPOT", "error_message": "I am one"})
        case "deep":
            _send(writer, {"status": "success", "data": "[" * 10_000 + "]" * 10_000})
        case "http_500":
            writer.write(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")
        case "not_http":
            writer.write(b"\x00\x01 hello \xff\r\n\r\n")
        case "says_less":
            writer.write(_HEAD + b"content-length: 2\r\n\r\n" + msgspec.json.encode(_success("more than two")))
        case "says_more" | "cut_in_half":
            writer.write(_HEAD + b"content-length: 1000\r\n\r\n" + b'{"status": "succ')
            writer.close()
        case "endless_head":
            writer.write(_HEAD)
            await _repeat(writer, b"x-more: %s\r\n" % (b"x" * 1000))
        case "drip":
            writer.write(_HEAD + b"transfer-encoding: chunked\r\n\r\n")
            await _repeat(writer, b"1\r\nx\r\n")
        case _:
            writer.write(_HEAD + b"transfer-encoding: chunked\r\n\r\n")
            await _repeat(writer, b"ffff\r\n%s\r\n" % (b"x" * 0xFFFF))


async def _repeat(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send this until the consumer closes the connection."""
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            writer.write(data)
            await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> JsonObject | None:
    """Return the JSON of the next request; None when the consumer is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    body: JsonObject = msgspec.json.decode(await reader.readexactly(int(length[1]) if length else 0) or b"{}")
    return body


def _entry(tool: str) -> JsonObject:
    entry: JsonObject = {
        "name": tool,
        "description": FAULTS.get(tool, f"The tool {tool}."),
        "parameters": {"type": "object"},
    }
    return {**entry, "annotations": {"read_only": False}} if tool == "writes" else entry


def _success(value: Json) -> JsonObject:
    return {"status": "success", "data": msgspec.json.encode(value).decode()}


def _error(code: str, message: str) -> JsonObject:
    error: JsonObject = {"status": "error", "error_code": code, "error_message": message}
    if code == "AUTH_REQUIRED":
        error |= {"resolution_hint": "Open the app", "authorize_intent": "org.example.fake.ALLOW"}
    return error


def _send(writer: asyncio.StreamWriter, response: JsonObject) -> None:
    _send_bytes(writer, msgspec.json.encode(response))


def _send_bytes(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(_HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)


async def _main(arguments: list[str]) -> None:
    path = Path(arguments[0] if arguments else os.environ["CETP_SOCKET"])
    async with FakeProvider(path, arguments[1:] or TOOLS):
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(sys.argv[1:]))
