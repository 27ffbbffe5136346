"""The calls that run on this client: their code on the loop or on threads, stopped in time, each with one end."""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias

from handspan.client.actions import RunCall
from handspan.client.answers import Answers
from handspan.client.context import CallContext
from handspan.client.fast_tasks import EagerTasks
from handspan.client.functions import Code, is_async
from handspan.client.sizes import plain_progress
from handspan.client.threads import CallThreads
from handspan.client.timers import CallTimers
from handspan.client.tools import Tools
from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.values import Json
from handspan.wire.ws_frames import CallRequest, Decision, FailureFrame, PermissionRequest, ResultFrame, WireLimits

Permitted: TypeAlias = Decision | tuple[Decision, str]
AskPermission: TypeAlias = Callable[[str, str, str], Permitted | Awaitable[Permitted]]
"""Permission, tool and call id → the person's decision; with where they can change their mind, if it is a no."""

_NOBODY_TO_ASK: Final = "Give the program that offers this tool an `ask_permission`: it has no way to ask its person."


class Boss(Protocol):
    """Who is told what becomes of calls. Always on the event loop."""

    @property
    def agreed(self) -> frozenset[str]: ...

    @property
    def limits(self) -> WireLimits: ...

    def finished(self, call_id: str, answer: ResultFrame | FailureFrame | None) -> None: ...

    def shrunk(self, answer: ResultFrame | FailureFrame) -> None: ...

    def progressed(self, call_id: str, value: Json) -> None: ...

    def expired(self, call_id: str) -> None: ...

    def permitted(self, question_id: str, decision: Decision, how_to_enable: str) -> None: ...


class _Call:
    """One call that runs."""

    __slots__ = ("_room", "context", "has_begun", "is_on_loop", "is_stopped", "request", "task")

    def __init__(self, room: "CallRunner", request: CallRequest, is_on_loop: bool) -> None:
        self._room = room
        self.request = request
        self.is_on_loop = is_on_loop
        self.has_begun = False
        self.is_stopped = False
        self.context = CallContext(request.id, request.name, request.args, self._progress, self._deadline)
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        self.is_stopped = True
        self.context.cancelled.set()

    def _progress(self, value: Json) -> None:
        self._room.progressed(self.request.id, plain_progress(value, self._room.limits))

    def _deadline(self) -> Deadline | None:
        return self._room.deadline(self.request.id)


class CallRunner:
    """Runs what the peer says."""

    def __init__(
        self, tools: Tools, answers: Answers, threads: CallThreads, ask_permission: AskPermission | None, boss: Boss
    ) -> None:
        self._tools = tools
        self._answers = answers
        self._threads = threads
        self._ask_permission = ask_permission
        self._boss = boss
        self._calls: dict[str, _Call] = {}
        self._timers = CallTimers(boss.expired)
        self._tasks = EagerTasks()
        self._loop: asyncio.AbstractEventLoop
        self._thread = 0
        self._beside: set[asyncio.Task[None]] = set()
        """Questions to the person, and uploads of answers that no message can hold."""
        self._shrinking: set[str] = set()
        self._is_closed = False

    def open(self) -> None:
        """Run on this loop, in this thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._timers.open(self._loop)
        self._tasks.open(self._loop)

    def start(self, run: RunCall) -> None:
        """Run the code of this call."""
        request = run.request
        tool = self._tools.find(request.name)
        code = None if tool is None else self._tools.code(tool)
        if tool is None or code is None:  # it was taken back while the call waited
            text = f"Tool {request.name!r} is not available on this device any more."
            self._boss.finished(request.id, FailureFrame(id=request.id, error=text, code="tool_not_found"))
            return
        permissions = tool.spec.permissions if run.asks else ()
        call = self._calls[request.id] = _Call(self, request, self._tools.is_on_loop(tool))
        call.task = self._tasks.start(self._serve(call, code, permissions), request.id)

    def stop(self, call_id: str) -> None:
        """Nobody waits any more: async code is cancelled, code on a thread is asked to end."""
        call = self._calls.get(call_id)
        if call is not None:
            call.stop()
            if call.is_on_loop and call.task is not None:
                call.task.cancel()
                if not call.has_begun:  # it never gets to its end
                    self._ended(call_id, None)

    def watch(self, call_id: str, seconds: float) -> None:
        """Say so when this much time has passed."""
        self._timers.set(call_id, seconds)

    def ask(self, request: PermissionRequest) -> None:
        """Ask the person, as long as somebody waits for the answer."""
        self._do_beside(self._permit(request))

    def shrink(self, answer: ResultFrame) -> None:
        """Give this answer a form that a message can hold, once, however many links ask for it meanwhile."""
        if answer.call not in self._shrinking:
            self._shrinking.add(answer.call)
            self._do_beside(self._shrink(answer))

    async def close(self) -> None:
        """Stop everything. Threads that do not end are left behind; they do not hold up anything.

        Nobody hears of these calls: a client that comes back must still know that they were begun.
        """
        self._is_closed = True
        self._timers.close()
        running = (call.task for call in self._calls.values() if call.task is not None)
        tasks: list[asyncio.Task[Any]] = [*running, *self._beside]
        for call in self._calls.values():
            call.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._tasks.close()

    # One call.

    async def _serve(self, call: _Call, code: Code, permissions: tuple[str, ...]) -> None:
        call.has_begun = True
        request, answer = call.request, None
        try:
            for permission in permissions:
                await self._require(permission, request)
            value = await (code(request.args, call.context) if call.is_on_loop else self._aside(call, code))
            answer = await self._answers.frame(request.id, value, self._boss.agreed, self._boss.limits)
        except asyncio.CancelledError:
            if call.is_stopped:
                raise
            answer = FailureFrame(
                id=request.id, error="The tool was cancelled.", code="cancelled"
            )  # by something of its own
        except ToolError as error:
            answer = FailureFrame(id=request.id, error=error.message, code=error.code)
        except (Exception, SystemExit) as error:  # the tool's own code
            answer = FailureFrame(id=request.id, error=str(error) or type(error).__name__)
        finally:
            self._ended(request.id, answer)

    async def _aside(self, call: _Call, code: Code) -> Any:
        value = await self._threads.run(code, call.request.args, call.context)
        if not inspect.isawaitable(value):
            return value
        call.is_on_loop = True  # a plain function that gave a coroutine
        return await value

    def _ended(self, call_id: str, answer: ResultFrame | FailureFrame | None) -> None:
        del self._calls[call_id]
        self._timers.clear(call_id)
        if not self._is_closed:
            self._boss.finished(call_id, answer)

    async def _shrink(self, answer: ResultFrame) -> None:
        small: ResultFrame | FailureFrame
        try:
            small = await self._answers.fitting(answer, self._boss.agreed, self._boss.limits)
        except ToolError as error:
            small = FailureFrame(id=answer.call, error=error.message, code=error.code)
        finally:
            self._shrinking.discard(answer.call)
        self._boss.shrunk(small)

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # What its code may ask and say, from any thread.

    @property
    def limits(self) -> WireLimits:
        """What the gateway takes."""
        return self._boss.limits

    def progressed(self, call_id: str, value: Json) -> None:
        """It reports something."""
        if threading.get_ident() == self._thread:  # at once: before the answer that may follow
            self._boss.progressed(call_id, value)
        else:
            self._loop.call_soon_threadsafe(self._boss.progressed, call_id, value)

    def deadline(self, call_id: str) -> Deadline | None:
        """When it will be given up."""
        at = self._timers.ends_at(call_id)
        return None if at is None else Deadline(time.monotonic() + at - self._loop.time(), "the call's own limit")

    # Permissions.

    async def _permit(self, request: PermissionRequest) -> None:
        try:
            async with asyncio.timeout(request.expires_ms / 1000):
                decision, how = await self._decide(request.permission, request.tool, request.call_id)
        except TimeoutError:  # the gateway says the rest
            return
        self._boss.permitted(request.id, decision, how)

    async def _require(self, permission: str, request: CallRequest) -> None:
        """For a gateway that leaves it to the client (ws.md 5.9)."""
        decision, how = await self._decide(permission, request.name, request.id)
        if decision != "allow":
            text = f"Permission {permission!r} was denied by the user{f': {how}' if how else ''}"
            raise ToolError("permission_denied" if decision == "deny" else "permission_denied_forever", text)

    async def _decide(self, permission: str, tool: str, call_id: str) -> tuple[Decision, str]:
        ask = self._ask_permission
        if ask is None:
            return "deny", _NOBODY_TO_ASK
        try:
            given = (permission, tool, call_id)
            said: Any = ask(*given) if is_async(ask) else await self._threads.run(ask, *given)
            said = await said if inspect.isawaitable(said) else said
        except Exception as error:  # the program's own code
            return "deny", f"Asking failed: {str(error) or type(error).__name__}"
        decision, how = said if isinstance(said, tuple) else (said, "")
        return (decision, how) if decision in ("allow", "deny", "deny_forever") else ("deny", f"{said!r} is no answer")
