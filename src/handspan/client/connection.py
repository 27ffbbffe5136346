"""The connection of one client. `ClientState` decides, the link carries frames, `CallRunner` runs tools."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.client.actions import (
    Action,
    AskPerson,
    DeliverEvent,
    DeliverFrame,
    RunCall,
    SaveState,
    SendFrame,
    SetTimeout,
    ShrinkAnswer,
    StartLogin,
    StopAsking,
    StopCall,
)
from handspan.client.address import Address, GatewayPlace
from handspan.client.calls import AskPermission, BeginLogin, CallRunner
from handspan.client.client_state import ClientState
from handspan.client.errors import GatewayRefused
from handspan.client.functions import is_async
from handspan.client.memory import StateFile
from handspan.client.results import ResultEncoder
from handspan.client.sizes import check_size
from handspan.client.steps import StepQueue
from handspan.client.tools import ClientTools
from handspan.client.upload import upload
from handspan.client.ws import Backoff, Link, OpenLink
from handspan.core.errors import WireError
from handspan.core.events import Event
from handspan.core.threads import CallThreads
from handspan.wire.ws import ClientFrame, ServerFrame, decode_server, encode
from handspan.wire.ws_frames import Capability, Connect, Connected, ErrorFrame, FailureFrame, Role

State: TypeAlias = Literal["disconnected", "connecting", "connected", "reconnecting"]
CAPABILITIES: Final[tuple[Capability, ...]] = (
    "resume",
    "progress",
    "cancel",
    "deadline",
    "parts",
    "permissions",
    "about",
    "trust",
    "unregister",
    "ack_batch",
)
"""The capabilities of every client (ws.md 1.9)."""

_DEPTH: Final = 128
"""How many levels deep a frame of the gateway may be nested."""
_SECONDS_TO_FLUSH: Final = 2.0
_FATAL: Final = frozenset(("SESSION_OWNER_MISMATCH", "SESSION_BIND_FAILED"))
"""Codes of errors that another attempt would get again."""
_log = logging.getLogger(__name__)


class _Dropped:
    """Tell the owner that the link has dropped."""


class _Close:
    """Close the link. It is the last action: all frames before it are sent."""


_Step: TypeAlias = Action | _Dropped | _Close


class ClientOptions(Struct, frozen=True):
    """The gateway's address, and how the client connects to it."""

    place: GatewayPlace
    device_name: str
    concurrency: int
    ask_permission: AskPermission | None
    backoff: Backoff
    open_link: OpenLink | None = None
    """Used instead of a WebSocket: to a gateway inside the same process."""
    start_login: BeginLogin | None = None

    @property
    def address(self) -> Address:
        """The address where the gateway is now."""
        return self.place.address

    def introduce(
        self, *more: Capability, role: Role = "chat", label: str | None = None, prefix: bool = True
    ) -> Connect:
        """Return the first frame of a client with these capabilities besides those of every client."""
        can: list[str] = [*CAPABILITIES, *more]
        return Connect(device_name=self.device_name, capabilities=can, role=role, label=label, prefix=prefix)


class ConnectionOwner(Protocol):
    """The client or chat that owns a connection."""

    def url(self) -> str: ...

    def on_state(self, state: State) -> None: ...

    async def on_drop(self) -> None: ...

    def on_frame(self, frame: ServerFrame) -> Awaitable[None] | None: ...

    def on_event(self, event: Event, is_own: bool) -> None: ...


class ClientConnection:
    """The connection of one client, across its links, while `serve` runs."""

    def __init__(
        self,
        options: ClientOptions,
        client_state: ClientState,
        tools: ClientTools,
        state_file: StateFile | None,
        owner: ConnectionOwner,
    ) -> None:
        self._options = options
        self._client_state = client_state
        self._tools = tools
        self._state_file = state_file
        self._owner = owner
        self._written = self._synced = client_state.memory.version
        """The versions of the memory that the state file has, and that are certainly on the disk."""
        self._threads = CallThreads()
        self._queue: StepQueue[_Step] = StepQueue(self._do_now, self._do_slowly)
        self._runner = CallRunner(
            tools,
            ResultEncoder(self._upload),
            self._threads,
            client_state.calls,
            steps=self._queue,
            ask_permission=options.ask_permission,
            start_login=options.start_login,
        )
        self._link = Link(owner.url, options.place, options.backoff, self, open_link=options.open_link)
        self._state: State = "disconnected"
        self._flushing: asyncio.TimerHandle | None = None
        self._unsent: list[ClientFrame] = []
        self._is_owner_async = is_async(owner.on_frame)
        self._was_connected = False
        self._refusal: GatewayRefused | None = None

    async def serve(self, *, waits_for_gateway: bool = True) -> None:
        """Stay connected until `close`. Raises the error that makes another attempt pointless."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def on_tool(name: str) -> None:  # the code of a tool may add, replace or remove one on its thread
            if threading.get_ident() == thread:
                self._change_tool(name)
            else:
                loop.call_soon_threadsafe(self._change_tool, name)

        self._tools.listeners.append(on_tool)
        working = asyncio.create_task(self._queue.serve())
        linking = asyncio.create_task(self._link.serve(waits_for_gateway=waits_for_gateway))
        try:
            await asyncio.wait((working, linking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._queue.stop()
            self._tools.listeners.remove(on_tool)
            if self._flushing is not None:
                self._flushing.cancel()
            for task in (linking, working):
                task.cancel()
            ends = [self._refusal, *await asyncio.gather(linking, working, return_exceptions=True)]
            await self._runner.close()
            self._threads.close()
            for end in ends:
                if isinstance(end, GatewayRefused):  # no later link will bring the end of the open turn
                    self.do(self._client_state.give_up(str(end)))
            await self._deliver_rest()
            with contextlib.suppress(OSError):
                await self._save(is_synced=False)
            self._set_state("disconnected")
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def close(self) -> None:
        """Send all frames that wait, and end."""
        self._queue.add([_Close()])
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_SECONDS_TO_FLUSH, self._link.close)

    def send(self, frame: ClientFrame) -> None:
        """Send this frame now, or as soon as the gateway is connected. Raises `MessageTooLarge`."""
        self.check_size(frame)
        self._queue.add(self._client_state.send(frame))

    def do(self, steps: Iterable[Action]) -> None:
        """Carry out what the state has decided, in order."""
        self._queue.add(steps)

    def check_size(self, frame: ClientFrame) -> None:
        """Raise `MessageTooLarge` when the frame does not fit into one message."""
        check_size(frame, self._client_state.link.limits)

    async def _deliver_rest(self) -> None:
        """Deliver the frames and events that are still in the queue."""
        for step in self._queue:
            if isinstance(step, DeliverFrame | DeliverEvent | _Dropped) and not self._do_now(step):
                await self._do_slowly(step)

    # Called by the link.

    def on_opening(self) -> None:
        """A link is being opened."""
        self._set_state("reconnecting" if self._was_connected else "connecting")

    def on_open(self) -> None:
        """The link is open."""
        self._queue.add(self._client_state.open_link())

    def on_message(self, data: bytes) -> None:
        """A message of the gateway has arrived."""
        try:
            frame = decode_server(data, _DEPTH)
        except WireError as error:
            _log.warning("a frame of the gateway can't be read: %s", error)
            return
        if frame is None:
            return
        steps = self._client_state.receive(frame, time.time())
        if type(frame) is ErrorFrame and frame.code in _FATAL:
            self._refusal = GatewayRefused(0, frame.message)
        elif type(frame) is Connected:
            self._was_connected = True
            self._link.mark_connected()
            self._set_state("connected")
        self._queue.add(steps)

    def on_drop(self, will_retry: bool) -> None:
        """Note that the link has dropped, and tell the state which frames were not sent."""
        unsent = [*self._unsent, *(step.frame for step in self._queue.remove(SendFrame))]
        self._unsent = []
        was_connected = self._client_state.link.is_connected
        steps = [*self._client_state.drop_link(unsent), *([_Dropped()] if was_connected else [])]
        if will_retry:
            self._set_state("reconnecting" if self._was_connected else "connecting")
        self._queue.add(steps)

    # Steps.

    def _set_state(self, state: State) -> None:
        if state != self._state:
            self._state = state
            self._owner.on_state(state)

    def _change_tool(self, name: str) -> None:
        self._queue.add(self._client_state.change_tool(name))

    def _do_now(self, step: _Step) -> bool:
        """Do this step. Return False, and do nothing, when the step has to wait for something."""
        match step:
            case SendFrame(frame=frame):
                if self._link.is_paused:
                    return False
                self._send(frame)
            case SaveState():
                return self._state_file is None
            case RunCall(is_recorded=is_recorded):
                if is_recorded and self._state_file is not None:
                    return False
                self._runner.start(step)
            case ShrinkAnswer(answer=answer):
                self._runner.shrink(answer)
            case SetTimeout(call_id=call_id, seconds=seconds):
                self._runner.timers.set(call_id, seconds)
            case StopCall(call_id=call_id):
                self._runner.stop(call_id)
            case AskPerson(request=request):
                self._runner.ask(request)
            case StopAsking(question_id=question_id):
                self._runner.stop_asking(question_id)
            case StartLogin(request=login, refused=refused):
                self._runner.start_login(login, refused)
            case DeliverFrame(frame=frame):
                if self._is_owner_async:
                    return False
                self._owner.on_frame(frame)
            case DeliverEvent(event=event, is_own=is_own):
                self._owner.on_event(event, is_own)
            case _Dropped():
                return False
            case _Close():
                self._link.close()
        return True

    async def _do_slowly(self, step: _Step) -> None:
        """Do one step that has to wait. The steps after it wait, too."""
        match step:
            case SendFrame(frame=frame):
                await self._link.wait_writable()
                self._send(frame)
            case SaveState():
                await self._try_to_save()
            case RunCall():
                await self._record_and_run(step)
            case DeliverFrame(frame=frame):
                waiting = self._owner.on_frame(frame)
                if waiting is not None:
                    await waiting
            case _Dropped():
                await self._owner.on_drop()

    def _send(self, frame: ClientFrame) -> None:
        if not self._link.send(encode(frame)):
            self._unsent.append(frame)

    async def _record_and_run(self, run: RunCall) -> None:
        """Run the call once its start is written to the disk."""
        try:
            await self._save(is_synced=True)
        except OSError as error:
            text = f"Nothing was run: this device can't write its state file ({error})."
            self._runner.finish(run.request.id, FailureFrame(id=run.request.id, error=text, code="execution_failed"))
            return
        self._runner.start(run)

    async def _try_to_save(self) -> None:
        try:
            await self._save(is_synced=False)
        except OSError as error:
            _log.warning("the state file can't be written: %s", error)

    async def _save(self, *, is_synced: bool) -> None:
        """Write the memory to the state file if it has changed. With `is_synced` it is on the disk on return."""
        memory = self._client_state.memory
        version = memory.version
        if self._state_file is None or version == (self._synced if is_synced else self._written):
            return
        await asyncio.to_thread(self._state_file.write, version, memory.encode(), is_synced=is_synced)
        self._written = version
        if is_synced:
            self._synced = version

    async def _upload(self, data: bytes, media_type: str, name: str) -> str:
        artifact: str = await self._threads.run(partial(upload, self._options.place, data, media_type, name))
        return artifact
