"""The calls that run on this client: their code on the loop or on threads, stopped in time, each with one end."""

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from handspan.client.actions import Run
from handspan.client.answers import Answers
from handspan.client.context import CallContext
from handspan.client.functions import is_async
from handspan.client.threads import run_aside
from handspan.client.tools import Tools
from handspan.core.deadlines import Deadline
from handspan.core.errors import ToolError
from handspan.core.results import succeed
from handspan.core.values import Json
from handspan.wire.ws_frames import Decision, Fault, Limits, PermissionRequest, Request, Result

Permitted: TypeAlias = Decision | tuple[Decision, str]
AskPermission: TypeAlias = Callable[[str, str, str], Permitted | Awaitable[Permitted]]
"""Permission, tool and call id → the person's decision; with where they can change their mind, if it is a no."""

_NOBODY_TO_ASK: Final = "Give the program that offers this tool an `ask_permission`: it has no way to ask its person."


class Boss(Protocol):
    """Who is told what becomes of calls. Always on the event loop."""

    @property
    def agreed(self) -> frozenset[str]: ...

    @property
    def limits(self) -> Limits: ...

    def finished(self, call_id: str, answer: Result | Fault | None) -> None: ...

    def progressed(self, call_id: str, value: Json) -> None: ...

    def expired(self, call_id: str) -> None: ...

    def permitted(self, question_id: str, decision: Decision, how_to_enable: str) -> None: ...


class _Running:
    __slots__ = ("context", "is_stopped", "on_loop", "task")

    def __init__(self, context: CallContext, on_loop: bool) -> None:
        self.context = context
        self.on_loop = on_loop
        self.is_stopped = False
        self.task: asyncio.Task[Result | Fault]


class Running:
    """Runs what the peer says."""

    def __init__(self, tools: Tools, answers: Answers, ask_permission: AskPermission | None, boss: Boss) -> None:
        self._tools = tools
        self._answers = answers
        self._ask_permission = ask_permission
        self._boss = boss
        self._running: dict[str, _Running] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start(self, run: Run) -> None:
        """Run the code of this call."""
        request = run.request
        tool = self._tools.find(request.name)
        code = None if tool is None else self._tools.code(tool)
        if tool is None or code is None:  # it was taken back while the call waited
            text = f"Tool {request.name!r} is not available on this device any more."
            self._boss.finished(request.id, Fault(id=request.id, error=text, code="tool_not_found"))
            return
        permissions = tool.spec.permissions if run.asks else ()
        running = self._running[request.id] = _Running(self._context(request), is_async(code))
        running.task = asyncio.create_task(self._serve(request, code, permissions, running))
        # Not at the end of the task itself: one that is stopped before its first step never gets there.
        running.task.add_done_callback(functools.partial(self._ended, request.id))

    def stop(self, call_id: str) -> None:
        """Nobody waits any more: async code is cancelled, code on a thread is asked to end."""
        running = self._running.get(call_id)
        if running is not None:
            running.is_stopped = True
            running.context.cancelled.set()
            if running.on_loop:
                running.task.cancel()

    def watch(self, call_id: str, seconds: float) -> None:
        """Say so when this much time has passed."""
        self._unwatch(call_id)
        loop = asyncio.get_running_loop()
        self._timers[call_id] = loop.call_later(seconds, self._expire, call_id)

    def ask(self, request: PermissionRequest) -> None:
        """Ask the person, as long as somebody waits for the answer."""
        task = asyncio.create_task(self._permit(request))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """Stop everything. Threads that do not end are left behind; they do not hold up anything.

        Nobody hears of these calls: a client that comes back must still know that they were begun.
        """
        self._is_closed = True
        for call_id in tuple(self._timers):
            self._unwatch(call_id)
        tasks: list[asyncio.Task[Any]] = [*(running.task for running in self._running.values()), *self._asking]
        for running in self._running.values():
            running.is_stopped = True
            running.context.cancelled.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # One call.

    async def _serve(
        self, request: Request, code: Callable[..., Any], permissions: tuple[str, ...], running: _Running
    ) -> Result | Fault:
        try:
            for permission in permissions:
                await self._require(permission, request)
            value = await self._call(code, request, running)
            return await self._answers.frame(request.id, value, self._boss.agreed, self._boss.limits)
        except asyncio.CancelledError:
            if running.is_stopped:
                raise
            return Fault(id=request.id, error="The tool was cancelled.", code="cancelled")  # by something of its own
        except ToolError as error:
            return Fault(id=request.id, error=error.message, code=error.code)
        except (Exception, SystemExit) as error:  # the tool's own code
            return Fault(id=request.id, error=str(error) or type(error).__name__)

    def _ended(self, call_id: str, task: asyncio.Task[Result | Fault]) -> None:
        del self._running[call_id]
        self._unwatch(call_id)
        answer = None if task.cancelled() else task.result()
        if not self._is_closed:
            self._boss.finished(call_id, answer)

    async def _call(self, code: Callable[..., Any], request: Request, running: _Running) -> Any:
        if running.on_loop:
            return await code(request.args, running.context)
        value = await run_aside(code, request.args, running.context)
        if not inspect.isawaitable(value):
            return value
        running.on_loop = True  # a plain function that gave a coroutine
        return await value

    def _context(self, request: Request) -> CallContext:
        loop, here = asyncio.get_running_loop(), threading.get_ident()

        def progress(value: Json) -> None:
            plain = succeed(value).value
            if threading.get_ident() == here:  # at once: before the answer that may follow
                self._boss.progressed(request.id, plain)
            else:
                loop.call_soon_threadsafe(self._boss.progressed, request.id, plain)

        def deadline() -> Deadline | None:
            timer = self._timers.get(request.id)
            if timer is None:
                return None
            return Deadline(time.monotonic() + timer.when() - loop.time(), "the call's own limit")

        return CallContext(request.id, request.name, request.args, progress, deadline)

    def _expire(self, call_id: str) -> None:
        self._timers.pop(call_id, None)
        self._boss.expired(call_id)

    def _unwatch(self, call_id: str) -> None:
        timer = self._timers.pop(call_id, None)
        if timer is not None:
            timer.cancel()

    # Permissions.

    async def _permit(self, request: PermissionRequest) -> None:
        try:
            async with asyncio.timeout(request.expires_ms / 1000):
                decision, how = await self._decide(request.permission, request.tool, request.call_id)
        except TimeoutError:  # the gateway says the rest
            return
        self._boss.permitted(request.id, decision, how)

    async def _require(self, permission: str, request: Request) -> None:
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
            said: Any = (
                ask(permission, tool, call_id) if is_async(ask) else await run_aside(ask, permission, tool, call_id)
            )
            said = await said if inspect.isawaitable(said) else said
        except Exception as error:  # the program's own code
            return "deny", f"Asking failed: {str(error) or type(error).__name__}"
        decision, how = said if isinstance(said, tuple) else (said, "")
        return (decision, how) if decision in ("allow", "deny", "deny_forever") else ("deny", f"{said!r} is no answer")
