"""Hooks: a list that is called in order before and after each call (SPEC E7).

A before-hook may let the call go on, cancel it or change it. An after-hook may read the result or replace it. A
before-hook that fails or hangs refuses the call. A hook of plain functions runs on worker threads, and the hook of a
plugin in an event loop of its own (`hook_thread.py`): if such a hook blocks, only its own call waits, until the hook's
time is over. Other hooks run on the event loop of the gateway. A hook that blocks this loop holds up everything; a log
line names the hook, and its call is refused, too.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, structs

from handspan.core.calls import CallRecord, ToolCall
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import Arguments
from handspan.engine.caller import Caller, find_tool, read_arguments
from handspan.engine.deadline import DeadlineReached, Reaper, run_with_deadline
from handspan.engine.hook_thread import HookThread
from handspan.engine.outcome import describe_error, describe_traceback, encode_result
from handspan.engine.threads import Threads
from handspan.registry.entry import Entry

DEFAULT_TIMEOUT = 5.0
_log = logging.getLogger(__name__)


_Ask: TypeAlias = Callable[..., Any]
"""The method `before` or `after` of a hook: code that is not ours."""


class HookedCall(Struct, frozen=True):
    """A call as hooks see it."""

    id: str
    name: str
    arguments: Arguments
    owner: str
    session: str
    agent: str
    is_changed: bool = False
    """Whether hooks see this call again, because a hook, or the person who approved it, has changed it."""


class CancelCall(Struct, frozen=True):
    """The verdict that the call shall not run."""

    reason: str


class ModifyCall(Struct, frozen=True):
    """The verdict that this tool shall run with these arguments instead. The call starts again at *find*, once."""

    name: str
    arguments: Arguments


BeforeVerdict: TypeAlias = CancelCall | ModifyCall | None


class Hook(Protocol):
    """Sees every call of every origin and every door. Its methods are `async`, or plain functions if they may block."""

    def before(self, call: HookedCall) -> BeforeVerdict | Awaitable[BeforeVerdict]: ...

    def after(self, call: HookedCall, result: ToolResult) -> ToolResult | Awaitable[ToolResult | None] | None: ...


class NamedHook(Struct, frozen=True):
    """A hook with its name for error messages, and the seconds that it may take."""

    name: str
    hook: Hook
    timeout: float = DEFAULT_TIMEOUT
    thread: HookThread | None = None
    """Where the hook's coroutines run; None: on the event loop of the gateway."""


class Hooks:
    """All hooks, in order."""

    def __init__(self, hooks: Iterable[NamedHook] = ()) -> None:
        self._hooks = tuple(hooks)
        self._reaper = Reaper()
        self._threads = Threads()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    @property
    def working(self) -> str:
        """The name of the hook whose code runs on the event loop now; empty: none."""
        return self._reaper.working

    def close(self) -> None:
        """End the threads of hooks."""
        self._threads.close()
        for named in self._hooks:
            if named.thread is not None:
                named.thread.close()

    async def before(self, call: HookedCall, *, may_modify: bool) -> HookedCall:
        """Return the call as the hooks have changed it. Each hook sees the changes of the hooks before it.

        Raises `ToolError` when a hook cancels the call. `may_modify=False`: the call was changed once already, so hooks
        may cancel it, but not change it again.
        """
        for named in self._hooks:
            match await self._ask(named, call):
                case None:
                    continue
                case CancelCall(reason=reason):
                    raise ToolError("hook_cancelled", f"Cancelled by hook {named.name!r}: {reason}")
                case ModifyCall(name=str(name), arguments=Mapping() as arguments):
                    call = structs.replace(call, name=name, arguments=dict(arguments)) if may_modify else call
                case other:
                    raise _no_verdict(named, f"it answered {other!r:.200}")
        return call

    async def after(self, call: HookedCall, result: ToolResult) -> ToolResult:
        """Return the result after all hooks; each may replace it."""
        for named in self._hooks:
            try:
                replaced = await self._run(named, named.hook.after, call, result)
            except _HookFailed as failed:
                return _after_hook_failure(named, call, str(failed))
            if replaced is not None and not isinstance(replaced, ToolResult):
                return _after_hook_failure(named, call, f"it answered {replaced!r:.200}")
            result = replaced or result
        return result

    async def _ask(self, named: NamedHook, call: HookedCall) -> object:
        try:
            return await self._run(named, named.hook.before, call)
        except _HookFailed as failed:  # a hook without a verdict refuses the call
            raise _no_verdict(named, str(failed)) from failed

    async def _run(self, named: NamedHook, ask: _Ask, *about: object) -> object:
        """Return what the hook returns. Raises `_HookFailed` with the reason when the hook fails or takes too long."""
        began = time.monotonic()
        try:
            started = self._start(named, ask, *about)
            answer = await run_with_deadline(started, named.timeout, self._reaper, named.name)
        except DeadlineReached as error:
            raise _too_late(named) from error
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):  # for us: `_contain` keeps those of the hook
            raise
        except _HookFailed:
            raise
        except BaseException as error:  # code that is not ours
            _log.warning("The hook %r failed\n%s", named.name, describe_traceback(error))
            raise _HookFailed(describe_error(error)) from error
        took = time.monotonic() - began
        if took > named.timeout:  # a hook that blocks can't be stopped at its deadline
            if _runs_on_loop(named, ask):
                text = "The hook %r has blocked the event loop, and everything waited: it took %.3g s"
                _log.warning(text, named.name, took)
            raise _too_late(named)
        return answer

    def _start(self, named: NamedHook, ask: _Ask, *about: object) -> Coroutine[Any, Any, object]:
        """Return a coroutine that runs the hook where it belongs."""
        if not inspect.iscoroutinefunction(ask):
            return _contain(self._threads.run, ask, *about)
        if named.thread is not None:
            return named.thread.run(partial(_contain, ask, *about), named.timeout)
        return _contain(ask, *about)


def _runs_on_loop(named: NamedHook, ask: _Ask) -> bool:
    return named.thread is None and inspect.iscoroutinefunction(ask)


async def _contain(ask: _Ask, *about: object) -> object:
    """Return what the hook returns. Raises `_HookFailed` for an error that would end the task or the gateway."""
    try:
        answer = await ask(*about)
        return await answer if inspect.isawaitable(answer) else answer
    except (GeneratorExit, KeyboardInterrupt, SystemExit) as error:
        raise _HookFailed(describe_error(error)) from error


class _HookFailed(Exception):
    """A hook gave no answer. The text has the reason."""


def _too_late(named: NamedHook) -> _HookFailed:
    return _HookFailed(f"no answer within {named.timeout:g} s")


def _no_verdict(named: NamedHook, why: str) -> ToolError:
    return ToolError("hook_cancelled", f"The hook {named.name!r} gave no verdict ({why}), so the call is refused.")


def _after_hook_failure(named: NamedHook, call: HookedCall, why: str) -> Failure:
    return Failure(
        "internal_error",
        f"Tool {call.name!r} did run, but the hook {named.name!r} failed afterwards ({why}). "
        "Do not repeat the call: the journal has its true result.",
    )


async def run_before_hooks(
    hooks: Hooks, call: ToolCall, entry: Entry, arguments: Arguments, caller: Caller
) -> tuple[ToolCall, Entry, Arguments]:
    """Return the call after the before-hooks. A call that a hook changed goes from *find* to *hooks* once more."""
    seen = hooked_call(call.id, entry, arguments, caller)
    hooked = await hooks.before(seen, may_modify=True)
    if hooked is seen:
        return call, entry, arguments
    entry = find_tool(hooked.name, caller)
    arguments = read_arguments(entry, hooked.arguments)
    await hooks.before(hooked_call(call.id, entry, arguments, caller, is_changed=True), may_modify=False)
    return ToolCall(hooked.name, arguments, call.id, call.deadline, request=call.request), entry, arguments


async def run_after_hooks(hooks: Hooks, record: CallRecord, result: ToolResult) -> ToolResult:
    """Return the result after the after-hooks. If a hook replaced it, the record keeps the tool's own result."""
    arguments = record.arguments if isinstance(record.arguments, Mapping) else {}
    seen = HookedCall(record.id, record.name, arguments, record.owner, session=record.session, agent=record.agent)
    replaced = await hooks.after(seen, result)
    if replaced is result:
        return result
    record.true_result = result
    record.size += len(result.encoded) if isinstance(result, Success) else 0
    return encode_result(replaced)


def hooked_call(
    call_id: str, entry: Entry, arguments: Arguments, caller: Caller, *, is_changed: bool = False
) -> HookedCall:
    owner, session, agent = caller.who.owner, caller.session, caller.agent.name
    return HookedCall(call_id, entry.spec.name, arguments, owner, session=session, agent=agent, is_changed=is_changed)
