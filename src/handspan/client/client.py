"""`Client`: a program that offers its tools to the gateway's agents, and talks to them."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from handspan.client.address import Address, GatewayPlace, Locate
from handspan.client.builder import Callbacks, ClientBuilder
from handspan.client.calls import AskPermission, BeginLogin
from handspan.client.chat import AnswerInChat, ChannelListener, Chat, ChatKind, ChatListeners
from handspan.client.client_state import ClientState
from handspan.client.connection import ClientConnection, ClientOptions, State
from handspan.client.log import log_lines
from handspan.client.memory import CallMemory, StateFile
from handspan.client.tools import ClientTools
from handspan.client.ws import Backoff, OpenLink, usual_backoff
from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError
from handspan.core.events import Event
from handspan.wire.ws import ClientFrame, ServerFrame
from handspan.wire.ws_chat_frames import Abort, Say, SessionStart
from handspan.wire.ws_frames import (
    Capability,
    DeviceNotes,
    Role,
    ToolsRegistered,
    ToolsWithdrawn,
    TrustAnswer,
    TrustDecision,
    TrustRequest,
)

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger(__name__)


class Client:
    """A client of the gateway.

    client = Client("http://127.0.0.1:42617", token, label="phone")

    @client.tool
    def battery() -> int:
        "How full the battery is, in percent."
        return 80

    client.run_sync()
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
        backoff: Backoff | None = None,
        callbacks: Callbacks | None = None,
        tls: "ssl.SSLContext | None" = None,
        locate: Locate | None = None,
        open_link: OpenLink | None = None,
        start_login: BeginLogin | None = None,
        resume_token: str = "",
        on_channel_message: ChannelListener | None = None,
    ) -> None:
        """`role`: the tools of a device are for every session of its owner, those of a chat for its own session.

        `state`: a file with which the client resumes even after it was killed. `concurrency`: how many calls run at
        once. `backoff`: how long to wait before the next attempt; None: up to 30 s, or 3 s for a gateway on this
        computer, and a random part. `ask_permission(question)` asks the person here; without it the answer is no. `tls`
        replaces the certificates that this computer trusts. `locate()` returns the address, `tls` and token of a
        gateway that may move; it is called before each further attempt, and when the token is refused. `open_link`
        opens each connection in place of a WebSocket. `start_login(request)` begins a login for a tool that raised
        `LoginRequired`; without it the model gets that error. `resume_token`: what the gateway gave an earlier process
        of this device in `connected`. `on_channel_message(message)` gets what agents write to the person with the tool
        `message`.
        """
        self._options = ClientOptions(
            GatewayPlace(address := Address(url), token, tls, locate),
            device_name or os.uname().nodename,
            concurrency,
            ask_permission,
            backoff=backoff or usual_backoff(address),
            open_link=open_link,
            start_login=start_login,
        )
        can: list[Capability] = ["login"] if start_login else []
        can += ["messages"] if on_channel_message else []
        self._introduction = self._options.introduce(*can, role=role, label=label, prefix=prefix)
        self._notes: DeviceNotes | None = None
        self._trust: dict[str, tuple[TrustRequest, asyncio.Future[TrustDecision]]] = {}
        """The open questions of `ask_trust` by id, each with the future of its answer."""
        self._tools = ClientTools()
        self._role: Role = role
        self._state_file = None if state is None else StateFile(Path(state))
        self._resume_token = resume_token
        self._on_state = on_state
        self._session, self._agent = session or "", agent or ""
        self._callbacks = callbacks or Callbacks()
        if on_channel_message is not None:
            self._callbacks.set("channel_message", on_channel_message)
        self._state: State = "disconnected"
        self._changed = asyncio.Event()
        """Set, and then replaced, when `connected` has to look again."""
        self._connection: ClientConnection | None = None
        self._client_state: ClientState | None = None
        self._serving: asyncio.Task[None]
        self._end: BaseException | None = None
        """Why `run` has ended; None before that."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.tool = self._tools.tool
        """Offers a function as a tool: `@client.tool`, with or without options."""
        self.register = self._tools.register
        """Offers a tool by its spec: `client.register(spec, code)`."""
        self.unregister = self._tools.unregister
        """Removes a tool."""

    @staticmethod
    def builder(url: str) -> "ClientBuilder[Client]":
        """The seed's form: `Client.builder(url).auth_token(t).register_tool(spec).tool_call_handler(f).build()`."""
        return ClientBuilder(url, Client)

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._state

    @property
    def label(self) -> str:
        """The label with which the gateway knows this device; empty before the first connection."""
        return "" if self._client_state is None else self._client_state.link.greeting.label

    @property
    def session_id(self) -> str:
        """The session of a client with role `chat`; empty before the first connection."""
        return self._session

    @property
    def notice(self) -> str:
        """Why the gateway knows this device by another label than the one that it asked for; empty if it does not."""
        return "" if self._client_state is None else self._client_state.link.greeting.notice

    @property
    def rejected(self) -> dict[str, str]:
        """Tools that the gateway did not take, or has taken away, and why."""
        return {} if self._client_state is None else dict(self._client_state.rejected)

    async def run(self) -> None:
        """Stay connected until `close`, and connect again after every drop.

        Raises `GatewayRefused` when the gateway does not accept this client.
        """
        if self._connection is not None:
            raise RuntimeError("this client runs already: one `run` at a time")
        self._loop = asyncio.get_running_loop()
        self._end = None
        memory = CallMemory(is_saved=False) if self._state_file is None else self._state_file.open(time.time())
        if self._resume_token and not memory.resume_token:
            memory.resume_token = self._resume_token
        try:
            self._client_state = ClientState(self._introduction, self._tools, memory, self._options.concurrency)
            self._connection = ClientConnection(
                self._options, self._client_state, self._tools, self._state_file, owner=self
            )
            if self._notes is not None:
                self._client_state.describe(self._notes)
            for request, _ in self._trust.values():
                self._client_state.ask_trust(request)
            await self._connection.serve()
            self._end = RuntimeError("this client was closed before it was connected")
        except BaseException as error:
            self._end = error
            raise
        finally:
            self._connection = None
            self._notify_waiters()
            if self._state_file is not None:
                self._state_file.close()

    def run_sync(self) -> None:
        """Do `run` as a whole program, until Ctrl-C, SIGTERM or `close`, and show on standard error what the link does.

        If the program has set up logging, the lines go there instead. Where `run` raises a `HandspanError`, such as
        `GatewayRefused`, the program ends with its sentence on standard error and exit code 1.
        """
        try:
            with log_lines(), contextlib.suppress(KeyboardInterrupt):
                asyncio.run(self._run_until_sigterm())
        except HandspanError as error:  # its sentence says what to do: a traceback before it would only hide it
            raise SystemExit(str(error)) from error

    def close(self) -> None:
        """End `run` after all waiting frames are sent. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)

    async def connected(self) -> None:
        """Wait until the gateway has answered, and has taken or rejected each tool.

        Raises the error with which `run` ends, if it ends before that.
        """
        while self._client_state is None or self._state != "connected" or not self._client_state.is_ready:
            if self._end is not None:
                raise self._end
            await self._changed.wait()

    async def __aenter__(self) -> "Client":
        """Connect: `async with client:` runs it in the background."""
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

    def describe(self, notes: DeviceNotes) -> None:
        """Tell people what this device is: the gateway shows it beside the device."""
        self._notes = notes
        if self._connection is not None and self._client_state is not None:
            self._connection.do(self._client_state.describe(notes))

    async def ask_trust(self, request: TrustRequest) -> TrustDecision:
        """Ask the person through the gateway, and return the answer; `expired` if none came in time.

        Waits until the client is connected to a gateway that can ask.
        """
        answer: asyncio.Future[TrustDecision] = asyncio.get_running_loop().create_future()
        self._trust[request.id] = (request, answer)
        if self._connection is not None and self._client_state is not None:
            self._connection.do(self._client_state.ask_trust(request))
        try:
            return await answer
        finally:
            self._trust.pop(request.id, None)

    def chat(
        self,
        session: str | None = None,
        agent: str | None = None,
        *,
        name: str = "",
        kind: ChatKind = "chat",
        on_question: AnswerInChat | None = None,
        on_state: Callable[[State], None] | None = None,
        on_channel_message: ChannelListener | None = None,
    ) -> Chat:
        """Return a conversation, on a connection of its own: `async with client.chat() as chat`.

        `name` and `kind` are for a new session; `one_shot`: one question with its answer, which lists can leave out.

        `on_question` answers the questions of its session; without it they are events (`QuestionAsked`, `chat.answer`).
        `on_state` is called with each new state of its connection, such as "reconnecting".
        `on_channel_message(message)` gets what agents write to the person with the tool `message`.
        The chat offers this client's tools to its session, unless this client runs and offers them to every session.
        """
        tools = ClientTools() if self._connection is not None else self._tools.copy()
        listeners = ChatListeners(on_question, on_state, on_channel_message)
        return Chat(self._options, tools, listeners, session=session or "", agent=agent or "", name=name, kind=kind)

    def send_message(self, content: str, debug: bool = False) -> None:
        """Send a message in the session of a client with role `chat`. The callbacks get the answer.

        Raises `MessageTooLarge` when the message does not fit into one frame.
        """
        self._send(Say(content, debug, id=new_call_id()))

    def abort(self) -> None:
        """Stop the turn of a client with role `chat`."""
        self._send(Abort())

    # Called by the connection.

    def url(self) -> str:
        """Return the URL for the next link: it continues the session."""
        is_chat = self._role == "chat"
        return self._options.address.socket(self._session if is_chat else "", self._agent if is_chat else "")

    def on_state(self, state: State) -> None:
        """The state of the connection has changed."""
        self._state = state
        self._notify_waiters()
        if state == "connected":
            _log.info("connected to %s as %r", self._options.address, self.label or self._options.device_name)
            if self.notice:
                _log.warning("%s", self.notice)
        if self._on_state is not None:
            self._on_state(state)

    async def on_drop(self) -> None:
        """The link has dropped."""
        await self._callbacks.call("disconnected")

    async def on_frame(self, frame: ServerFrame) -> None:
        """A frame of the gateway has arrived."""
        if isinstance(frame, SessionStart):
            self._session = frame.session_id
        elif isinstance(frame, ToolsRegistered):
            for tool in frame.rejected:
                _log.info("the gateway does not take the tool %r: %s", tool.name, tool.reason)
            self._notify_waiters()
        elif isinstance(frame, ToolsWithdrawn):
            for tool in frame.tools:
                _log.warning("the gateway has taken the tool %r away: %s", tool.name, tool.reason)
        elif isinstance(frame, TrustAnswer):
            self._answer_trust(frame)
        await self._callbacks.receive(frame)

    def on_event(self, event: Event, is_own: bool) -> None:
        """Nothing to do: the callbacks get the turns of this connection as frames."""

    def _answer_trust(self, frame: TrustAnswer) -> None:
        _, waiting = self._trust.get(frame.id, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(frame.decision)

    def _send(self, frame: ClientFrame) -> None:
        if self._connection is None or self._role != "chat":
            raise RuntimeError(
                "only a running client with role 'chat' can send messages: use `client.chat()` otherwise"
            )
        self._connection.send(frame)

    async def _run_until_sigterm(self) -> None:
        """Do `run`. The first SIGTERM closes the client, so that the gateway knows that it has left; the second kills.

        A program that acts on SIGTERM itself goes on to do so.
        """
        loop = asyncio.get_running_loop()

        def leave() -> None:
            loop.remove_signal_handler(signal.SIGTERM)
            self._close()

        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            loop.add_signal_handler(signal.SIGTERM, leave)
        await self.run()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _notify_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
