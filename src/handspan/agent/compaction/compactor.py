"""Makes room for the next request of a conversation, or does so when a person asks for it (SPEC L1, L2).

What is done is stored as marks, step by step: a process that ends in the middle loses the step that ran, and the next
one plans anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import UNSET, Struct, structs

from handspan.agent.compaction.meter import DEFAULT_WINDOW, ContextMeter, Window
from handspan.agent.compaction.planner import PlanLimits, plan, start_of_last_turn, visible_size
from handspan.agent.compaction.summary import INSTRUCTIONS, SummaryFailed, SummaryRequest
from handspan.agent.conversation import Conversation, ReplyCosts
from handspan.config.settings import ContextSettings, Settings
from handspan.core.errors import ConfigError
from handspan.core.events import Compacted, Event, RequestQueued, RetryComing, UsageCounted
from handspan.core.messages import AssistantMessage, ResultsMessage, Text, UserMessage
from handspan.core.records import ContextMarks
from handspan.core.store import Store
from handspan.core.tool import ToolSpec
from handspan.models.chain import api_of
from handspan.models.choice import Choice
from handspan.models.estimate import characters_of, count_words, limit_in
from handspan.models.model import Model, ModelError, Queued, Replied, Retrying

Emit = Callable[[Event], None]
ChooseSummarizer = Callable[[str], Awaitable[Choice]]

_TARGET: Final = 0.5
"""The part of a model's context that is used after the marks have moved."""
_OF_REQUEST: Final = 0.7
"""The part of a model's context that a request for a summary uses."""
_LEAST_SUMMARY, _MOST_SUMMARY = 300, 4000
"""Tokens of a summary."""
_TRIES: Final = 3
"""So often a request for a summary is made shorter, when its model finds it too long."""
_TOO_LARGE: Final = 413
"""The status of a request with too many bytes, which says nothing about tokens."""
_LITTLE: Final = 0.05
"""A part of the context. A person who asks for a summary of less gets none."""

_log = logging.getLogger(__name__)


class ContextParts(Struct, frozen=True):
    """What a model's context is used for: about so many tokens (SPEC L3)."""

    instructions: int
    tools: int
    summary: int
    history: int
    results: int
    used: int
    limit: int | None


class _Summarizer(Struct, frozen=True):
    """Who writes a summary."""

    model: Model
    costs: ReplyCosts
    window: int


class Compactor:
    """Makes conversations shorter for their models, and learns what models can read."""

    def __init__(self, store: Store, settings: Callable[[], Settings], choose_model: ChooseSummarizer) -> None:
        """`settings` returns those of now."""
        self._contexts = store.contexts
        self._store = store
        self._settings = settings
        self._choose_model = choose_model
        self._windows: dict[str, int] | None = None
        """What was learned from refusals, by the names of models."""

    async def make_meter(self, choice: Choice) -> ContextMeter:
        """Return a meter for a conversation with this model."""
        if self._windows is None:
            self._windows = dict(await self._contexts.windows())
        api = api_of(choice.model.projection())
        known = [tokens for tokens in (choice.known_context, self._windows.get(choice.model.name)) if tokens]
        if choice.context or known:
            return ContextMeter(api, Window(choice.context or min(known)))
        return ContextMeter(api, Window(DEFAULT_WINDOW if api else None, is_certain=False))

    async def fit(self, conversation: Conversation, specs: Sequence[ToolSpec], emit: Emit) -> Sequence[ToolSpec]:
        """Return the tools for the next request, for which there is room when this returns.

        Raises `ModelError` (`too_long`) when no room can be made.
        """
        window, context = conversation.meter.window.tokens, self._settings().context
        if window is None or not context.at or _measure(conversation, specs) <= window * context.at:
            return specs
        specs, too_much = await self._make_room(conversation, specs, context, emit)
        if too_much and conversation.meter.window.is_certain and _measure(conversation, specs) > window:
            raise ModelError("too_long", _no_room(conversation, window))
        return specs

    async def after_refusal(
        self, conversation: Conversation, specs: Sequence[ToolSpec], error: ModelError, emit: Emit
    ) -> Sequence[ToolSpec] | None:
        """Learn from a model that found the conversation too long. Return the tools for another try; None for none."""
        context, meter = self._settings().context, conversation.meter
        if not context.at:
            return None
        used, stated = _measure(conversation, specs), limit_in(str(error))
        tokens = stated or int(used * 0.9)
        if meter.window.is_certain and meter.window.tokens:
            tokens = min(tokens, meter.window.tokens)
        meter.refuse(tokens)
        if error.status != _TOO_LARGE and self._windows is not None:
            model = error.model or conversation.model.name
            self._windows[model] = tokens
            await self._contexts.learn_window(model, tokens)
            _log.info("the model %s can read %d tokens, as it says", model, tokens)
        before = conversation.marks
        shorter, _ = await self._make_room(conversation, specs, context, emit)
        return None if conversation.marks == before and shorter is specs else shorter

    async def compact(self, conversation: Conversation, keep: str, emit: Emit) -> Compacted:
        """Summarise all before the last turn, because a person asks for it. `keep`: what must be in the summary."""
        specs, meter = conversation.specs_for_model(), conversation.meter
        before, old = _measure(conversation, specs), conversation.marks
        window = meter.window.tokens or max(before, DEFAULT_WINDOW)
        limits = structs.replace(await self._limits(conversation, window, 1.0), target=0)
        note, _ = await self._move(conversation, limits, emit, keep=keep, moves=True)
        if conversation.marks == old and not note:
            note = "All that could become shorter is short already: the last turn always stays as it is."
        return self._tell(conversation, specs, before, note, emit=emit)

    def describe(self, conversation: Conversation) -> ContextParts:
        """Return what the context is used for."""
        meter, marks, specs = conversation.meter, conversation.marks, conversation.specs_for_model()
        used, count = _measure(conversation, specs), len(conversation.messages)
        instructions = count_words(conversation.instructions)
        summary = count_words(marks.summary) if marks.summarized else 0
        results = sum(
            meter.sizes.of(place)[place < marks.short]
            for place in range(marks.summarized, count)
            if isinstance(conversation.messages[place], ResultsMessage)
        )
        history = visible_size(meter.sizes, marks, count) - summary - results
        tools = meter.overhead - instructions
        share = used / max(instructions + tools + summary + history + results, 1)
        return ContextParts(
            round(instructions * share),
            round(tools * share),
            round(summary * share),
            round(max(history, 0) * share),
            results=round(results * share),
            used=used,
            limit=meter.window.tokens,
        )

    async def _make_room(
        self, conversation: Conversation, specs: Sequence[ToolSpec], context: ContextSettings, emit: Emit
    ) -> tuple[Sequence[ToolSpec], int]:
        """Make the tools fewer if they alone take too much, then the messages shorter.

        Return the tools, and how many tokens too many there still are.
        """
        meter, before, old = conversation.meter, _measure(conversation, specs), conversation.marks
        old_size = visible_size(meter.sizes, old, len(conversation.messages))
        assert meter.window.tokens is not None
        if meter.window.is_certain:
            specs = _narrow_tools(conversation, specs)
            if excess := _excess_of_last(conversation):  # nothing that is done helps
                return specs, excess
        limits = await self._limits(conversation, meter.window.tokens, context.at)
        note, too_much = await self._move(conversation, limits, emit)
        size = visible_size(meter.sizes, conversation.marks, len(conversation.messages))
        if conversation.marks != old and (note or size < old_size):
            self._tell(conversation, specs, before, note, emit=emit)
        return specs, too_much

    async def _limits(self, conversation: Conversation, window: int, at: float) -> PlanLimits:
        """Return the limits of a plan, in tokens without the factor of the meter."""
        meter, settings = conversation.meter, self._settings()
        most = max(int(window * at / meter.factor) - meter.overhead, 1)
        target = max(int(window * _TARGET / meter.factor) - meter.overhead, most // 2)
        has_failed = meter.failed_turn == start_of_last_turn(conversation.messages) > 0
        if settings.context.summary == "off" or has_failed:
            return PlanLimits(most, target)
        summary = min(max(window // 10, _LEAST_SUMMARY), _MOST_SUMMARY, max(target // 2, _LEAST_SUMMARY))
        return PlanLimits(most, target, summary, request=max(int(window * _OF_REQUEST / meter.factor), 2 * summary))

    async def _move(
        self, conversation: Conversation, limits: PlanLimits, emit: Emit, *, keep: str = "", moves: bool = False
    ) -> tuple[str, int]:
        """Move the marks as planned. Return why there is no summary, if one was needed; and what is still too much."""
        sizes, note = conversation.meter.sizes, ""
        while True:
            planned = plan(conversation.messages, sizes, conversation.marks, limits, moves=moves)
            moves = True
            if not planned.summarize:
                break
            try:
                summary = await self._summarize(conversation, planned.summarize, limits, keep, emit=emit)
            except (SummaryFailed, ModelError, ConfigError) as error:
                other = (
                    "" if self._settings().summary.model else " Another model can write it: name it in summary.model."
                )
                note, limits = f"There is no new summary. {error}{other}", structs.replace(limits, summary=0)
                conversation.meter.note_failure(start_of_last_turn(conversation.messages), note)
                _log.warning("no summary of the session %s: %s", conversation.id, error)
                continue
            old, count = conversation.marks, len(conversation.messages)
            short = max(old.short, planned.summarize)
            await self._use(conversation, ContextMarks(short, planned.summarize, summary, made=count))
        if planned.marks != conversation.marks:
            await self._use(conversation, planned.marks)
        return note, planned.too_much

    async def _use(self, conversation: Conversation, marks: ContextMarks) -> None:
        await self._contexts.set_marks(conversation.id, marks, owner=conversation.owner)
        conversation.use_marks(marks, conversation.compacted + 1)

    async def _summarize(
        self, conversation: Conversation, last: int, limits: PlanLimits, keep: str, *, emit: Emit
    ) -> str:
        """Return a summary of the messages up to `last`, made of the one so far and of those after it."""
        marks, owner = conversation.marks, conversation.owner
        open_calls = await self._store.ledger.open_calls(owner=owner, session=conversation.id)
        asked = await self._store.questions.open_for(owner=owner, session=conversation.id)
        request = SummaryRequest(
            conversation.messages[marks.summarized : last],
            marks.summary,
            list(dict.fromkeys([*(call.id for call in open_calls), *(question.id for question in asked)])),
            keep=keep,
            words=limits.summary * 3 // 5,
        )
        summarizer = await self._find_summarizer(conversation)
        room = min(limits.request, int(summarizer.window * _OF_REQUEST / conversation.meter.factor))
        for attempt in range(_TRIES):
            text = await asyncio.to_thread(request.render, characters_of(room >> attempt))
            try:
                reply = await self._ask(conversation, summarizer, text, emit)
            except ModelError as error:
                if error.fault != "too_long" or attempt + 1 == _TRIES:
                    raise
            else:
                return await asyncio.to_thread(request.check, reply.text, 2 * characters_of(limits.summary))
        raise AssertionError("the last try has returned or raised")

    async def _find_summarizer(self, conversation: Conversation) -> _Summarizer:
        named = self._settings().summary.model
        own = conversation.meter.window.tokens or DEFAULT_WINDOW
        if not named:
            return _Summarizer(conversation.own_model, conversation.costs, own)
        choice = await self._choose_model(named)
        window = (await self.make_meter(choice)).window.tokens or own
        return _Summarizer(choice.model, ReplyCosts(choice.price_for), window)

    async def _ask(
        self, conversation: Conversation, summarizer: _Summarizer, text: str, emit: Emit
    ) -> AssistantMessage:
        """Return the model's reply, whose cost is counted. No tool is offered."""
        model = summarizer.model
        projection = model.projection(INSTRUCTIONS)
        projection.append(UserMessage((Text(text),)))
        reply: AssistantMessage | None = None
        async for event in model.reply(projection, ()):
            match event:
                case Replied(message=message):
                    reply = message
                case Retrying(reason=reason, seconds=seconds):
                    emit(RetryComing(reason, seconds))
                case Queued(running=running, reason=reason):
                    emit(RequestQueued(model.name, running, reason or UNSET))
        if reply is None:
            raise ModelError("cut", "The summary broke off before its end.")
        dollars = summarizer.costs.of(reply)
        await self._contexts.count_summary(conversation.id, reply, dollars, owner=conversation.owner)
        if reply.usage is not None:
            emit(UsageCounted(reply.model, reply.usage, cost=UNSET if dollars is None else dollars))
        return reply

    def _tell(
        self, conversation: Conversation, specs: Sequence[ToolSpec], before: int, note: str, *, emit: Emit
    ) -> Compacted:
        marks, after = conversation.marks, _measure(conversation, specs)
        event = Compacted(before, after, marks.short, marks.summarized, summary=marks.summary, note=note)
        emit(event)
        return event


def _measure(conversation: Conversation, specs: Sequence[ToolSpec]) -> int:
    instructions = conversation.instructions
    return conversation.meter.measure(conversation.messages, conversation.marks, instructions, specs)


def _narrow_tools(conversation: Conversation, specs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """Send fewer tools, as a smaller `tools.shown` would, if they leave less than half of the context."""
    meter, shown = conversation.meter, len(specs) and (conversation.shown_tools or len(specs))
    assert meter.window.tokens is not None
    while shown > 1 and meter.overhead * meter.factor > meter.window.tokens * _TARGET:
        shown //= 2
        conversation.send_fewer_tools(shown)
        specs = conversation.specs_for_model()
        _measure(conversation, specs)
    return specs


def _excess_of_last(conversation: Conversation) -> int:
    """Return how many tokens too many the person's last message has, with instructions and tools alone; 0: it fits."""
    meter, messages = conversation.meter, conversation.messages
    assert meter.window.tokens is not None
    place = next((place for place in range(len(messages) - 1, -1, -1) if type(messages[place]) is UserMessage), 0)
    alone = (meter.overhead + meter.sizes.of(place)[0]) * meter.factor if messages else 0
    return max(0, int(alone) - meter.window.tokens)


def _no_room(conversation: Conversation, window: int) -> str:
    """Return why the next request can't fit, and what a person can do."""
    meter, model = conversation.meter, conversation.model.name
    setting = f"models.{model}.context"
    if meter.overhead * meter.factor > window * _TARGET:
        return (
            f"Instructions and tools alone have about {int(meter.overhead * meter.factor):,} tokens, and {model!r} can "
            f"read {window:,} ({setting}). Allow the agent fewer tools (agents.NAME.tools, or tools.shown), shorten "
            "its instructions, or choose another model."
        )
    is_older = conversation.marks.summarized < start_of_last_turn(conversation.messages)
    if is_older and not _excess_of_last(conversation):
        why = meter.failure or "Summaries are switched off (context.summary)."
        return (
            f"The conversation is too long for {model!r}, which can read {window:,} tokens ({setting}). {why} Try "
            "again, choose another model, or begin a new session."
        )
    return (
        f"The last message alone is too long for {model!r}, which can read {window:,} tokens ({setting}). Send less at "
        "once, or as a file that the agent can read in parts, or choose another model. /undo takes the message back."
    )
