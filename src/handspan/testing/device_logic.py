"""A device that answers every request by a function, reconnects after a drop, and runs nothing twice (ws.md 6).

async def answer(request: DeviceRequest) -> Json:
    return request.args["a"] + request.args["b"]

async with DeviceLogic(gateway.url, gateway.token, answer, tools=[offer("add")], label="phone") as device:
    ...
    await device.drop()                 # it connects again by itself
    await device.ready()
    assert device.ran[call_id] == 1
"""

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeAlias, cast

import msgspec
from msgspec import Struct
from websockets.exceptions import WebSocketException

from handspan.core.errors import ToolError
from handspan.core.values import Json, JsonObject
from handspan.testing.device import WAIT_SECONDS, FakeDevice, NotSaid

_ALL_CAPABILITIES: Final = ("resume", "cancel", "deadline", "progress")


class DeviceRequest(Struct, frozen=True):
    """A request to run a tool."""

    id: str
    name: str
    args: JsonObject
    timeout_ms: int | None = None
    again: bool = False


class Silence(Struct, frozen=True):
    """In place of an answer: never answer."""


class Repeated(Struct, frozen=True):
    """In place of an answer: send this answer several times."""

    output: Json
    times: int = 2


DeviceAnswer: TypeAlias = Json | Silence | Repeated
AnswerRequest: TypeAlias = Callable[[DeviceRequest], DeviceAnswer | Awaitable[DeviceAnswer]]
"""Returns the answer. A `ToolError` that it raises becomes a `tool_error` with the same code."""


class DeviceMemory(Struct):
    """What a device has to keep when it is killed. Give it to the device that takes its place."""

    resume: str | None = None
    begun: set[str] = set()
    """Calls that it began to run."""
    unacknowledged: dict[str, JsonObject] = {}
    """Answers that the gateway has not acknowledged, by call."""


class DeviceLogic:
    """A device at work. Without the capability `resume` it forgets everything when its link drops."""

    def __init__(
        self,
        url: str,
        token: str,
        answer: AnswerRequest,
        *,
        tools: Sequence[JsonObject],
        label: str = "device",
        capabilities: Sequence[str] = _ALL_CAPABILITIES,
        memory: DeviceMemory | None = None,
        back_after: float = 0.02,
    ) -> None:
        """`back_after`: seconds between a lost link and the next attempt."""
        self._device = FakeDevice(url, token)
        self._answer = answer
        self._tools = tools
        self._label = label
        self._capabilities = capabilities
        self._back_after = back_after
        self._connecting: asyncio.Task[None] | None = None
        self._calls: dict[str, asyncio.Task[None] | None] = {}
        """Calls since the start; None for a call without an answer (`Silence`)."""
        self._is_connected = False
        """The gateway has answered `connect`: answers may be sent."""
        self._ready = asyncio.Event()
        self.memory = memory or DeviceMemory()
        self.ran: Counter[str] = Counter()
        """How often each call was run here."""
        self.acknowledged: dict[str, JsonObject] = {}
        """Answers that the gateway has acknowledged."""
        self.asked_again: set[str] = set()
        """Calls that the gateway requested again after a lost link."""
        self.sent_again: set[str] = set()
        """Calls whose answer it sent again after a lost link."""
        self.cancelled: set[str] = set()
        """Calls that the gateway cancelled."""
        self.connections = 0
        self.label = label
        """The label that the gateway gave it."""

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._stay_connected())
        try:
            await self.ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ready(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait until it is connected and its tools are registered. Raises `NotSaid` after this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            raise NotSaid(f"The device {self._label!r} could not connect within {seconds} s.") from None

    async def drop(self) -> None:
        """Lose the link. The device connects again by itself."""
        self._mark_dropped()
        await self._device.drop()

    async def close(self) -> None:
        """Stop the device and all its calls."""
        tasks = [task for task in (self._connecting, *self._calls.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._mark_dropped()
        await self._device.drop()

    # The link.

    @property
    def _can_resume(self) -> bool:
        return "resume" in self._capabilities

    async def _stay_connected(self) -> None:
        """Connect and answer, again after each drop."""
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError, NotSaid):
                await self._connect()
                while (frame := await self._device.next()) is not None:
                    await self._receive(frame)
            self._mark_dropped()
            if not self._can_resume:
                self._forget()
            await asyncio.sleep(self._back_after)

    async def _connect(self) -> None:
        """Connect, send again what was not acknowledged, and offer the tools."""
        connected = await self._device.connect(
            label=self._label, capabilities=self._capabilities, resume=self.memory.resume
        )
        self.connections += 1
        self.label = cast(str, connected.get("label", self._label))
        self._is_connected = True
        if self._can_resume:
            self.memory.resume = cast(str, connected["resume_token"])
            for call_id, answer in tuple(self.memory.unacknowledged.items()):  # ws.md 6.3
                self.sent_again.add(call_id)
                await self._device.send(answer)
        await self._device.register(*self._tools)
        self._ready.set()

    def _mark_dropped(self) -> None:
        self._is_connected = False
        self._ready.clear()

    def _forget(self) -> None:
        for task in self._calls.values():
            if task is not None:
                task.cancel()
        self._calls.clear()
        self.memory.unacknowledged.clear()

    # Calls.

    async def _receive(self, frame: JsonObject) -> None:
        """Take one frame of the gateway."""
        match frame.get("type"):
            case "tool_call_request":
                await self._receive_request(frame)
            case "result_acknowledged":
                for call_id in cast(list[str], frame.get("ids") or [frame.get("id")]):
                    if (answer := self.memory.unacknowledged.pop(call_id, None)) is not None:
                        self.acknowledged[call_id] = answer
                        self._calls.pop(call_id, None)
            case "tool_cancel":
                call_id = cast(str, frame["id"])
                self.cancelled.add(call_id)
                if (task := self._calls.get(call_id)) is not None:
                    task.cancel()

    async def _receive_request(self, frame: JsonObject) -> None:
        """Run a call, unless it runs, has an answer, or may have run before a restart."""
        request = msgspec.convert(frame, DeviceRequest)
        if request.again:
            self.asked_again.add(request.id)
        if request.id in self._calls or request.id in self.memory.unacknowledged or request.id in self.acknowledged:
            return  # ws.md 6.3
        if request.id in self.memory.begun and not self._may_run_again(request.name):  # ws.md 6.4
            await self._fail(request, "The device was restarted.", "unknown_outcome")
            return
        self.memory.begun.add(request.id)
        self._calls[request.id] = asyncio.create_task(self._run(request))

    def _may_run_again(self, name: str) -> bool:
        found = next((tool for tool in self._tools if tool["name"] == name), {})
        claims = cast(JsonObject, found.get("annotations") or {})
        return bool(claims.get("read_only") or claims.get("idempotent"))

    async def _run(self, request: DeviceRequest) -> None:
        """Send what the function answers."""
        self.ran[request.id] += 1
        try:
            reply = self._answer(request)
            reply = await reply if inspect.isawaitable(reply) else reply
        except ToolError as error:
            await self._fail(request, error.message, error.code)
            return
        match reply:
            case Silence():
                self._calls[request.id] = None
            case Repeated(output=output, times=times):
                await self._send_answer({"type": "tool_result", "id": request.id, "output": output}, times)
            case _:
                await self._send_answer({"type": "tool_result", "id": request.id, "output": reply})

    async def _fail(self, request: DeviceRequest, error: str, code: str) -> None:
        await self._send_answer({"type": "tool_error", "id": request.id, "error": error, "code": code})

    async def _send_answer(self, answer: JsonObject, times: int = 1) -> None:
        self.memory.unacknowledged[cast(str, answer["id"])] = answer
        if not self._is_connected:
            return  # `_connect` sends it
        with contextlib.suppress(WebSocketException, OSError):
            for _ in range(times):
                await self._device.send(answer)
