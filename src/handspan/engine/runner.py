"""The station where the tool's own code runs: a free slot, its thread or process, its deadline (SPEC E5, E6, T3).

An exception of the tool becomes a result: whatever a tool does, the engine gets an outcome.
"""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.calls import can_wait
from handspan.core.context import Deadline, Person, Progress, ToolContext, not_elsewhere
from handspan.core.errors import ToolError
from handspan.core.questions import Answer, ToolQuestion
from handspan.core.results import Failure, Pending, ToolResult, succeed
from handspan.core.values import Arguments, Json, round_seconds
from handspan.engine.caller import Caller
from handspan.engine.concurrency import Slots, SlotsByOrigin
from handspan.engine.deadline import GRACE, CancelledItself, DeadlineReached, Reaper, Wait, continue_with_deadline
from handspan.engine.outcome import (
    convert_error,
    convert_output,
    describe_error,
    describe_traceback,
    log_fault,
)
from handspan.engine.questions import AnswerComesLater, Asker
from handspan.engine.records import CallAtWork
from handspan.engine.threads import Threads
from handspan.registry.entry import Entry

if TYPE_CHECKING:
    from handspan.engine.workers.pool import Workers


@final
class Started(Struct, gc=False):
    """A call that has passed every station before *run*."""

    entry: Entry
    arguments: Arguments
    caller: Caller
    record: CallAtWork
    deadline: Deadline | None
    """The caller's own deadline, if it has one. It moves by the time that a person takes to answer."""
    began: float
    """When the call began, by `time.monotonic`. It moves by the time that a person takes to answer."""
    asker: Asker
    limit: Deadline | None = None
    """When the tool's code is stopped; None without a limit, and before the code runs."""
    answer: Json = None
    """What the person answered before the call ran, if the tool asks for something first."""
    question_count: int = 0
    """How many questions the tool has asked the person."""
    open_questions: int = 0
    """How many of these questions have no answer yet. While there is one, the tool's clock stands still."""
    paused_at: float = 0.0
    """When the clock was stopped, by `time.monotonic`."""
    wait: Wait | None = None
    """The tool's clock, while its code waits."""
    is_over: bool = False
    """Whether the tool's code has ended. A thread or task that it left running may ask no more questions."""
    asking_tasks: tuple["asyncio.Task[Any] | None", ...] = ()
    """The tasks that wait for an answer."""
    is_handed_over: bool = False
    """Whether another process takes the call over: it stays open, whatever its tool does now."""

    async def ask(self, tool_question: ToolQuestion) -> tuple[Answer, float]:
        """Ask the person. Return the answer, and the seconds that the tool's clock stood still (SPEC E6)."""
        if self.is_over:
            raise ToolError("cancelled", f"The call of {self.entry.spec.name!r} is over: it can ask no more questions.")
        self.question_count += 1
        task = asyncio.current_task()
        self.asking_tasks = (*self.asking_tasks, task)
        self._pause()
        try:
            answer = await self.asker.ask_for_tool(self.question_count, tool_question, self)
        except AnswerComesLater:
            self.hand_over()
            raise asyncio.CancelledError from None
        except asyncio.CancelledError:
            self.is_handed_over = self.stays_open()
            raise
        finally:
            waited = self._resume()
            self.record.waited += waited
            self.began += waited
            self.asking_tasks = tuple(one for one in self.asking_tasks if one is not task)
        return answer, waited

    def hand_over(self) -> None:
        """Stop the tool. The call stays open."""
        self.is_handed_over = True
        if self.wait is not None:
            self.wait.stop()

    def stays_open(self) -> bool:
        """Whether the call stays open when it is cancelled now: another process gets its outcome, or runs it again."""
        can_go_on = can_wait(self.record, is_asking=self.open_questions > 0)
        return self.is_handed_over or (can_go_on and self.caller.goes_on_elsewhere())

    def cancel_questions(self) -> None:
        """Cancel the questions that are open when the call ends: the tool asked them in another task or thread."""
        current = asyncio.current_task()
        for task in self.asking_tasks:
            if task is not None and task is not current:
                task.cancel()

    def _pause(self) -> None:
        self.open_questions += 1
        if self.open_questions == 1:
            self.paused_at = time.monotonic()
            if self.wait is not None:
                self.wait.pause()

    def _resume(self) -> float:
        """Let the clock run again. Return the seconds that it stood still; 0 while another question is open."""
        self.open_questions -= 1
        if self.open_questions:
            return 0.0
        if self.wait is not None:
            self.wait.resume()
        return time.monotonic() - self.paused_at


class Runner:
    """Runs tools on the event loop, on a thread or in a process, and stops them at their deadline."""

    def __init__(self, artifacts: Artifacts, workspace: Path, slots: SlotsByOrigin) -> None:
        self._artifacts = artifacts
        self._workspace = workspace
        self._slots = slots
        self.threads = Threads()
        self._workers: Workers | None = None
        self.reaper = Reaper()
        self.is_stopped = False
        """Whether no tool may run any more: Handspan is being closed."""
        self._hands_over = False
        """Whether calls of turns that wait for a client are handed over to another process."""
        self._suspended: dict[str, Started] = {}
        """The calls whose tool waits for something, by id."""

    @property
    def workers(self) -> "Workers":
        """The processes of isolated tools."""
        if self._workers is None:
            from handspan.engine.workers.pool import Workers  # noqa: PLC0415 - few tools are isolated: 6 ms of each start

            self._workers = Workers()
        return self._workers

    def find(self, call_id: str) -> Started | None:
        """Return the call of this id while its tool waits for something."""
        return self._suspended.get(call_id)

    def hand_over(self) -> None:
        """Hand over calls of turns whose clients can come back, from now on. Each stays open, without a result."""
        self._hands_over = True
        for started in tuple(self._suspended.values()):
            _hand_over_client_call(started)

    def stop(self) -> None:
        """Run no more tools, and stop those that run: each gets its grace time. A tool may call `stop` itself."""
        self.is_stopped = True
        task = asyncio.current_task()
        for started in self._suspended.values():
            if started.wait is not None and started.wait.task is not task and not started.stays_open():
                started.wait.stop()

    async def close(self) -> None:
        """End idle threads, workers and the alarm."""
        self.reaper.alarm.close()
        self.threads.close()
        if self._workers is not None:
            await self._workers.close()

    async def run(self, started: Started) -> ToolResult | Pending:
        """Return the outcome of the tool. Raises nothing but the caller's own cancellation."""
        entry = started.entry
        slots = self._slots.of_tool(entry)
        if not slots.try_take() and (refused := await _wait_for_slot(slots, started)) is not None:
            return refused
        now, reaper, name = time.monotonic(), self.reaper, entry.spec.name
        outer = reaper.working
        try:
            if self.is_stopped:
                raise closed_error(name)
            if entry.function is not None and started.deadline is None:
                coroutine = entry.function(**started.arguments)
            else:
                coroutine = self._begin(started, now)
            reaper.working = name  # the watchdog names this tool if its code blocks the loop
            try:
                # The first step by hand: most tools end in it, and need no deadline. Else it says what it waits for.
                wanted = coroutine.send(None)
            except StopIteration as stop:
                output = stop.value
            except asyncio.CancelledError as error:
                raise CancelledItself from error
            else:
                reaper.working = outer
                wait = self._begin_wait(started, wanted, now)
                output = await continue_with_deadline(coroutine, wanted, wait, reaper, name=name)
            return convert_output(output) if isinstance(output, Struct) else succeed(output)
        except BaseException as error:  # a tool's own code
            return self._convert_error(error, started, now)
        finally:
            reaper.working = outer
            slots.release()
            started.is_over = True
            if started.wait is not None:
                started.wait = None
                del self._suspended[started.record.id]
            if started.open_questions:
                started.cancel_questions()

    def _begin(self, started: Started, now: float) -> Any:
        """Return the coroutine that runs a tool, with its context, where it belongs. `now`: when its time begins."""
        entry = started.entry
        started.limit = _find_deadline(entry, started.deadline, now)
        caller, record = started.caller, started.record
        ctx = ToolContext(
            record.id,
            caller.who,
            record.session,
            started.limit,
            progress=caller.progress,
            artifacts=self._artifacts,
            workspace=self._workspace,
            person=started,
            answer=started.answer,
            tools=caller.box,
            stays_open=started.stays_open if entry.outlives else not_elsewhere,
        )
        if entry.placement == "loop":
            return entry.tool.run(started.arguments, ctx)
        return self._run_aside(entry, started.arguments, ctx)

    def _begin_wait(self, started: Started, wanted: Any, now: float) -> Wait:
        """Return the clock of a tool that waits for something."""
        limit = started.limit = started.limit or _find_deadline(started.entry, started.deadline, now)
        left = None if limit is None else limit.at - time.monotonic()  # the first step may have blocked
        wait = started.wait = Wait(wanted, left, self.reaper.alarm, GRACE)
        if started.open_questions:  # the tool asked in its first step
            wait.pause()
        self._suspended[started.record.id] = started
        if self._hands_over:
            asyncio.get_running_loop().call_soon(_hand_over_client_call, started)
        return wait

    def _convert_error(self, error: BaseException, started: Started, now: float) -> ToolResult | Pending:
        """Return the outcome of a tool that ended with this error. Raises it again if it is for the engine."""
        entry = started.entry
        match error:
            case ToolError():
                return convert_error(error)
            case DeadlineReached() | CancelledItself() if started.is_handed_over:
                return Pending()
            case DeadlineReached() if self.is_stopped:
                return _stop_failure(entry, error)
            case DeadlineReached():
                return _timeout_failure(entry, started.limit, now, error)
            case CancelledItself():
                return Failure("cancelled", f"Tool {entry.spec.name!r} cancelled itself.")
            case asyncio.CancelledError() | GeneratorExit() | KeyboardInterrupt():
                if isinstance(error.__cause__, ToolError):  # a tool that is cancelled may say how its call ended
                    started.record.early = convert_error(error.__cause__)
                raise error
        log_fault(entry.spec.name, started.record.id, describe_traceback(error))
        return Failure("execution_failed", f"Tool {entry.spec.name!r} failed: {describe_error(error)}")

    def _run_aside(self, entry: Entry, arguments: Arguments, ctx: ToolContext) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a tool that runs on a thread or in a process."""
        if entry.placement == "thread":
            ctx.progress = _report_on_loop(ctx.progress)
            ctx.person = _PersonOnLoop(ctx.person)
            return self.threads.run(entry.tool.run, arguments, ctx)
        return self.workers.run(entry.tool, arguments, ctx)


async def _wait_for_slot(slots: Slots, started: Started) -> Failure | None:
    """Wait for a slot and take it. Return a failure when there is none in time."""
    try:
        # Until the caller's deadline; without one, a call waits for ever (E3).
        await slots.take(None if started.deadline is None else max(0.0, started.deadline.at - time.monotonic()))
    except ToolError as error:
        return Failure(error.code, error.message)
    except asyncio.CancelledError:
        started.record.early = started.record.early or _disconnection(started)
        raise
    return None


def _hand_over_client_call(started: Started) -> None:
    """Hand over a call of a turn if it waits for a client that can come back."""
    if started.caller.is_turn and started.wait is not None and can_wait(started.record):
        started.hand_over()


def _find_deadline(entry: Entry, callers: Deadline | None, now: float) -> Deadline | None:
    """Return the tool's own deadline or the caller's, whichever comes first; None without a limit.

    Raises `ToolError` when the caller's deadline has passed.
    """
    timeout = entry.timeout
    if callers is not None:
        if callers.at <= now:
            text = f"Tool {entry.spec.name!r} was not run: the time was over before it could begin ({callers.whose})."
            raise ToolError("timeout", text)
        if timeout is None or callers.at < now + timeout:
            return callers
    return None if timeout is None else Deadline(now + timeout, entry.timeout_source)


def find_expiry(entry: Entry, callers: Deadline | None, now: float) -> float | None:
    """Return when the call expires, by the ledger's clock, which other processes can read; None without a limit.

    `now`: the time of the ledger's clock.
    """
    left = [] if entry.timeout is None else [entry.timeout]
    if callers is not None:
        left.append(callers.at - time.monotonic())
    return now + min(left) if left else None


def _timeout_failure(entry: Entry, deadline: Deadline | None, began: float, reached: DeadlineReached) -> Failure:
    """Return the failure of a call at its deadline, and say whether its tool may still be at work."""
    assert deadline is not None  # without a deadline, `DeadlineReached` is never raised
    took = f"{round_seconds(deadline.at - began)} ({deadline.whose})"
    if entry.facts.answered_by == "connection":
        told = "was told to stop" if entry.can_be_stopped else "can't be stopped from here"
        text = f"Tool {entry.spec.name!r} gave no answer within {took}. The program that runs it {told}"
        text += ", and may still be at work on it"
    elif entry.placement == "thread":
        text = f"Tool {entry.spec.name!r} timed out after {took}. Its thread can't be stopped, and may still be at work"
    elif reached.stuck:
        text = f"Tool {entry.spec.name!r} timed out after {took} and was stopped, but it did not end in time"
        text += ": part of it may still be at work"
    else:
        text = f"Tool {entry.spec.name!r} timed out after {took} and was stopped"
    return Failure("timeout", f"{text}.")


def _stop_failure(entry: Entry, reached: DeadlineReached) -> Failure:
    """Return the result of a call that was stopped because Handspan closes. The tool may say how its call ended."""
    if isinstance(reached.__cause__, ToolError):
        return convert_error(reached.__cause__)
    return Failure("cancelled", f"The call of {entry.spec.name!r} was cancelled: Handspan was closed.")


def closed_error(name: str) -> ToolError:
    """Return the error of a call that came too late to run."""
    return ToolError("interrupted", f"Tool {name!r} was not run: Handspan was closed. It is safe to call it again.")


def _disconnection(started: Started) -> Failure | None:
    """Return the result of a call that was cancelled before its client was asked; None if that client is not gone."""
    entry = started.entry
    now = started.caller.box.find(entry.spec.name)
    if not entry.origin.connection or (now is not None and now.origin == entry.origin):
        return None
    text = f"The client of {entry.spec.name!r} disconnected before it was asked to run it: it is safe to call it again."
    return Failure("disconnected", text)


def _report_on_loop(progress: Progress) -> Progress:
    """Return a function for a thread that reports progress on the engine's event loop."""
    loop = asyncio.get_running_loop()

    def report(value: Json) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(progress, value)

    return report


class _PersonOnLoop:
    """Asks the person on the engine's event loop, for a tool on a thread that runs a loop of its own."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._loop = asyncio.get_running_loop()

    async def ask(self, tool_question: ToolQuestion) -> tuple[Answer, float]:
        """Ask on the engine's loop, and wait in the loop of the thread."""
        asking = asyncio.run_coroutine_threadsafe(self._person.ask(tool_question), self._loop)
        return await asyncio.wrap_future(asking)
