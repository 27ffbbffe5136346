"""A device that answers every request by a function, comes back when its link drops, and runs nothing twice (ws.md 6).

async def answer(asked: Asked) -> Json:
    return asked.args["a"] + asked.args["b"]

async with Answering(gateway.url, gateway.token, answer, tools=[offer("add")], label="phone") as device:
    ...
    await device.drop()                 # and it comes back by itself
    await device.ready()
    assert device.ran[call_id] == 1
"""

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeAlias, cast

from msgspec import Struct
from websockets.exceptions import WebSocketException

from handspan.core.errors import ToolError
from handspan.core.values import Json, JsonObject
from handspan.testing.device import PATIENCE, FakeDevice, NotSaid

_EVERYTHING: Final = ("resume", "cancel", "deadline", "progress")


class DeviceRequest(Struct, frozen=True):
    """A request."""

    id: str
    name: str
    args: JsonObject
    timeout_ms: int | None = None
    again: bool = False


class Silence(Struct, frozen=True):
    """In place of an answer: never say anything."""


class Repeated(Struct, frozen=True):
    """In place of an answer: say this several times."""

    output: Json
    times: int = 2


Reply: TypeAlias = Json | Silence | Repeated
Answer: TypeAlias = Callable[[DeviceRequest], Reply | Awaitable[Reply]]
"""What to answer. A `ToolError` that it raises becomes a `tool_error` with the same code."""


class DeviceMemory(Struct):
    """What a device must not forget, even when it dies. Hand it to its successor."""

    resume: str | None = None
    begun: set[str] = set()
    """Calls that it began to run."""
    unacknowledged: dict[str, JsonObject] = {}
    """Answers that the gateway has not confirmed, by call."""


class DeviceLogic:
    """A device at work. Without the capability `resume` it forgets everything when its link drops."""

    def __init__(
        self,
        url: str,
        token: str,
        answer: Answer,
        *,
        tools: Sequence[JsonObject],
        label: str = "device",
        capabilities: Sequence[str] = _EVERYTHING,
        memory: DeviceMemory | None = None,
        back_after: float = 0.02,
    ) -> None:
        """`back_after`: seconds between a lost link and the next try."""
        self._device = FakeDevice(url, token)
        self._answer = answer
        self._tools = tools
        self._label = label
        self._capabilities = capabilities
        self._back_after = back_after
        self._living: asyncio.Task[None] | None = None
        self._working: dict[str, asyncio.Task[None] | None] = {}
        """Calls of this life; None for those about which it is silent."""
        self._is_met = False
        """The gateway knows who it is: answers may be sent."""
        self._ready = asyncio.Event()
        self.memory = memory or DeviceMemory()
        self.ran: Counter[str] = Counter()
        """How often each call was run here."""
        self.acknowledged: dict[str, JsonObject] = {}
        """Answers that the gateway has confirmed."""
        self.asked_again: set[str] = set()
        """Calls that the gateway asked for once more, after a lost link."""
        self.sent_again: set[str] = set()
        """Calls whose answer it sent once more, after a lost link."""
        self.cancelled: set[str] = set()
        """Calls that the gateway took back."""
        self.connections = 0
        self.label = label
        """What the gateway calls it."""

    async def __aenter__(self) -> Self:
        self._living = asyncio.create_task(self._live())
        try:
            await self.ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def ready(self, seconds: float = PATIENCE) -> None:
        """Wait until it is connected and its tools are registered."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            raise NotSaid(f"The device {self._label!r} could not connect within {seconds} s.") from None

    async def drop(self) -> None:
        """Lose the link. It comes back by itself."""
        self._gone()
        await self._device.drop()

    async def close(self) -> None:
        """Die: nothing of this life goes on."""
        tasks = [task for task in (self._living, *self._working.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._gone()
        await self._device.drop()

    # The link.

    @property
    def _resumes(self) -> bool:
        return "resume" in self._capabilities

    async def _live(self) -> None:
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError, NotSaid):
                await self._arrive()
                while (frame := await self._device.next()) is not None:
                    await self._take(frame)
            self._gone()
            if not self._resumes:
                self._forget()
            await asyncio.sleep(self._back_after)

    async def _arrive(self) -> None:
        connected = await self._device.connect(
            label=self._label, capabilities=self._capabilities, resume=self.memory.resume
        )
        self.connections += 1
        self.label = cast(str, connected.get("label", self._label))
        self._is_met = True
        if self._resumes:
            self.memory.resume = cast(str, connected["resume_token"])
            for call_id, answer in tuple(self.memory.unacknowledged.items()):  # ws.md 6.3
                self.sent_again.add(call_id)
                await self._device.send(answer)
        await self._device.register(*self._tools)
        self._ready.set()

    def _gone(self) -> None:
        self._is_met = False
        self._ready.clear()

    def _forget(self) -> None:
        for task in self._working.values():
            if task is not None:
                task.cancel()
        self._working.clear()
        self.memory.unacknowledged.clear()

    # Calls.

    async def _take(self, frame: JsonObject) -> None:
        match frame.get("type"):
            case "tool_call_request":
                await self._asked(frame)
            case "result_acknowledged":
                for call_id in cast(list[str], frame.get("ids") or [frame.get("id")]):
                    if (answer := self.memory.unacknowledged.pop(call_id, None)) is not None:
                        self.acknowledged[call_id] = answer
                        self._working.pop(call_id, None)
            case "tool_cancel":
                call_id = cast(str, frame["id"])
                self.cancelled.add(call_id)
                if (task := self._working.get(call_id)) is not None:
                    task.cancel()
            case _:
                pass

    async def _asked(self, frame: JsonObject) -> None:
        asked = DeviceRequest(
            cast(str, frame["id"]),
            cast(str, frame["name"]),
            cast(JsonObject, frame["args"]),
            cast(int | None, frame.get("timeout_ms")),
            bool(frame.get("again")),
        )
        if asked.again:
            self.asked_again.add(asked.id)
        if asked.id in self._working or asked.id in self.memory.unacknowledged or asked.id in self.acknowledged:
            return  # ws.md 6.3
        if asked.id in self.memory.begun and not self._may_run_again(asked.name):  # ws.md 6.4
            code = "unknown_outcome"
            await self._say({"type": "tool_error", "id": asked.id, "error": "The device was restarted.", "code": code})
            return
        self.memory.begun.add(asked.id)
        self._working[asked.id] = asyncio.create_task(self._work(asked))

    def _may_run_again(self, name: str) -> bool:
        found = next((tool for tool in self._tools if tool["name"] == name), {})
        said = cast(JsonObject, found.get("annotations") or {})
        return bool(said.get("read_only") or said.get("idempotent"))

    async def _work(self, asked: DeviceRequest) -> None:
        self.ran[asked.id] += 1
        try:
            reply = self._answer(asked)
            reply = await reply if inspect.isawaitable(reply) else reply
        except ToolError as error:
            await self._say({"type": "tool_error", "id": asked.id, "error": error.message, "code": error.code})
            return
        match reply:
            case Silence():
                self._working[asked.id] = None
            case Repeated(output=output, times=times):
                await self._say({"type": "tool_result", "id": asked.id, "output": output}, times)
            case _:
                await self._say({"type": "tool_result", "id": asked.id, "output": reply})

    async def _say(self, answer: JsonObject, times: int = 1) -> None:
        self.memory.unacknowledged[cast(str, answer["id"])] = answer
        if not self._is_met:
            return  # it is sent when the link is there
        with contextlib.suppress(WebSocketException, OSError):
            for _ in range(times):
                await self._device.send(answer)
