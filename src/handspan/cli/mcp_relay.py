"""An MCP client over standard input and output, connected to the MCP door of a gateway (`/mcp`).

Messages pass through as they are, so all that the door can do works here, in both eras of the protocol: progress,
questions, changed lists, images. Standard output carries messages only.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Protocol, TypeAlias

import click
import msgspec

from handspan.cli.mcp_headers import VERSION, RepeatingHeaders
from handspan.core.errors import HandspanError
from handspan.core.values import Json, JsonObject

_HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_SESSION: Final = "mcp-session-id"
_GRACE: Final = 1.0
"""Seconds for the last answers after standard input was closed."""
_RETRY: Final = 1.0
"""Seconds until a lost stream of notifications is opened again."""
_FAILED: Final = -32000
"""The JSON-RPC code of a request that the relay could not pass on, or the gateway refused."""


class RelayResponse(Protocol):
    """The response of the gateway to one request."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def lines(self) -> AsyncIterator[str]: ...


SendToDoor: TypeAlias = Callable[[str, Mapping[str, str], bytes], AbstractAsyncContextManager[RelayResponse]]
"""Sends one request to the door: method, headers, body. Raises `HandspanError` when the gateway can't be reached."""


class RelaySession:
    """Connects one client. `receive` takes the client's messages; `write` gets those for it, without a line break."""

    def __init__(self, send: SendToDoor, write: Callable[[bytes], None]) -> None:
        self._send = send
        self._write = write
        self._repeating = RepeatingHeaders()
        self._requests: dict[Json, asyncio.Task[None]] = {}
        """The tasks of open requests, by the request's id."""
        self._session: dict[str, str] = {}
        """The headers of the session; empty in the newer era, which has none."""
        self._opening: list[bytes] = []
        """The messages that opened the session: a gateway that was started again gets them once more."""
        self._reopening = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        """Passes on the gateway's notifications."""

    async def receive(self, line: bytes) -> None:
        """Take one message of the client. A request is answered later; everything else keeps its order."""
        try:
            message = msgspec.json.decode(line, type=dict[str, Json])
        except msgspec.DecodeError as error:
            self._refuse(None, f"This is not a JSON-RPC message: {error}.", -32700)
            return
        method, identity = message.get("method"), message.get("id")
        if method == "notifications/cancelled" and not self._session:  # the newer era
            self._cancel(message)
        elif method == "initialize":
            self._session, self._opening = {}, [line]
            await self._deliver(message, line)
        elif method is None or identity is None:
            await self._deliver(message, line)
        else:
            task = asyncio.create_task(self._deliver(message, line))
            self._requests[_key(identity)] = task
            task.add_done_callback(lambda _: self._requests.pop(_key(identity), None))

    async def close(self) -> None:
        """Wait a moment for the last answers, then end the session."""
        if self._requests:
            await asyncio.wait(self._requests.values(), timeout=_GRACE)
        tasks = [*self._requests.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            with suppress(HandspanError):  # the gateway may be gone, and its sessions with it
                async with self._send("DELETE", {**_HEADERS, **self._session}, b""):
                    pass

    def _cancel(self, message: JsonObject) -> None:
        """Cancel a request. In the newer era, a client over HTTP does that by closing the response."""
        params = message.get("params")
        task = self._requests.get(_key(params.get("requestId"))) if isinstance(params, dict) else None
        if task is not None:
            task.cancel()

    async def _deliver(self, message: JsonObject, line: bytes) -> None:
        """Send a message to the door and write what it answers. A request that fails is answered with the error."""
        identity = message.get("id") if "method" in message else None
        try:
            session = self._session
            if self._repeating.needs_list(message):
                await self._list_tools(message)
            if not await self._exchange(message, line, self._write):
                await self._open_again(session)
                await self._exchange(message, line, self._write)
        except HandspanError as error:
            if identity is None:
                click.echo(f"handspan: {error}", err=True)
            else:
                self._refuse(identity, str(error))

    async def _list_tools(self, call: JsonObject) -> None:
        """Ask for the tools in place of the client, which may know them from before: headers depend on them."""
        params = call.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        asked: JsonObject = {"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {"_meta": meta}}
        await self._exchange(asked, msgspec.json.encode(asked), lambda _: None)

    async def _exchange(self, message: JsonObject, line: bytes, write: Callable[[bytes], None]) -> bool:
        """Send a message, and give each message of the response to `write`.

        Return False when the gateway does not know the session: the gateway was started again.
        """
        async with self._send(
            "POST", {**_HEADERS, **(self._repeating.headers(message) or self._session)}, line
        ) as response:
            if response.status == 404 and self._session and message.get("method") != "initialize":
                return False
            if response.status >= 400 and not response.headers.get("content-type", "").startswith("application/json"):
                raise HandspanError(f"The gateway answers with HTTP {response.status}.")
            if message.get("method") == "initialize" and _SESSION in response.headers:
                self._session = {_SESSION: response.headers[_SESSION]}
            async for text in response.lines():
                self._pass_on(text, response, message, write)
        if message.get("method") == "notifications/initialized" and self._session:
            self._follow(line)
        return True

    def _pass_on(self, text: str, response: RelayResponse, message: JsonObject, write: Callable[[bytes], None]) -> None:
        """Write a message of the response: a line of an event stream, or the whole body."""
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        data = text.removeprefix("data:").strip() if text.startswith("data:") else "" if is_stream else text
        if not data:
            return
        try:
            answer = msgspec.json.decode(data, type=dict[str, Json])
        except msgspec.DecodeError as error:
            raise HandspanError(f"The gateway's answer can't be understood: {error}.") from None
        if "jsonrpc" not in answer:  # a refusal before the protocol: a wrong token, an unknown agent
            raise HandspanError(str(answer.get("error") or answer))
        if response.status >= 400 and answer.get("id") != message.get("id"):  # the client waits for its own id
            data = msgspec.json.encode({**answer, "id": message.get("id")}).decode()
        result = answer.get("result")
        if message.get("method") == "tools/list" and isinstance(result, dict):
            self._repeating.learn(result)
        if message.get("method") == "initialize" and isinstance(result, dict) and self._session:
            self._session[VERSION] = str(result.get("protocolVersion"))
        write(data.encode())

    def _follow(self, line: bytes) -> None:
        """Begin to pass on the gateway's notifications. `line` is the message that completed the session."""
        self._opening = [*self._opening[:1], line]
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._pass_on_notifications())

    async def _pass_on_notifications(self) -> None:
        """Read the stream of notifications for ever; open it again when it ends."""
        while True:
            try:
                headers = {**_HEADERS, **self._session, "accept": "text/event-stream"}
                async with self._send("GET", headers, b"") as response:
                    if response.status == 200:
                        async for text in response.lines():
                            self._pass_on(text, response, {}, self._write)
            except HandspanError:
                pass  # the gateway is away: the next request says so
            await asyncio.sleep(_RETRY)

    async def _open_again(self, lost: Mapping[str, str]) -> None:
        """Open the session anew, once for all requests that found it lost. The client does not notice."""
        async with self._reopening:
            if self._session is lost:
                self._session = {}
                for line in list(self._opening):
                    await self._exchange(msgspec.json.decode(line, type=dict[str, Json]), line, lambda _: None)

    def _refuse(self, identity: Json, text: str, code: int = _FAILED) -> None:
        error: JsonObject = {"code": code, "message": text}
        self._write(msgspec.json.encode({"jsonrpc": "2.0", "id": identity, "error": error}))


def _key(identity: Json) -> Json:
    """Return the id as a key: 1 and "1" are two ids."""
    return identity if isinstance(identity, (int, str)) else repr(identity)


async def relay_stdio(send: SendToDoor) -> None:
    """Serve the client at standard input and output, until it closes standard input."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    source, target = _take_standard_streams()

    def read() -> None:
        with os.fdopen(source, "rb") as stream, suppress(RuntimeError):  # the loop is closed: nothing reads any more
            for line in stream:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    def write(message: bytes) -> None:
        with os.fdopen(target, "wb", closefd=False) as stream:
            stream.write(message + b"\n")

    session = RelaySession(send, write)
    threading.Thread(target=read, daemon=True).start()  # a thread: standard input may be a file, too
    try:
        while line := await lines.get():
            if line.strip():
                await session.receive(line)
        await session.close()
    except BrokenPipeError:
        pass  # the client has ended


def _take_standard_streams() -> tuple[int, int]:
    """Return new descriptors of standard input and output. All else that prints goes to standard error from now on."""
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return source, target
