"""Requests of a command to a gateway, running or inside this process, and the gateway's typed answers."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.values import strip_invisible
from handspan.wire.rest.agents import AgentList, AgentView

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from handspan.cli.chat.terminal_chat import TerminalChat
    from handspan.client.chat import Chat, ChatKind
    from handspan.gateway.inside_chat import InsideChat

    ChatLink: TypeAlias = Chat | InsideChat
    """One session, over a connection or in this process."""
    OpenChat: TypeAlias = Callable[[str, str, TerminalChat, ChatKind], AbstractAsyncContextManager[ChatLink]]
    """Opens a session, or a new one of this kind for an empty id, with this agent; an empty name: the agent that the
    session has."""

T = TypeVar("T")
AUTO: Final = "auto"
"""Stands for the name of a model: forget which one was chosen."""
SHORT_ID: Final = 8
"""How many first characters of an id are enough to name a thing, if no other id begins so."""
_PIECE: Final = 256 * 1024
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class RemoteRefused(HandspanError):
    """The gateway refused a request; the message is the gateway's own."""

    def __init__(self, status: int, message: str, code: str = "gateway") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """The gateway's code for the reason."""


class GatewayAnswer(Struct, frozen=True):
    """The answer to a request that the gateway accepted."""

    status: int
    body: bytes


class _Refusal(Struct, frozen=True):
    error: str
    code: str = "gateway"


class UploadBody(Struct, frozen=True):
    """The bytes of a request that may take long."""

    data: bytes
    sent: Callable[[int], None]
    """Called with the number of bytes that were just sent, maybe on another thread."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes in pieces. When the next piece is asked for, the one before counts as sent."""
        for start in range(0, len(self.data), _PIECE):
            piece = self.data[start : start + _PIECE]
            yield piece
            self.sent(len(piece))


OnLine: TypeAlias = Callable[[bytes], None]
"""Gets each line of an answer as it comes."""


class GatewayRequest(Struct, frozen=True):
    """One request."""

    method: Method
    path: str
    body: object = None
    """Bytes and an `UploadBody` are sent as they are, an object as JSON."""
    headers: Mapping[str, str] = {}
    on_line: OnLine | None = None
    """Gets the lines of the answer, which then has no body."""


SendRequest: TypeAlias = Callable[[GatewayRequest], Awaitable[GatewayAnswer]]
"""Returns the answer to one request. Raises `RemoteRefused` when the gateway refuses it."""


class Requests:
    """Sends requests to one gateway, wherever it runs."""

    def __init__(self, url: str, send: SendRequest, chat: "OpenChat") -> None:
        self.url = url
        self.chat = chat
        self._send = send

    async def get(self, path: str, form: type[T], **query: str) -> T:
        """Return the answer, read as `form`. Raises `RemoteRefused` when the gateway refuses."""
        return read_answer(self.url, await self.send("GET", with_query(path, query)), form)

    async def change(self, method: Method, path: str, form: type[T], body: object = None) -> T:
        """Change something and return the answer, read as `form`. Raises `RemoteRefused`."""
        return read_answer(self.url, await self.send(method, path, body), form)

    async def send(self, method: Method, path: str, body: object = None) -> GatewayAnswer:
        """Return the answer to one request."""
        return await self._send(GatewayRequest(method, path, body))

    async def stream(self, path: str, body: object, headers: Mapping[str, str], on_line: OnLine) -> None:
        """Post a request whose answer comes line by line; returns after the last line."""
        await self._send(GatewayRequest("POST", path, body, headers, on_line=on_line))

    async def follow(self, path: str, on_line: OnLine) -> None:
        """Get an answer that comes line by line; returns when the gateway ends it."""
        await self._send(GatewayRequest("GET", path, on_line=on_line))

    async def upload(self, path: str, body: UploadBody, media_type: str, form: type[T]) -> T:
        """Post these bytes, and return the answer, read as `form`. Raises `RemoteRefused`."""
        request = GatewayRequest("POST", path, body, {"Content-Type": media_type})
        return read_answer(self.url, await self._send(request), form)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """Return the path with those parts of the query that are not empty."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def read_answer(url: str, answered: GatewayAnswer, form: type[T]) -> T:
    """Return the answer as this type; raises `RemoteRefused` when it is something else."""
    try:
        return msgspec.json.decode(answered.body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"What {url} answers can't be understood ({error}): is it a gateway of this version?"
        raise RemoteRefused(answered.status, text) from None


def check_answer(url: str, status: int, body: bytes) -> GatewayAnswer:
    """Return the answer if the gateway did what was asked. Raises `RemoteRefused` in the gateway's words if not."""
    if 200 <= status < 300:
        return GatewayAnswer(status, body)
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError):
        refusal = _Refusal(f"{url} answers with HTTP {status}: is it a gateway, and is its path right?")
    raise RemoteRefused(status, strip_invisible(refusal.error), refusal.code)


def segment(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


async def find_agent(requests: Requests, name: str) -> AgentView:
    """Return the agent of this name, or the default one; raises `RemoteRefused` when there is none."""
    if not name:
        listed = await requests.get("/api/agents", AgentList)
        name = listed.default
        if found := next((agent for agent in listed.agents if agent.name == name), None):
            return found
    return await requests.get(f"/api/agents/{segment(name)}", AgentView)


def find_id(given: str, ids: Iterable[str], refused: RemoteRefused) -> str:
    """Return the whole id of which a table showed the beginning. Raises `refused` unless exactly one begins so.

    `refused`: what the gateway answered when `given` was taken for a whole id. Only after a 404 is it a beginning.
    """
    start = given.removesuffix("…")
    found = [one for one in ids if one.startswith(start)]
    if refused.status != 404 or len(start) < SHORT_ID or len(found) != 1:
        raise refused
    return found[0]
