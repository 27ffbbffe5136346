"""The SDK's front door: a program that offers its tools to the gateway's agents, and talks to them."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from handspan.client.address import Address
from handspan.client.builder import ClientBuilder
from handspan.client.callbacks import Callbacks
from handspan.client.chat import Chat
from handspan.client.connection import ClientConnection, Options, State
from handspan.client.kept import Kept
from handspan.client.memory import CallMemory
from handspan.client.peer import ClientState
from handspan.client.running import AskPermission
from handspan.client.tools import Tools
from handspan.client.ws import Backoff, OpenLink
from handspan.core.calls import new_call_id
from handspan.core.events import Event
from handspan.wire.ws_frames import Abort, Capability, ClientFrame, Connect, Role, Say, ServerFrame, SessionStart

if TYPE_CHECKING:
    import ssl

CAN: Final[tuple[Capability, ...]] = (
    "resume",
    "progress",
    "cancel",
    "deadline",
    "parts",
    "permissions",
    "unregister",
    "ack_batch",
)
"""What every client can do (ws.md 1.9)."""


class Client:
    """A client of the gateway.

    client = Client("http://127.0.0.1:42617", token, label="phone")

    @client.tool
    def battery() -> int:
        "How full the battery is, in percent."
        return 80

    asyncio.run(client.run())
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        label: str | None = None,
        role: Role = "device",
        prefix: bool = True,
        state: Path | str | None = None,
        concurrency: int = 1,
        ask_permission: AskPermission | None = None,
        on_state: Callable[[State], None] | None = None,
        session: str | None = None,
        agent: str | None = None,
        device_name: str | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        callbacks: Callbacks | None = None,
        tls: "ssl.SSLContext | None" = None,
        open_link: OpenLink | None = None,
    ) -> None:
        """`role`: a device's tools are for every session of its owner, a chat's for its own session.

        `state`: a file with which the client comes back even after it was killed. `concurrency`: how many calls run at
        once. `ask_permission(permission, tool, call_id)` asks the person here; without it the answer is no. `tls` in
        place of what this computer trusts. `open_link` opens each connection in place of a WebSocket.
        """
        self._options = Options(
            Address(url),
            token,
            device_name or os.uname().nodename,
            concurrency,
            ask_permission,
            backoff,
            tls,
            open_link,
        )
        self._tools = Tools()
        self._role: Role = role
        self._introduction = Connect(
            device_name=self._options.device_name, capabilities=list(CAN), role=role, label=label, prefix=prefix
        )
        self._kept = None if state is None else Kept(Path(state))
        self._on_state = on_state
        self._session, self._agent = session or "", agent or ""
        self._callbacks = callbacks or Callbacks()
        self._state: State = "disconnected"
        self._changed = asyncio.Event()
        self._connection: ClientConnection | None = None
        self._peer: ClientState | None = None
        self._serving: asyncio.Task[None]
        self._end: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.tool = self._tools.tool
        """Offers a function as a tool: `@client.tool`, with or without options."""
        self.register = self._tools.register
        """Offers a tool by its spec: `client.register(spec, code)`."""
        self.unregister = self._tools.unregister
        """Takes a tool back."""

    @staticmethod
    def builder(url: str) -> "ClientBuilder[Client]":
        """The seed's form: `Client.builder(url).auth_token(t).register_tool(spec).tool_call_handler(f).build()`."""
        return ClientBuilder(url, Client)

    @property
    def state(self) -> State:
        """Where the connection is."""
        return self._state

    @property
    def label(self) -> str:
        """The label under which the gateway knows this device, once it is connected."""
        return "" if self._peer is None else self._peer.label

    @property
    def session_id(self) -> str:
        """The session of a client that is a chat, once it is connected."""
        return self._session

    @property
    def rejected(self) -> dict[str, str]:
        """Tools that the gateway did not take, and why."""
        return {} if self._peer is None else dict(self._peer.rejected)

    async def run(self) -> None:
        """Be connected until `close`, and come back after every drop.

        `GatewayRefused` when the gateway does not let this client in.
        """
        if self._connection is not None:
            raise RuntimeError("this client runs already: one `run` at a time")
        self._loop = asyncio.get_running_loop()
        self._end = None
        memory = CallMemory(is_kept=False) if self._kept is None else self._kept.open(time.time())
        try:
            self._peer = ClientState(self._introduction, self._tools, memory, self._options.concurrency)
            self._connection = ClientConnection(self._options, self._peer, self._tools, self._kept, self)
            await self._connection.serve()
            self._end = RuntimeError("this client was closed before it was connected")
        except BaseException as error:
            self._end = error
            raise
        finally:
            self._connection = None
            self._wake()
            if self._kept is not None:
                self._kept.close()

    def close(self) -> None:
        """Let `run` end, when what there is to send is sent. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    async def connected(self) -> None:
        """Wait until the gateway has answered; raises what `run` raises when that will not happen."""
        while self._state != "connected":
            if self._end is not None:
                raise self._end
            await self._changed.wait()

    async def __aenter__(self) -> "Client":
        """Connect: `async with client:` runs it in the background meanwhile."""
        self._serving = asyncio.create_task(self.run())
        try:
            await self.connected()
        except BaseException:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await self._serving

    def chat(self, session: str | None = None, agent: str | None = None, *, name: str = "") -> Chat:
        """A conversation, on a connection of its own: `async with client.chat() as chat`.

        It offers this client's tools to its session, unless the client runs and offers them to all of them.
        """
        tools = Tools() if self._connection is not None else self._tools.copy()
        return Chat(
            self._options, [*CAN, "events", "questions", "question_kinds"], tools, session or "", agent or "", name
        )

    def send_message(self, content: str, debug: bool = False) -> None:
        """Say something in the session of a client that is a chat. The answer comes by the callbacks.

        `MessageTooLarge` when the gateway takes less in one message.
        """
        self._say(Say(content, debug, id=new_call_id()))

    def abort(self) -> None:
        """Stop the turn of a client that is a chat."""
        self._say(Abort())

    # What the connection asks and says.

    def url(self) -> str:
        """Where the next link is opened: in the session that was begun."""
        is_chat = self._role == "chat"
        return self._options.address.socket(self._session if is_chat else "", self._agent if is_chat else "")

    def became(self, state: State) -> None:
        """The connection is somewhere else now."""
        self._state = state
        self._wake()
        if self._on_state is not None:
            self._on_state(state)

    async def gone(self) -> None:
        """The link has dropped."""
        await self._callbacks.call("disconnected")

    async def hear(self, frame: ServerFrame) -> None:
        """The gateway said something."""
        if isinstance(frame, SessionStart):
            self._session = frame.session_id
        await self._callbacks.hear(frame)

    def happen(self, event: Event, is_own: bool) -> None:
        """Turns of this connection come by the callbacks."""

    def _say(self, frame: ClientFrame) -> None:
        if self._connection is None or self._role != "chat":
            raise RuntimeError("only a client with role 'chat' that runs can say something; use `chat` otherwise")
        self._connection.say(frame)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
