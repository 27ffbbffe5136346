"""Hooks: a list and a loop, not an onion (SPEC E7).

A before-hook may let the call go on, cancel it or change it; an after-hook may look at the result or put another
one in its place. No verdict means no: a before-hook that fails or hangs refuses the call.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, structs

from handspan.core.errors import ToolError
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Arguments
from handspan.engine.crash import said
from handspan.engine.drive import DeadlineReached, Reaper, drive_all

DEFAULT_TIMEOUT = 5.0


class HookedCall(Struct, frozen=True):
    """What a hook is shown of a call."""

    id: str
    name: str
    arguments: Arguments
    owner: str
    session: str
    agent: str


class Cancel(Struct, frozen=True):
    """The call shall not run."""

    reason: str


class Modify(Struct, frozen=True):
    """The call shall run with these instead; it starts again at *find*, once."""

    name: str
    arguments: Arguments


BeforeVerdict: TypeAlias = Cancel | Modify | None


class Hook(Protocol):
    """Sees every call of every origin, whatever door it came through."""

    async def before(self, call: HookedCall) -> BeforeVerdict: ...

    async def after(self, call: HookedCall, result: ToolResult) -> ToolResult | None: ...


class NamedHook(Struct, frozen=True):
    """A hook with the name that errors use for it, and the time that it may take."""

    name: str
    hook: Hook
    timeout: float = DEFAULT_TIMEOUT


class Hooks:
    """All hooks, in order."""

    def __init__(self, hooks: Iterable[NamedHook] = ()) -> None:
        self._hooks = tuple(hooks)
        self._reaper = Reaper()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def before(self, call: HookedCall, *, may_modify: bool) -> HookedCall:
        """The call as the hooks leave it; each sees what those before it made of it. `ToolError` when one says no.

        With `may_modify=False` the call was already changed once: hooks may still cancel it, not change it again.
        """
        for named in self._hooks:
            match await self._ask(named, call):
                case None:
                    continue
                case Cancel(reason=reason):
                    raise ToolError("hook_cancelled", f"Cancelled by hook {named.name!r}: {reason}")
                case Modify(name=str(name), arguments=Mapping() as arguments):
                    call = structs.replace(call, name=name, arguments=dict(arguments)) if may_modify else call
                case other:
                    raise _no_verdict(named, f"it answered {other!r:.200}")
        return call

    async def after(self, call: HookedCall, result: ToolResult) -> ToolResult:
        """The result as the hooks leave it."""
        for named in self._hooks:
            try:
                replaced = await self._run(named, named.hook.after, call, result)
            except _Failed as failed:
                return _failed_afterwards(named, call, str(failed))
            if replaced is not None and not isinstance(replaced, ToolResult):
                return _failed_afterwards(named, call, f"it answered {replaced!r:.200}")
            result = replaced or result
        return result

    async def _ask(self, named: NamedHook, call: HookedCall) -> object:
        try:
            return await self._run(named, named.hook.before, call)
        except _Failed as failed:  # no verdict means no
            raise _no_verdict(named, str(failed)) from failed

    async def _run(self, named: NamedHook, ask: Callable[..., Coroutine[Any, Any, object]], *about: object) -> object:
        """What the hook answers, in its time; `_Failed` with the reason when it does not."""
        try:
            return await drive_all(ask(*about), named.timeout, self._reaper)
        except DeadlineReached as error:
            raise _Failed(f"no answer within {named.timeout:g} s") from error
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):  # meant for us, not for the hook
            raise
        except BaseException as error:  # code that is not ours
            raise _Failed(said(error)) from error


class _Failed(Exception):
    """A hook gave no answer; the text says why."""


def _no_verdict(named: NamedHook, why: str) -> ToolError:
    return ToolError("hook_cancelled", f"The hook {named.name!r} gave no verdict ({why}), so the call is refused.")


def _failed_afterwards(named: NamedHook, call: HookedCall, why: str) -> Failure:
    return Failure(
        "internal_error",
        f"Tool {call.name!r} did run, but the hook {named.name!r} failed afterwards ({why}). "
        "Do not repeat the call: the journal has its true result.",
    )
