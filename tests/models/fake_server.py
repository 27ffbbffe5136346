"""A model server for tests: real HTTP on loopback, all four protocols, from one neutral script with scripted faults.

    async with FakeModelServer([Turn(calls=(Call("read_file", '{"path": "a"}'),)), Turn(text="done")]) as server:
        … point any client at server.url(api) …

Each request takes the next turn of the script. What the real API would refuse (`validators.py`) is refused with 400
and does not use up a turn.
"""

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.core.messages import Api
from tests.models.fake_replies import Call, Fault, SseLine, Turn, Words
from tests.models.schema.validators import VALIDATORS, Issued, Refused

__all__ = ["KEY", "Asked", "Call", "FakeModelServer", "Fault", "Turn"]

KEY: Final = "sk-test-0123456789abcdef"

_STATUS: Final[dict[Fault, int]] = {
    "rate_limited": 429,
    "server_error": 500,
    "overloaded": 529,
    "quota": 429,
    "auth": 401,
    "echo_key": 401,
    "unknown_model": 404,
    "too_long": 400,
}
_TEXTS: Final[dict[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    529: "Overloaded",
}
# As the vendors say it: their adapters go by these words.
_TOO_LONG: Final[dict[Api, str]] = {
    "openai-chat": "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens.",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
}
_USED_UP: Final[dict[Api, str]] = {
    "openai-chat": "You exceeded your current quota, please check your plan and billing details.",
    "openai-responses": "You exceeded your current quota, please check your plan and billing details.",
    "anthropic": "Your credit balance is too low to access the Anthropic API.",
    "gemini": "Quota exceeded for quota metric 'GenerateRequestsPerDayPerProjectPerModel', limit: 50.",
}


class Asked(Struct, frozen=True):
    """A request as it arrived."""

    api: Api
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    streamed: bool
    refused: str = ""
    """Why it was answered with 400, if it was."""


class FakeModelServer:
    """Plays a script, one turn a request. `asked` holds every request. Each connection is closed after its answer."""

    def __init__(self, script: Sequence[Turn], *, key: str = KEY) -> None:
        self.script = list(script)
        self.asked: list[Asked] = []
        self.issued = Issued()
        self.port = 0
        self.gone = asyncio.Event()
        """Set when a client closes its connection before it has got everything."""
        self.key = key
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def root(self) -> str:
        """The address without any path, as Anthropic's and Google's own clients want it."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, api: Api) -> str:
        """The base URL for that API, in the form that its vendor's variable has."""
        return f"{self.root}/v1" if api.startswith("openai") else self.root

    async def __aenter__(self) -> "FakeModelServer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.gone.set()
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip("\r\n").split("\r\n")
        _, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        api, model, streamed = _route(target)
        if api is None:
            await _send(writer, 404, msgspec.json.encode({"error": {"message": f"no such path: {target}"}}))
            return
        body = msgspec.json.decode(raw)
        streamed = streamed or body.get("stream") is True
        model = model or str(body.get("model"))
        await _Exchange(self, reader, writer, api, model, streamed).answer(target, headers, body)

    def words(self, api: Api) -> Words:
        """The part of the server that speaks that API."""
        return Words(api, self.issued, self._numbers)

    def next_turn(self) -> Turn | None:
        """The next turn; None when the script is over."""
        return self.script.pop(0) if self.script else None

    def refusal(self, api: Api, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, str]:
        """Status and reason of a refusal; (200, "") for a valid request."""
        given = headers.get("x-api-key") or headers.get("x-goog-api-key")
        given = given or headers.get("authorization", "").removeprefix("Bearer ")
        if given != self.key:
            return 401, "Incorrect API key provided."
        if api == "anthropic" and "anthropic-version" not in headers:
            return 400, "anthropic-version: header is required"
        try:
            VALIDATORS[api](body, self.issued)
        except Refused as refused:
            return 400, str(refused)
        return 200, ""


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        server: FakeModelServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        api: Api,
        model: str,
        streamed: bool,
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._api = api
        self._model = model
        self._streamed = streamed

    async def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        status, reason = self._server.refusal(self._api, headers, body)
        self._server.asked.append(Asked(self._api, path, headers, body, self._streamed, reason))
        turn = self._server.next_turn() if status == 200 else Turn()
        if status != 200 or turn is None:
            code = "invalid_api_key" if status == 401 else "invalid_request_error"
            await self._error(400 if turn is None else status, reason or "the script is over", code)
        elif turn.fault in _STATUS:
            await self._fail(turn, turn.fault, headers)
        elif turn.fault in ("hang", "reset", "redirect", "html", "wrong_type"):
            await self._misbehave(turn)
        else:
            usage = body.get("stream_options", {}).get("include_usage") is True
            await self._play(turn, with_usage=usage)

    async def _fail(self, turn: Turn, fault: Fault, headers: dict[str, str]) -> None:
        texts: dict[Fault, tuple[str, str]] = {
            "rate_limited": ("Rate limit reached for requests", "rate_limit_exceeded"),
            "server_error": ("The server had an error", "server_error"),
            "overloaded": ("Overloaded", "overloaded_error"),
            "quota": (_USED_UP[self._api], "insufficient_quota"),
            "auth": ("Incorrect API key provided.", "invalid_api_key"),
            "echo_key": (f"Incorrect API key provided: it was {self._server.key}.", "invalid_api_key"),
            "unknown_model": (f"The model '{self._model}' does not exist", "model_not_found"),
            "too_long": (_TOO_LONG[self._api], "context_length_exceeded"),
        }
        more = {"Retry-After": turn.retry_after} if turn.retry_after else {}
        await self._error(_STATUS[fault], *texts[fault], more)

    async def _error(self, status: int, text: str, code: str, headers: dict[str, str] | None = None) -> None:
        """An error in the envelope of the API."""
        if self._api == "anthropic":
            kinds = {
                401: "authentication_error",
                404: "not_found_error",
                429: "rate_limit_error",
                529: "overloaded_error",
            }
            kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
            body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
        elif self._api == "gemini":
            status = {401: 400, 529: 503}.get(status, status)
            words = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
            details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
            body = {"error": {"code": status, "message": text, "status": words.get(status, "INTERNAL")}}
            body["error"] |= {"details": details} if code == "invalid_api_key" else {}
        else:
            status = {529: 503}.get(status, status)
            kind = "insufficient_quota" if code == "insufficient_quota" else "invalid_request_error"
            body = {"error": {"message": text, "type": kind, "param": None, "code": code}}
        await _send(self._writer, status, msgspec.json.encode(body), headers=headers)

    async def _misbehave(self, turn: Turn) -> None:
        match turn.fault:
            case "hang":
                await self._until_gone()
            case "reset":
                # Closing with unsent linger 0 makes the kernel send RST.
                sock: socket.socket = self._writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._writer.transport.abort()
            case "redirect":
                await _send(self._writer, 307, b"", headers={"Location": "https://elsewhere.invalid/v1"})
            case "html":
                await _send(self._writer, 200, b"<!doctype html><title>Sign in</title>", "text/html; charset=utf-8")
            case _:
                await _send(self._writer, 200, b"all is well", "text/plain")

    async def _play(self, turn: Turn, *, with_usage: bool) -> None:
        words = self._server.words(self._api)
        if not self._streamed or turn.fault == "not_streamed":
            body = words.whole(turn, self._model)
            broken = turn.fault in ("garbage", "broken_json")
            await _send(self._writer, 200, body[: len(body) // 2] if broken else body)
            return
        lines = words.stream(turn, self._model, with_usage=with_usage)
        await self._stream(turn, lines)

    async def _stream(self, turn: Turn, lines: list[SseLine]) -> None:
        match turn.fault:
            case "garbage":
                lines = [SseLine("\x00 not json"), *lines]
            case "broken_json":
                lines = [*lines[:2], SseLine(lines[2].data[:-3], lines[2].name)]
            case "error_event":
                lines = [self._error_event()]
        writes = [line.encoded() for line in lines]
        whole = b"".join(writes)
        if turn.fault in ("cut", "cut_clean", "hang_midway"):
            whole = whole[: len(whole) * 2 // 3]
            writes = [whole]
        if turn.fault == "unended":
            writes = [whole.rstrip()]
        if turn.chunk:
            writes = [whole[start : start + turn.chunk] for start in range(0, len(whole), turn.chunk)]
        await _begin_stream(self._writer)
        for write in writes:
            self._writer.write(b"%x\r\n%b\r\n" % (len(write), write))
            await self._writer.drain()
            if turn.chunk:
                await asyncio.sleep(0)  # so that each piece is a write of its own
        if turn.fault == "hang_midway":
            await self._until_gone()
        elif turn.fault not in ("cut", "late_break"):
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()

    def _error_event(self) -> SseLine:
        match self._api:
            case "anthropic":
                error: dict[str, Any] = {
                    "type": "error",
                    "error": {"type": "overloaded_error", "message": "Overloaded"},
                }
                return SseLine(msgspec.json.encode(error).decode(), "error")
            case "openai-responses":
                error = {"type": "error", "code": "server_error", "message": "Overloaded", "param": None}
                return SseLine(msgspec.json.encode({**error, "sequence_number": 0}).decode(), "error")
            case "openai-chat":
                error = {"error": {"message": "Overloaded", "type": "server_error", "code": 503}}
            case "gemini":
                error = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
        return SseLine(msgspec.json.encode(error).decode())

    async def _until_gone(self) -> None:
        """Wait until the client closes the connection."""
        await self._reader.read()
        self._server.gone.set()


def _route(target: str) -> tuple[Api | None, str, bool]:
    """API, model (where the path has it) and whether the path asks for a stream."""
    path, _, query = target.partition("?")
    if path.endswith("/chat/completions"):
        return "openai-chat", "", False
    if path.endswith("/responses"):
        return "openai-responses", "", False
    if path.endswith("/v1/messages"):
        return "anthropic", "", False
    model, _, verb = path.rpartition("/models/")[2].partition(":")
    if path.startswith(("/v1/models/", "/v1beta/models/")) and verb in ("generateContent", "streamGenerateContent"):
        return "gemini", model, verb == "streamGenerateContent" and "alt=sse" in query
    return None, "", False


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    kind: str = "application/json",
    headers: dict[str, str] | None = None,
) -> None:
    given = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"HTTP/1.1 {status} {_TEXTS.get(status, 'OK')}\r\n{head}\r\n".encode() + body)
    await writer.drain()


async def _begin_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n"
    )
    await writer.drain()
