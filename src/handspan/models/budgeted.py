"""A model whose requests are paid from a budget: each reserves what it may cost before it is sent (SPEC L5).

It wraps one model and knows nothing of turns: for whom a model is asked is in `paying` of `core/budgets.py`. So every
request counts, whatever sends it.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from handspan.config.settings import ModelPrice
from handspan.core.budgets import CostEstimate, LimitState, NoRoom, Reservation, to_nano
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Text, Thinking, Usage
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import (
    CallDelta,
    Model,
    ModelError,
    ModelEvent,
    NearlySpent,
    Projection,
    Queued,
    Replied,
    TextDelta,
    ThinkingDelta,
)
from handspan.models.prices import FREE, cost, price_of
from handspan.models.projection import EncodedProjection
from handspan.models.schema.lowering import estimate_tokens
from handspan.models.wishes import NO_WISHES, ReplyWishes, with_wishes

_BYTES_OF_TOKEN: Final = 3
"""Few, so that estimates are rather too high."""
_TOKENS_OF_IMAGE: Final = 2500
"""At least as many as any API counts for an image of the size that we send."""
_WAITS: Final = "The rest of the budget is reserved by requests that run: this one waits until one of them ends."
_MILLION: Final = 1_000_000
_MOST_OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")


class Budget(Protocol):
    """Where requests reserve what they may cost."""

    @property
    def limits_now(self) -> bool:
        """Whether any limit holds for the requests of this context."""
        ...

    @property
    def running(self) -> int:
        """How many requests of this process have reserved money and run."""
        ...

    async def reserve_now(self, estimate: CostEstimate) -> Reservation | NoRoom:
        """Reserve what a request may cost, if it fits now. Raises `ModelError` (`budget_spent`)."""
        ...

    async def reserve(self, estimate: CostEstimate) -> Reservation:
        """Reserve what a request may cost, and wait for it if need be. Raises `ModelError` (`budget_spent`)."""
        ...

    def end(self, reservation: Reservation, nano: int, output: int = 0) -> None:
        """Note what the request did cost. `output`: the tokens of its reply."""
        ...

    def describe(self, state: LimitState) -> str:
        """Return how far this limit is spent, as a sentence."""
        ...


class BudgetedModel:
    """The same model. A request for which no money is left waits, or is refused."""

    def __init__(self, model: Model, budget: Budget, price: ModelPrice, *, model_id: str, options: JsonObject) -> None:
        """`price`: that of the settings. `model_id`: by which the list has it. `options`: of its requests."""
        self._model = model
        self._budget = budget
        self._price = price
        self._id = model_id
        self._most_output = _most_output(options)

    @property
    def name(self) -> str:
        return self._model.name

    def projection(self, instructions: str = "") -> Projection:
        """Return an empty conversation in this model's format."""
        return self._model.projection(instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncGenerator[ModelEvent, None]:
        """Reply as the model does. Raises `ModelError` also where no money is left, and for a model without a price."""
        return self.reply_as_wished(projection, specs, artifacts, NO_WISHES)

    async def reply_as_wished(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None, wishes: ReplyWishes
    ) -> AsyncGenerator[ModelEvent, None]:
        """Reply as `reply` does, as these wishes say."""
        model = with_wishes(self._model, wishes)
        if self._price == FREE or not self._budget.limits_now:
            async for event in model.reply(projection, specs, artifacts):
                yield event
            return
        tokens = estimate_input(projection, specs)
        wished = None if model is self._model else wishes.max_tokens  # the same model: its API has no words for wishes
        estimate = self._estimate(tokens, wished or self._most_output)
        held = await self._budget.reserve_now(estimate)
        if isinstance(held, NoRoom):
            if not held.spent:  # else a person is asked
                yield Queued(self._budget.running, _WAITS)
            held = await self._budget.reserve(estimate)
        for state in held.low:
            yield NearlySpent(self._budget.describe(state))
        written, is_sent = 0, True
        try:
            async for event in model.reply(projection, specs, artifacts):
                if type(event) is Replied:
                    self._settle(held, tokens, event.message)
                    is_sent = False
                written += _written_by(event)
                yield event
        except ModelError:
            is_sent = is_sent and written > 0  # a request that was refused costs nothing
            raise
        finally:
            usage = Usage(tokens, -(-written // _BYTES_OF_TOKEN))
            self._budget.end(held, self._cost(usage, self._id) if is_sent else 0)

    def _settle(self, held: Reservation, tokens: int, message: AssistantMessage) -> None:
        """Note what the reply did cost; what its API did not count is estimated."""
        used = message.usage or Usage()
        length = sum(len(part.text.encode()) for part in message.parts if isinstance(part, Text | Thinking))
        length += sum(len(call.arguments) for call in message.calls)
        counted = Usage(
            tokens if used.input is None else used.input,
            -(-length // _BYTES_OF_TOKEN) if used.output is None else used.output,
            used.cached,
            used.reasoning,
            cache_written=used.cache_written,
        )
        self._budget.end(held, self._cost(counted, message.model), used.output or 0)

    def _estimate(self, tokens: int, output: int | None) -> CostEstimate:
        price = self._price_of(Usage(tokens), self._id)
        dearest = max(price.input or 0.0, price.cache_write or 0.0)
        nano = -(-tokens * to_nano(dearest) // _MILLION)
        return CostEstimate(self._id, nano, to_nano(price.output or 0.0), output)

    def _cost(self, usage: Usage, model: str) -> int:
        dollars = cost(usage, self._price_of(usage, model))
        return 0 if dollars is None else to_nano(dollars)

    def _price_of(self, usage: Usage, model: str) -> ModelPrice:
        """Return the price of a request. Raises `ModelError` (`unpriced`) when a part of it is unknown."""
        price = price_of(model, self._price, usage) or price_of(self._id, self._price, usage)
        if price is None or price.input is None or price.output is None:
            setting = f"models.{self.name}.price"
            raise ModelError(
                "unpriced",
                f"The model {self.name!r} has no price, and there is a budget. Set {setting} (such as "
                f"{{ input = 3, output = 15 }}, dollars for a million tokens; 0 if it is free), or choose another.",
            )
        return price


def estimate_input(projection: Projection, specs: Sequence[ToolSpec]) -> int:
    """Return about how many tokens a request has: rather too many than too few."""
    length, images = 0, 0
    if isinstance(projection, EncodedProjection):
        length, images = projection.size
    elif isinstance(projection, KeptMessages):
        length = len(projection.instructions) + sum(len(str(message)) for message in projection.messages)
    return -(-length // _BYTES_OF_TOKEN) + images * _TOKENS_OF_IMAGE + sum(map(estimate_tokens, specs))


def _written_by(event: ModelEvent) -> int:
    """Return the bytes of an answer that this event has."""
    if type(event) is TextDelta or type(event) is ThinkingDelta:
        return len(event.text.encode(errors="replace"))
    return len(event.arguments.encode(errors="replace")) if type(event) is CallDelta else 0


def _most_output(options: JsonObject) -> int | None:
    """Return the most tokens of a reply, if the options of requests have such a limit."""
    config = options.get("generationConfig")
    found = [options.get(name) for name in _MOST_OUTPUT]
    found += [config.get("maxOutputTokens")] if isinstance(config, dict) else []
    counts = [count for count in found if type(count) is int and count > 0]
    return max(counts) if counts else None
