"""The calls that run on this client: on the event loop or on threads, stopped in time, each with one end."""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from handspan.client.actions import RunCall
from handspan.client.call_state import ClientCalls
from handspan.client.context import CallContext
from handspan.client.errors import LoginRequired
from handspan.client.fast_results import encode_plain
from handspan.client.functions import ToolCode, is_async
from handspan.client.results import ResultEncoder
from handspan.client.sizes import progress_value
from handspan.client.steps import StepQueue
from handspan.client.timers import CallTimers
from handspan.client.tools import ClientTools
from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.fast import IS_FAST
from handspan.core.tasks import Tasks
from handspan.core.threads import CallThreads
from handspan.core.values import Arguments, Json
from handspan.wire.ws_frames import CallRequest, Decision, FailureFrame, LoginStart, PermissionRequest, ResultFrame

PermissionReply: TypeAlias = Decision | tuple[Decision, str]


class PermissionQuestion(Struct, frozen=True):
    """A question to the person at this client: may this tool use this permission, for this call?"""

    permission: str
    tool: str
    """The tool, by the client's own name for it."""
    call_id: str
    arguments: Arguments = {}
    """What the tool will be called with."""
    agent: str = ""
    """The agent that calls it; empty if an older gateway asks."""


class LoginRequest(Struct, frozen=True):
    """The person wants to begin the login that a call waits for."""

    call_id: str
    intent: str = ""
    """What the tool gave to `LoginRequired`; empty if this process did not run the call."""
    hint: str = ""


BeginLogin: TypeAlias = Callable[[LoginRequest], Awaitable[None] | None]
"""Begins a login: opens a page, starts an app. It need not wait for the login's end: the person tells the gateway."""

AskPermission: TypeAlias = Callable[[PermissionQuestion], PermissionReply | Awaitable[PermissionReply]]
"""Returns the person's decision for this call; a no may come with a text that says how to allow it later.

An async function is cancelled when the call ends before the answer.
"""

_log = logging.getLogger(__name__)
GRACE: Final = 2.0
"""Seconds that stopped code on a thread has to end. After that the device goes on without it."""
_MAX_HINT: Final = 1000
_MAX_WAITING: Final = 1000
"""Steps in the queue above which progress is left out."""
_NO_QUESTIONS: Final = "Give the program that offers this tool an `ask_permission`: it has no way to ask its person."


class _RunningCall:
    """One call that runs."""

    __slots__ = ("_loop", "_runner", "_thread", "context", "has_begun", "is_on_loop", "is_stopped", "request", "task")

    def __init__(self, runner: "CallRunner", request: CallRequest, *, is_on_loop: bool) -> None:
        self._runner = runner
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.request = request
        self.is_on_loop = is_on_loop
        """Whether cancelling the task ends the call: code on a thread can't be cancelled."""
        self.has_begun = False
        self.is_stopped = False
        self.context = CallContext(request.id, request.name, request.args, self._progress, deadline=self._deadline)
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        self.is_stopped = True
        self.context.cancelled.set()

    # Called by the code of the tool, from any thread.

    def _progress(self, value: Json) -> None:
        value = progress_value(value, self._runner.link.limits)
        if threading.get_ident() == self._thread:  # at once, so that it is sent before the answer
            self._runner.report_progress(self.request.id, value)
        else:
            self._loop.call_soon_threadsafe(self._runner.report_progress, self.request.id, value)

    def _deadline(self) -> Deadline | None:
        at = self._runner.timers.ends_at(self.request.id)
        return None if at is None else Deadline(at, "the call's own limit")


class CallRunner:
    """Runs the calls that `ClientCalls` starts. What becomes of them goes into the queue of steps."""

    def __init__(
        self,
        tools: ClientTools,
        encoder: ResultEncoder,
        threads: CallThreads,
        calls: ClientCalls,
        steps: StepQueue[Any],
        *,
        ask_permission: AskPermission | None = None,
        start_login: BeginLogin | None = None,
    ) -> None:
        self._tools = tools
        self._encoder = encoder
        self._threads = threads
        self._state = calls
        self._steps = steps
        self._ask_permission = ask_permission
        self._start_login = start_login
        self.link = calls.link
        self.timers = CallTimers(self._expire)
        self._calls: dict[str, _RunningCall] = {}
        self._tasks = Tasks()
        """Questions to the person, and uploads of answers that fit into no message."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """Questions that the gateway asks the person here, by id."""
        self._shrinking: set[str] = set()
        """The calls whose answers are being made smaller."""
        self._is_closed = False

    def start(self, run: RunCall) -> None:
        """Run the code of this call."""
        request = run.request
        tool = self._tools.find(request.name)
        code = None if tool is None else self._tools.code(tool)
        if tool is None or code is None:  # it was unregistered while the call waited
            text = f"Tool {request.name!r} is not available on this device any more."
            self.finish(request.id, FailureFrame(id=request.id, error=text, code="tool_not_found"))
            return
        permissions = tool.spec.permissions if run.asks_person else ()
        call = self._calls[request.id] = _RunningCall(self, request, is_on_loop=code.is_async)
        call.task = asyncio.create_task(self._serve(call, code, permissions), name=request.id)

    def stop(self, call_id: str) -> None:
        """Stop this call: async code is cancelled, code on a thread sees `CallContext.cancelled`.

        Code on a thread that does not end within the grace time is left behind: other calls can run then.
        """
        call = self._calls.get(call_id)
        if call is None:
            return
        call.stop()
        if not call.is_on_loop:
            asyncio.get_running_loop().call_later(GRACE, self._leave_behind, call)
        elif call.task is not None:
            call.task.cancel()
            if not call.has_begun:  # a task cancelled before its first step never reaches `finally`
                self._end_call(call_id, None)

    def _leave_behind(self, call: _RunningCall) -> None:
        """End a stopped call whose code still runs on its thread."""
        if self._calls.get(call.request.id) is call and call.task is not None:
            call.task.cancel()

    def ask(self, request: PermissionRequest) -> None:
        """Ask the person for a permission, until the question expires."""
        task = self._asking[request.id] = self._tasks.start(self._ask_permission_for(request))
        task.add_done_callback(lambda _: self._asking.pop(request.id, None))

    def stop_asking(self, question_id: str) -> None:
        """Stop asking the person this question."""
        if question_id in self._asking:
            self._asking[question_id].cancel()

    def start_login(self, request: LoginStart, refused: FailureFrame | None) -> None:
        """Begin the login that a call waits for."""
        if self._start_login is not None:
            about = ("", "") if refused is None else (refused.authorize_intent, refused.resolution_hint)
            self._tasks.start(self._begin_login(self._start_login, LoginRequest(request.call_id, *about)))

    async def _begin_login(self, begin: BeginLogin, request: LoginRequest) -> None:
        try:
            begun: Any = begin(request) if is_async(begin) else await self._threads.run(begin, request)
            if inspect.isawaitable(begun):
                await begun
        except Exception:  # the program's own code
            _log.exception("the login for the call %s could not be begun", request.call_id)

    def shrink(self, answer: ResultFrame) -> None:
        """Make this answer fit into a message, once, even if several links ask for it meanwhile."""
        if answer.call not in self._shrinking:
            self._shrinking.add(answer.call)
            self._tasks.start(self._shrink(answer))

    async def close(self) -> None:
        """Stop all calls. A thread whose code does not end is left behind as a daemon.

        The state gets nothing of these calls: the state file must still say that they were started.
        """
        self._is_closed = True
        self.timers.close()
        running = [call.task for call in self._calls.values() if call.task is not None]
        for call in self._calls.values():
            call.stop()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._tasks.close()

    # One call.

    async def _serve(self, call: _RunningCall, code: ToolCode, permissions: tuple[str, ...]) -> None:
        """Run one call to its end, and send its one answer, whatever the tool's code does."""
        call.has_begun = True
        request, answer = call.request, None
        try:
            if permissions:
                await self._require_permissions(permissions, call)
            value = await (code.run(request.args, call.context) if call.is_on_loop else self._run_on_thread(call, code))
            result = (request.id, value, self.link.capabilities, self.link.limits)
            answer = (IS_FAST and encode_plain(*result)) or await self._encoder.encode(*result)
        except asyncio.CancelledError:
            if call.is_stopped:
                raise
            # The tool's own code has cancelled its task.
            answer = FailureFrame(id=request.id, error="The tool was cancelled.", code="cancelled")
        except LoginRequired as error:
            answer = login_answer(request, error, self.link.capabilities)
        except ToolError as error:
            answer = FailureFrame(id=request.id, error=error.message, code=error.code)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the tool's own code: whatever it raises is this call's failure alone
            answer = FailureFrame(id=request.id, error=str(error) or type(error).__name__)
        finally:
            self._end_call(request.id, answer)

    async def _run_on_thread(self, call: _RunningCall, code: ToolCode) -> Any:
        value = await self._threads.run(code.run, call.request.args, call.context)
        if not inspect.isawaitable(value):
            return value
        call.is_on_loop = True  # a plain function that returned a coroutine
        return await value

    def _end_call(self, call_id: str, answer: ResultFrame | FailureFrame | None) -> None:
        del self._calls[call_id]
        self.timers.clear(call_id)
        if not self._is_closed:
            self.finish(call_id, answer)

    async def _shrink(self, answer: ResultFrame) -> None:
        """Replace an answer that the gateway found too large by one that is smaller, or by an error."""
        small: ResultFrame | FailureFrame
        try:
            small = await self._encoder.shrink(answer, self.link.capabilities, self.link.limits)
        except ToolError as error:
            small = FailureFrame(id=answer.call, error=error.message, code=error.code)
        finally:
            self._shrinking.discard(answer.call)
        self._steps.add(self._state.replace_answer(small, time.time()))

    # What becomes of calls.

    def finish(self, call_id: str, answer: ResultFrame | FailureFrame | None) -> None:
        """Note that a call has ended, with this answer; None when it was stopped."""
        self._steps.add(self._state.finish_call(call_id, answer, time.time()))

    def report_progress(self, call_id: str, value: Json) -> None:
        """Report a value of a call. Values beyond the queue's limit are left out."""
        if len(self._steps) < _MAX_WAITING:
            self._steps.add_later(self._state.report_progress(call_id, value))

    def _expire(self, call_id: str) -> None:
        self._steps.add(self._state.expire_call(call_id, time.time()))

    # Permissions.

    async def _ask_permission_for(self, request: PermissionRequest) -> None:
        about = (request.permission, request.tool, request.call_id, request.arguments, request.agent)
        try:
            async with asyncio.timeout(request.expires_ms / 1000):
                decision, how = await self._ask_person(PermissionQuestion(*about))
        except TimeoutError:  # the gateway ends the question itself
            return
        self._steps.add(self._state.answer_permission(request.id, decision, how))

    async def _require_permissions(self, permissions: tuple[str, ...], call: _RunningCall) -> None:
        """Ask the person in place of a gateway that does not ask (ws.md 5.9). Raises `ToolError` for a no."""
        is_on_loop, call.is_on_loop = call.is_on_loop, True  # `stop` ends the question too, whatever runs the code
        request = call.request
        for permission in permissions:
            question = PermissionQuestion(permission, request.name, request.id, request.args)
            decision, how = await self._ask_person(question)
            if decision != "allow":
                text = f"Permission {permission!r} was denied by the user{f': {how}' if how else ''}"
                raise ToolError("permission_denied" if decision == "deny" else "permission_denied_forever", text)
        call.is_on_loop = is_on_loop

    async def _ask_person(self, question: PermissionQuestion) -> tuple[Decision, str]:
        """Return the decision of the program's callback, and how to enable it later. A callback that fails says no."""
        ask = self._ask_permission
        if ask is None:
            return "deny", _NO_QUESTIONS
        try:
            reply: Any = ask(question) if is_async(ask) else await self._threads.run(ask, question)
            reply = await reply if inspect.isawaitable(reply) else reply
        except Exception as error:  # the program's own code
            return "deny", f"Asking failed: {str(error) or type(error).__name__}"
        decision, how = reply if isinstance(reply, tuple) and len(reply) == 2 else (reply, "")
        return (decision, how) if decision in ("allow", "deny", "deny_forever") else ("deny", f"{reply!r} is no answer")


def login_answer(request: CallRequest, error: LoginRequired, capabilities: frozenset[str]) -> FailureFrame:
    """Return the answer that keeps the call open. A gateway that knows no logins gets the hint in the text."""
    if "login" not in capabilities:
        text = f"{error.message} — {error.hint}" if error.hint else error.message
        return FailureFrame(id=request.id, error=text, code=error.code)
    return FailureFrame(
        id=request.id,
        error=error.message,
        code=error.code,
        resolution_hint=error.hint[:_MAX_HINT],
        authorize_intent=error.intent[:_MAX_HINT],
        retry=request.retry,
    )
