"""The loop of a conversation, as a function of its stored messages (SPEC A2, A4, E3, E4).

`advance` looks at the last message and does the next step: it asks the model, or runs the model's calls. It ends when
the model is done, the turn is aborted, or a call waits for a person or a client. Any process can call `advance` again
to go on: all state is in the messages and the ledger.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType, structs

from handspan.agent.compaction.compactor import Compactor
from handspan.agent.conversation import Conversation
from handspan.agent.limits import add_notes, refuse_repeated
from handspan.agent.order import earlier_calls
from handspan.agent.refusals import TurnHandedOver
from handspan.agent.result_marks import outside_source, render_envelope, render_result, stored_source
from handspan.agent.turn_events import END_REASONS
from handspan.core.agents import GENERAL
from handspan.core.calls import AskingModel, CallRecord, ToolCall
from handspan.core.errors import ToolError
from handspan.core.events import (
    BudgetLow,
    CallArrived,
    CallFinished,
    CallProgress,
    CallStarted,
    ContextUse,
    Ended,
    EndReason,
    Event,
    ModelSwitched,
    QuestionAsked,
    RequestQueued,
    RetryComing,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
    TurnFault,
    UsageCounted,
)
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage, Text
from handspan.core.questions import Question
from handspan.core.results import Failure, Pending, ToolResult
from handspan.core.store import Ledger
from handspan.core.tool import ToolSpec
from handspan.core.values import strip_all
from handspan.engine.engine import Engine
from handspan.models.model import (
    CallDelta,
    ModelError,
    NearlySpent,
    Queued,
    Replied,
    Retrying,
    Substituted,
    TextDelta,
    ThinkingDelta,
)

Emit: TypeAlias = Callable[[Event], None]
"""Takes an event of the turn. Never blocks."""


class Loop:
    """Advances conversations, with one engine for all of them."""

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        images_of: Callable[[str], ImageReader] | None = None,
        compactor: Compactor | None = None,
    ) -> None:
        """`images_of` gives the images of an owner. Without it, models get only images that came inside of messages.

        `compactor` makes room in the contexts of models. Without it a conversation ends when it is too long.
        """
        self._compactor = compactor
        self._engine = engine
        self._ledger = ledger
        self._images_of = images_of
        self.awaited: set[str] = set()
        """The calls for which turns of this process wait while another agent works."""

    @property
    def hands_over(self) -> bool:
        """Whether the gateway stops, and turns that only wait are handed over to the next process."""
        return self._engine.hands_over

    async def advance(self, conversation: Conversation, emit: Emit) -> Ended:
        """Advance the conversation until the turn ends, and return its last event. To cancel `advance` aborts the turn.

        Raises `TurnHandedOver` between two steps, when another node takes the turn over; and when the gateway stops
        while the turn only waits for a person or a client.
        """
        model_asked_here = False
        try:
            while True:
                last = conversation.last
                if conversation.handover != "none" and not _is_answer(last):
                    raise TurnHandedOver
                if not isinstance(last, AssistantMessage):
                    await conversation.append(await self._ask(conversation, emit))
                    model_asked_here = True
                elif calls := last.calls:
                    known = {} if model_asked_here else await self._records(calls)
                    results = await self._answer_calls(conversation, calls, known, emit)
                    if results is not None:
                        await conversation.append(ResultsMessage(results))
                    elif await self._may_wait(conversation):
                        return self._end(emit, "pending")
                    else:
                        model_asked_here = False  # the waiting calls got their results while others of the round ran
                elif conversation.inbox:
                    await self.take_inbox(conversation)
                else:
                    over = conversation.counts.why_no_more_tools(conversation.limits)
                    reason: EndReason = END_REASONS.get(last.stop) or over or "done"
                    return self._end(emit, reason, last.text)
        except ModelError as error:
            return self._end(emit, "error", str(error), TurnFault("model", error.fault))
        except asyncio.CancelledError:
            await self._abort(conversation, emit)
            raise

    async def _answer_calls(
        self, conversation: Conversation, calls: tuple[CallPart, ...], known: dict[str, CallRecord], emit: Emit
    ) -> tuple[CallResult, ...] | None:
        """Run the calls of a reply, and return their results with notes; None while a call has no result."""
        for call in calls:  # ws.md 3.2: all calls of a round are announced before the first one begins
            if call.id not in known:
                emit(CallStarted(call.id, call.name, call.arguments))
        refused = refuse_repeated(calls, conversation.counts, conversation.limits)
        if len(calls) == 1:
            outcomes = [await self._run(conversation, calls[0], refused, known, emit=emit)]
        else:
            outcomes = await self._run_all(conversation, calls, refused, known, emit=emit)
        results = [outcome for outcome in outcomes if not isinstance(outcome, Pending)]
        if len(results) < len(calls):
            return None
        return add_notes(calls, results, conversation.counts, conversation.limits)

    async def _may_wait(self, conversation: Conversation) -> bool:
        """Whether the turn waits for results of calls. Raises `TurnHandedOver` when another process waits for them."""
        open_records = await self._open_records(conversation)
        is_handed_over = conversation.handover != "none" or self.hands_over
        if (
            open_records and is_handed_over and not any(map(_is_for_page, open_records))
        ):  # a page is told its calls first
            raise TurnHandedOver
        return bool(open_records)

    async def _abort(self, conversation: Conversation, emit: Emit) -> None:
        """End a turn whose task was cancelled. Raises `TurnHandedOver` if another process goes on with it."""
        if conversation.handover == "now":  # an incomplete reply is forgotten; calls have results, or stay open
            raise TurnHandedOver from None
        open_records = await self._open_records(conversation)
        if conversation.handover == "if_waiting" and open_records:
            raise TurnHandedOver from None
        await self._end_open_calls(open_records)
        await self.close(conversation)  # A4: the text so far is stored, and every call has its result
        self._end(emit, "aborted")

    async def compact(self, conversation: Conversation, keep: str, emit: Emit) -> None:
        """Summarise what is older than the last turn, if there is a compactor. `keep`: what must be in the summary."""
        if self._compactor is not None:
            await self._compactor.compact(conversation, keep, emit)

    async def close(self, conversation: Conversation) -> None:
        """Give every open call a result without running it, so that the conversation can go on."""
        last = conversation.last
        if isinstance(last, AssistantMessage) and last.calls:
            results = [await self._stored_result(conversation, call) for call in last.calls]
            await conversation.append(ResultsMessage(tuple(results)))

    async def give_up(self, conversation: Conversation, *, all_calls: bool = False) -> None:
        """End the calls that a page did not answer, and close the round (graph.md 4.8). `all_calls`: end any call.

        Raises `ToolError` (`busy`) when a call waits for a person or a device: that call still gets its result.
        """
        waiting = await self._open_records(conversation)
        if all_calls:
            for record in waiting:
                await self._engine.cancel(record.id)
            waiting = []
        others = [record.name for record in waiting if not _is_for_page(record)]
        if others:
            raise ToolError("busy", f"The session waits for the outcome of {', '.join(others)}: say it again later.")
        for record in waiting:
            await self._engine.settle(record.id, _GIVEN_UP)
        await self.close(conversation)

    async def _end_open_calls(self, records: list[CallRecord]) -> None:
        """End the calls that wait for a page or a person. The turn is aborted, so nothing may run them."""
        for record in records:
            if record.state == "pending" and _is_for_page(record):
                await self._engine.settle(record.id, _NEVER_RAN)
            elif record.state == "accepted" or record.tool.answered_by == "agent":
                await self._engine.cancel(record.id)

    async def _open_records(self, conversation: Conversation) -> list[CallRecord]:
        """Return the records of the last calls that have begun and have no result."""
        last = conversation.last
        calls = last.calls if isinstance(last, AssistantMessage) else ()
        return [record for record in (await self._records(calls)).values() if record.state != "done"]

    async def can_go_on(self, conversation: Conversation) -> bool:
        """Whether the conversation ends with calls that all have their results."""
        last = conversation.last
        if not isinstance(last, AssistantMessage) or not last.calls:
            return False
        return all(record.state == "done" for record in (await self._records(last.calls)).values())

    async def take_inbox(self, conversation: Conversation) -> None:
        """Append the messages of the inbox to the conversation."""
        while conversation.inbox:  # one by one: after an abort, the rest joins the next turn
            message = conversation.inbox[0]
            try:
                await conversation.append(message)
            finally:
                if conversation.last is message:
                    conversation.inbox.pop(0)

    async def _ask(self, conversation: Conversation, emit: Emit) -> AssistantMessage:
        """Return the model's reply, also to what is in the inbox. One that may call no more tools gets none (E4)."""
        if conversation.inbox:
            await self.take_inbox(conversation)
        over = conversation.counts.why_no_more_tools(conversation.limits)
        specs: Sequence[ToolSpec] = () if over else conversation.specs_for_model()
        emit(RoundBegan(conversation.counts.rounds + 1))
        compactor, length = self._compactor, len(conversation.messages)
        if compactor is not None and conversation.meter.window.tokens is not None:
            specs = await compactor.fit(conversation, specs, emit)
        try:
            reply = await self._send(conversation, specs, emit)
        except ModelError as error:
            has_said = len(conversation.messages) > length
            if compactor is None or error.fault != "too_long" or has_said:
                raise
            fewer = await compactor.after_refusal(conversation, specs, error, emit)  # once: then the error is told
            if fewer is None:
                raise
            reply = await self._send(conversation, fewer, emit)
        return self._check_reply(conversation, reply, emit, may_call=not over)

    async def _send(self, conversation: Conversation, specs: Sequence[ToolSpec], emit: Emit) -> AssistantMessage:
        """Return the model's reply to the conversation as it sees it."""
        text: list[str] = []
        replied: AssistantMessage | None = None
        answering = conversation.model.name
        images = None if self._images_of is None else self._images_of(conversation.owner)
        try:
            async for event in conversation.model.reply(conversation.projection(), specs, images):
                if isinstance(event, TextDelta):
                    text.append(event.text)
                    emit(TextArrived(event.text))
                elif isinstance(event, Replied):
                    replied = _signed(event.message, conversation)  # the last event: the stream ends by itself
                elif isinstance(event, Queued):
                    emit(RequestQueued(answering, event.running, event.reason or UNSET))
                elif isinstance(event, Substituted):
                    answering = _emit_switched(event, emit)
                else:
                    _emit_model_event(event, emit)
            if replied is None:
                raise ModelError("cut", "The answer broke off before its end. Try again.")
        except (asyncio.CancelledError, Exception):  # what arrived stays; how the turn ended is stored beside it (L7)
            if text and conversation.handover != "now":
                cut_off = AssistantMessage((Text("".join(text)),), "aborted", answering)
                await conversation.append(_signed(cut_off, conversation))
            raise
        _emit_rest(replied, text, emit)
        return replied

    def _check_reply(
        self, conversation: Conversation, message: AssistantMessage, emit: Emit, *, may_call: bool
    ) -> AssistantMessage:
        """Publish the usage of the reply, and return the reply; without its calls if the model may not call tools."""
        if (usage := message.usage) is not None:
            limit, counts = conversation.meter.window.tokens, (usage.input, usage.output)
            used = None if limit is None or None in counts else ContextUse(sum(count or 0 for count in counts), limit)
            dollars = conversation.costs.of(message)
            emit(
                UsageCounted(
                    message.model, usage, UNSET if used is None else used, UNSET if dollars is None else dollars
                )
            )
        if may_call or not message.calls:
            return message
        # The model was offered no tools and calls some all the same: only the text counts.
        text = tuple(part for part in message.parts if not isinstance(part, CallPart))
        return structs.replace(message, parts=text or (Text(""),), stop="end", native=None)

    async def _records(self, calls: tuple[CallPart, ...]) -> dict[str, CallRecord]:
        """Return the ledger's records of these calls by id. A call that never began has none."""
        return {call.id: record for call in calls if (record := await self._ledger.find(call.id)) is not None}

    async def _run_all(
        self,
        conversation: Conversation,
        calls: tuple[CallPart, ...],
        refused: dict[str, Failure],
        known: dict[str, CallRecord],
        emit: Emit,
    ) -> list[CallResult | Pending]:
        """Run calls side by side, or after earlier ones of their group (`agent/order.py`). Return outcomes in order."""
        tasks: list[_Running] = []
        for call, earlier in zip(calls, earlier_calls(calls, conversation.box), strict=True):
            run = self._run(conversation, call, refused, known, emit=emit)
            after = [tasks[place] for place in earlier]
            tasks.append(asyncio.create_task(_run_after(after, run) if after else run))
        try:
            return list(await asyncio.gather(*tasks))
        except asyncio.CancelledError:
            await asyncio.gather(*tasks, return_exceptions=True)  # `gather` cancelled them: let them end
            raise

    async def _run(
        self,
        conversation: Conversation,
        call: CallPart,
        refused: dict[str, Failure],
        known: dict[str, CallRecord],
        emit: Emit,
    ) -> CallResult | Pending:
        """Run one call, or replay its stored outcome, and publish the call's events.

        `refused`: failures of calls that must not run, by id. `known`: records of calls that began before, by id.
        """
        record = known.get(call.id)
        if record is not None:
            return self._replay(conversation, call, record, emit)
        began = time.monotonic()
        questions: list[Question] = []

        def ask(question: Question) -> None:
            questions.append(question)
            emit(QuestionAsked(question))

        caller = structs.replace(  # X5: listeners of the turn get the progress and questions of its tools
            conversation.caller,
            box=conversation.box,
            progress=lambda value: emit(CallProgress(call.id, call.name, strip_all(value))),
            on_question=ask,
            goes_on_elsewhere=lambda: conversation.handover in ("now", "if_waiting"),
            is_turn=True,
            asked_by=_asking_model(conversation.last),
        )
        wanted = ToolCall(call.name, call.arguments, call.id)
        # Find the tool before the call: while the call runs, the tool may leave, and a skill may narrow the toolbox.
        entry = caller.box.find(call.name)
        if call.id in refused:
            result: ToolResult | Pending = await self._engine.refuse(wanted, caller, refused[call.id])
        else:
            result = await self._engine.call(wanted, caller)
        if isinstance(result, Pending) and entry is not None and entry.facts.answered_by == "agent":
            result = await self._await_agent(call.id) or result
        if isinstance(result, Pending):
            return result
        took = time.monotonic() - began
        source = outside_source(entry, call.arguments, result)
        if (questions or self._engine.has_hooks) and (stored := await self._ledger.find(call.id)) is not None:
            took = stored.duration  # without the time of the person
            # A hook may have chosen another tool, and a hook or a person other arguments.
            is_same = stored.name == call.name
            source = (
                outside_source(entry, stored.arguments, result) if is_same else _stored_source(stored, conversation)
            )
        return _finish(call, result, took, source, emit=emit)

    async def _await_agent(self, call_id: str) -> ToolResult | None:
        """Return the answer of the agent that this call asks. Return None if it works elsewhere, or waits there."""
        self.awaited.add(call_id)
        try:
            return await self._engine.result(call_id)
        finally:
            self.awaited.discard(call_id)

    def stop_waiting(self) -> None:
        """Let no turn wait here for another agent: another node takes them over."""
        for call_id in tuple(self.awaited):
            self._engine.look_again(call_id)

    def _replay(
        self, conversation: Conversation, call: CallPart, record: CallRecord, emit: Emit
    ) -> CallResult | Pending:
        """Return the stored result of a call, and publish its event. Return `Pending` while there is no result."""
        if isinstance(record.result, UnsetType):
            return Pending()
        return _finish(call, record.result, record.duration, _stored_source(record, conversation), emit=emit)

    async def _stored_result(self, conversation: Conversation, call: CallPart) -> CallResult:
        """Return the stored result of a call; a failure that says that it did not run when there is none."""
        record = await self._ledger.find(call.id)
        if record is None or isinstance(record.result, UnsetType):
            return render_result(call, _NEVER_RAN, render_envelope(_NEVER_RAN), "")
        return render_result(call, record.result, render_envelope(record.result), _stored_source(record, conversation))

    def _end(self, emit: Emit, reason: EndReason, text: str = "", fault: TurnFault | UnsetType = UNSET) -> Ended:
        ended = Ended(reason, text, fault)
        emit(ended)
        return ended


_Running: TypeAlias = asyncio.Task[CallResult | Pending]


async def _run_after(earlier: list[_Running], run: Coroutine[Any, Any, CallResult | Pending]) -> CallResult | Pending:
    """Run a call after earlier calls of its group. While an earlier call waits for its outcome, return `Pending`."""
    try:
        await asyncio.wait(earlier)
        if any(type(task.result()) is Pending for task in earlier):
            return Pending()
        return await run
    finally:
        run.close()


_GIVEN_UP = Failure("cancelled", "Its client went on without answering this call: it may or may not have run.")
_NEVER_RAN = Failure("interrupted", "The turn was ended before this call was handed out: it did not run.")


def _is_for_page(record: CallRecord) -> bool:
    """Whether a page runs this call."""
    return record.tool.answered_by == "request"


def _asking_model(message: Message | None) -> AskingModel | None:
    """Return which model asks for the calls of this reply, and why it answered in place of another one."""
    if not isinstance(message, AssistantMessage) or not message.model:
        return None
    by = message.substitution
    return AskingModel(message.model) if isinstance(by, UnsetType) else AskingModel(message.model, by.of, by.reason)


def _is_answer(message: Message | None) -> bool:
    """Whether this message ends a turn: a reply of the model without calls."""
    return isinstance(message, AssistantMessage) and not message.calls


def _finish(call: CallPart, result: ToolResult, took: float, source: str, emit: Emit) -> CallResult:
    """Publish the result of a call, and return it in the form for the model."""
    status = result.code if isinstance(result, Failure) else "success"
    envelope = render_envelope(result)
    emit(CallFinished(call.id, call.name, status, took, envelope=envelope))
    return render_result(call, result, envelope, source)


def _signed(reply: AssistantMessage, conversation: Conversation) -> AssistantMessage:
    """Return the reply with the name of its agent: a session may go on with another one."""
    name = conversation.agent.name
    return reply if name == GENERAL.name else structs.replace(reply, agent=name)


def _emit_rest(replied: AssistantMessage, pieces: list[str], emit: Emit) -> None:
    """Publish the text of a reply that came only with its end: some servers send no pieces before."""
    count = 0
    for part in replied.parts:  # every round comes here: to join the texts first would take longer
        if isinstance(part, Text):
            count += len(part.text)
    if count and count > sum(map(len, pieces)) and replied.text.startswith(arrived := "".join(pieces)):
        emit(TextArrived(replied.text[len(arrived) :]))


def _emit_switched(event: Substituted, emit: Emit) -> str:
    """Publish that another model answers, if listeners do not know it, and return the name of that model."""
    by = event.substitution
    if event.is_new:
        emit(ModelSwitched(by.by, by.of, by.reason))
    return by.by


def _emit_model_event(event: object, emit: Emit) -> None:
    """Publish an event of the model as an event of the turn."""
    if isinstance(event, ThinkingDelta):
        emit(ThinkingArrived(event.text))
    elif isinstance(event, CallDelta):
        emit(CallArrived(event.index, event.name, event.arguments))
    elif isinstance(event, Retrying):
        emit(RetryComing(event.reason, event.seconds))
    elif isinstance(event, NearlySpent):
        emit(BudgetLow(event.text))


def _stored_source(record: CallRecord, conversation: Conversation) -> str:
    return stored_source(record, conversation.box.find(record.name))
