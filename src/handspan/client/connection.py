"""One client at the gateway: its peer says what to do, its link carries it, its tools run. The only composition."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.client.actions import Action, AskPerson, Happened, Keep, RunCall, Send, Shrink, StopCall, Tell, Watch
from handspan.client.address import Address
from handspan.client.answers import Answers
from handspan.client.faults import GatewayRefused
from handspan.client.functions import is_async
from handspan.client.kept import Kept
from handspan.client.peer import ClientState
from handspan.client.running import AskPermission, CallRunner
from handspan.client.sizes import check
from handspan.client.threads import CallThreads
from handspan.client.tools import Tools
from handspan.client.upload import upload
from handspan.client.ws import Backoff, Link, OpenLink
from handspan.core.errors import WireError
from handspan.core.events import Event
from handspan.core.values import Json
from handspan.wire.ws import decode_server, encode
from handspan.wire.ws_frames import (
    ClientFrame,
    Connected,
    Decision,
    ErrorFrame,
    FailureFrame,
    ResultFrame,
    ServerFrame,
    WireLimits,
)

if TYPE_CHECKING:
    import ssl

State: TypeAlias = Literal["disconnected", "connecting", "connected", "reconnecting"]

_DEPTH: Final = 128
_MOST_WAITING: Final = 1000
"""Actions that may wait before progress is left out."""
_SECONDS_TO_FLUSH: Final = 2.0
_FATAL: Final = frozenset(("SESSION_OWNER_MISMATCH", "SESSION_BIND_FAILED"))
_log = logging.getLogger(__name__)


class _Gone:
    """The link has dropped: its owner is told."""


class _Close:
    """The last action: what was to be sent before it is sent."""


_Step: TypeAlias = Action | _Gone | _Close


class Options(Struct, frozen=True):
    """Where the gateway is, and how a client behaves towards it."""

    address: Address
    token: str
    device_name: str
    concurrency: int
    ask_permission: AskPermission | None
    backoff: Backoff
    tls: "ssl.SSLContext | None" = None
    """In place of what this computer trusts."""
    open_link: OpenLink | None = None
    """In place of a WebSocket: to a gateway inside the same process."""


class Owner(Protocol):
    """Whose connection it is."""

    def url(self) -> str:
        """Where the next link is opened."""
        ...

    def became(self, state: State) -> None:
        """The state of the connection has changed."""
        ...

    async def gone(self) -> None:
        """The link has dropped."""
        ...

    def hear(self, frame: ServerFrame) -> Awaitable[None] | None:
        """The gateway said this, and it is not about calls."""
        ...

    def happen(self, event: Event, is_own: bool) -> None:
        """This happened in the conversation, in our own turn or in somebody else's."""
        ...


class ClientConnection:
    """A peer with everything that it needs, for as long as `serve` runs."""

    def __init__(self, options: Options, peer: ClientState, tools: Tools, kept: Kept | None, owner: Owner) -> None:
        self._options = options
        self._peer = peer
        self._tools = tools
        self._kept = kept
        self._owner = owner
        self._written = self._synced = peer.memory.version
        self._threads = CallThreads()
        self._running = CallRunner(tools, Answers(self._upload), self._threads, options.ask_permission, self)
        address = options.address
        self._link = Link(
            owner.url, options.token, address.is_local, options.backoff, self, options.tls, options.open_link
        )
        self._state: State = "disconnected"
        self._flushing: asyncio.TimerHandle | None = None
        self._lane: deque[_Step] = deque()
        self._unsent: list[ClientFrame] = []
        self._loop: asyncio.AbstractEventLoop
        self._thread = 0
        self._is_acting = False
        """The lane is being worked on: what is added now is done when it is its turn."""
        self._slow = asyncio.Event()
        """The next step takes time."""
        self._hears_slowly = is_async(owner.hear)
        self._failure: Exception | None = None
        self._was_connected = False
        self._refusal: GatewayRefused | None = None

    async def serve(self, *, is_patient: bool = True) -> None:
        """Be there until `close`. Raises what makes coming back pointless."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._tools.changed.append(self._changed)
        self._running.open()
        acting = asyncio.create_task(self._act_slowly())
        linked = asyncio.create_task(self._link.serve(is_patient=is_patient))
        try:
            await asyncio.wait((acting, linked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_acting = True  # from here on nothing is done but what follows
            self._tools.changed.remove(self._changed)
            if self._flushing is not None:
                self._flushing.cancel()
            for task in (linked, acting):
                task.cancel()
            ends = [self._refusal, *await asyncio.gather(linked, acting, return_exceptions=True)]
            await self._running.close()
            self._threads.close()
            for end in ends:
                if isinstance(end, GatewayRefused):  # nobody comes back to hear how the open turn ended
                    self._lane.extend(self._peer.give_up(str(end)))
            await self._tell_the_rest()
            with contextlib.suppress(OSError):
                await self._keep(is_synced=False)
            self._became("disconnected")
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def close(self) -> None:
        """Send what there is to send, and end."""
        self._do([_Close()])
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_SECONDS_TO_FLUSH, self._link.close)

    def say(self, frame: ClientFrame) -> None:
        """Send this now, or as soon as the gateway is there; `MessageTooLarge` when it never could be."""
        self.check(frame)
        self._do(self._peer.say(frame))

    def check(self, frame: ClientFrame) -> None:
        """Refuse what no message can hold (`MessageTooLarge`)."""
        check(frame, self._peer.limits)

    def give_up(self, why: str) -> None:
        """Let the open turn end: nobody waits for the gateway any longer."""
        self._do(self._peer.give_up(why))

    async def _tell_the_rest(self) -> None:
        """Let nobody miss how it ended."""
        for step in tuple(self._lane):
            if isinstance(step, Tell | Happened | _Gone) and not self._at_once(step):
                await self._in_time(step)

    # What the link says.

    def opening(self) -> None:
        """A link is being opened."""
        self._became("reconnecting" if self._was_connected else "connecting")

    def opened(self) -> None:
        """It is up."""
        self._do(self._peer.opened())

    def on_message(self, data: bytes) -> None:
        """The gateway says something."""
        try:
            frame = decode_server(data, _DEPTH)
        except WireError as error:
            _log.warning("the gateway said what can't be read: %s", error)
            return
        if frame is None:
            return
        steps = self._peer.heard(frame, time.time())
        if type(frame) is ErrorFrame and frame.code in _FATAL:
            self._refusal = GatewayRefused(0, frame.message)
        elif type(frame) is Connected:
            self._was_connected = True
            self._link.settled()
            self._became("connected")
        self._do(steps)

    def dropped(self, comes_back: bool) -> None:
        """It is gone, with what was not sent yet."""
        waiting = [step for step in self._lane if not isinstance(step, Send)]
        unsent = [*self._unsent, *(step.frame for step in self._lane if isinstance(step, Send))]
        self._lane, self._unsent = deque(waiting), []
        was_connected = self._peer.is_connected
        steps = [*self._peer.dropped(unsent), *([_Gone()] if was_connected else [])]
        if comes_back:
            self._became("reconnecting" if self._was_connected else "connecting")
        self._do(steps)

    # What the running calls say.

    @property
    def agreed(self) -> frozenset[str]:
        """The capabilities that both ends have."""
        return self._peer.agreed

    @property
    def limits(self) -> WireLimits:
        """What the gateway takes."""
        return self._peer.limits

    def finished(self, call_id: str, answer: ResultFrame | FailureFrame | None) -> None:
        """A call's code has ended."""
        self._do(self._peer.finished(call_id, answer, time.time()))

    def shrunk(self, answer: ResultFrame | FailureFrame) -> None:
        """An answer that no message could hold has another form now."""
        self._do(self._peer.shrunk(answer, time.time()))

    def progressed(self, call_id: str, value: Json) -> None:
        """It reports. What comes faster than it can be sent is left out."""
        if len(self._lane) < _MOST_WAITING:
            self._do_soon(self._peer.progressed(call_id, value))

    def expired(self, call_id: str) -> None:
        """Its time is over."""
        self._do(self._peer.expired(call_id, time.time()))

    def permitted(self, question_id: str, decision: Decision, how_to_enable: str) -> None:
        """The person has answered."""
        self._do(self._peer.permitted(question_id, decision, how_to_enable))

    # The lane: everything is done in order. What takes no time is done at once; a task does the rest.

    def _became(self, state: State) -> None:
        if state != self._state:
            self._state = state
            self._owner.became(state)

    def _changed(self, name: str) -> None:
        """A tool is new, or changed, or gone. A tool's own code may do that, and it may run on a thread."""
        if threading.get_ident() == self._thread:
            self._change(name)
        else:
            self._loop.call_soon_threadsafe(self._change, name)

    def _change(self, name: str) -> None:
        self._do(self._peer.changed(name))

    def _do(self, steps: Sequence[_Step]) -> None:
        self._lane.extend(steps)
        if not self._is_acting:
            self._act()

    def _do_soon(self, steps: Sequence[_Step]) -> None:
        """When the loop comes round: what is said in one go can be counted until then."""
        self._lane.extend(steps)
        if self._lane and not self._is_acting:
            self._is_acting = True
            self._slow.set()

    def _act(self) -> None:
        """Do what takes no time, up to the first step that does. A step may add others: they come after it."""
        self._is_acting = True
        try:
            while self._lane:
                step = self._lane.popleft()
                if not self._at_once(step):
                    self._lane.appendleft(step)
                    self._slow.set()
                    return
        except Exception as error:  # whoever caused the step can't help it: it ends `serve`
            self._failure = error
            self._slow.set()
            return
        self._is_acting = False

    async def _act_slowly(self) -> None:
        while True:
            await self._slow.wait()
            self._slow.clear()
            if self._failure is not None:
                raise self._failure
            while self._lane:
                step = self._lane.popleft()
                if not self._at_once(step):
                    await self._in_time(step)
            self._is_acting = False

    def _at_once(self, step: _Step) -> bool:
        """Do this. False, and nothing is done: it takes time."""
        match step:
            case Send(frame=frame):
                if self._link.is_choked:
                    return False
                self._send(frame)
            case Keep():
                return self._kept is None
            case RunCall(is_recorded=is_recorded):
                if is_recorded and self._kept is not None:
                    return False
                self._running.start(step)
            case Shrink(answer=answer):
                self._running.shrink(answer)
            case Watch(call_id=call_id, seconds=seconds):
                self._running.watch(call_id, seconds)
            case StopCall(call_id=call_id):
                self._running.stop(call_id)
            case AskPerson(request=request):
                self._running.ask(request)
            case Tell(frame=told):
                if self._hears_slowly:
                    return False
                self._owner.hear(told)
            case Happened(event=event, is_own=is_own):
                self._owner.happen(event, is_own)
            case _Gone():
                return False
            case _Close():
                self._link.close()
        return True

    async def _in_time(self, step: _Step) -> None:
        match step:
            case Send(frame=frame):
                await self._link.drained()
                self._send(frame)
            case Keep():
                await self._keep_if_possible()
            case RunCall():
                await self._run(step)
            case Tell(frame=told):
                heard = self._owner.hear(told)
                if heard is not None:
                    await heard
            case _Gone():
                await self._owner.gone()

    def _send(self, frame: ClientFrame) -> None:
        if not self._link.send(encode(frame)):
            self._unsent.append(frame)

    async def _run(self, run: RunCall) -> None:
        """Run it when it is written down that it was begun."""
        try:
            await self._keep(is_synced=True)
        except OSError as error:
            text = f"Nothing was run: this device can't write its state file ({error})."
            self.finished(run.request.id, FailureFrame(id=run.request.id, error=text, code="execution_failed"))
            return
        self._running.start(run)

    async def _keep_if_possible(self) -> None:
        try:
            await self._keep(is_synced=False)
        except OSError as error:
            _log.warning("the state file can't be written: %s", error)

    async def _keep(self, *, is_synced: bool) -> None:
        memory = self._peer.memory
        version = memory.version
        if self._kept is None or version == (self._synced if is_synced else self._written):
            return
        await asyncio.to_thread(self._kept.write, version, memory.encode(), is_synced)
        self._written = version
        if is_synced:
            self._synced = version

    async def _upload(self, data: bytes, media_type: str, name: str) -> str:
        to = self._options
        artifact: str = await self._threads.run(upload, to.address, to.token, data, media_type, name, to.tls)
        return artifact
