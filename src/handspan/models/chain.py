"""Several models as one: another one answers while the first can't (SPEC L6).

A model that fails before the first piece of its answer hands the request to the next one, which then answers for the
rest of the turn. A failed model rests, so that later turns do not wait for it in vain. A refused key, a request that
is too long or not allowed, and a bad request are told at once: another model would only hide them.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from handspan.core.images import ImageReader
from handspan.core.messages import Api, AssistantMessage, Message, Substitution, UserMessage, check_next, merge_replies
from handspan.core.tool import ToolSpec
from handspan.models.model import (
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    NearlySpent,
    Projection,
    Queued,
    Replied,
    Retrying,
    Substituted,
)
from handspan.models.projection import EncodedProjection
from handspan.models.wishes import NO_WISHES, ReplyWishes, with_wishes

FIRST_REST: Final = 60.0
"""Seconds that a model rests when it has failed; each further failure in a row doubles them."""
LONGEST_REST: Final = 3600.0
_CAN_NOT_ANSWER: Final[frozenset[ModelFault]] = frozenset(
    {"network", "overloaded", "quota", "unknown_model", "cut", "unreadable"}
)
_NO_REASON: Final = "it could not answer"


class Rest(Struct, frozen=True):
    """The rest of a model that has failed."""

    until: float
    """By the clock of `RestingModels`."""
    failures: int
    """How often it has failed since its last answer."""
    reason: str
    """Its last failure, in words for a person."""


class RestingModels:
    """The models of this process that have failed, by name, and how long each rests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[str, Rest] = {}

    def begin(self, name: str, error: ModelError) -> None:
        """Let a model rest that has failed: a minute, then longer, or as long as its server asks.

        Failures of requests that were under way together count as one.
        """
        before = self._rests.get(name)
        if before is not None and before.until > self._clock():
            self._rests[name] = structs.replace(before, reason=str(error))
            return
        failures = 1 if before is None else before.failures + 1
        seconds = min(FIRST_REST * 2 ** min(failures - 1, 16), LONGEST_REST)
        seconds = max(seconds, min(error.wait or 0.0, LONGEST_REST))
        self._rests[name] = Rest(self._clock() + seconds, failures, str(error))

    def end(self, name: str) -> None:
        """Forget the failures of a model that has answered."""
        self._rests.pop(name, None)

    def seconds_left(self, name: str) -> float:
        """Return how long the model still rests; 0 for one that does not."""
        rest = self._rests.get(name)
        return 0.0 if rest is None else max(0.0, rest.until - self._clock())

    def reason(self, name: str) -> str:
        """Return the last failure of a model; empty if it has answered since."""
        rest = self._rests.get(name)
        return "" if rest is None else rest.reason


class ChainProjection:
    """The conversation for several models: that of each in its own format, made when the model is first asked."""

    def __init__(self, models: Sequence[Model], instructions: str) -> None:
        self._models = models
        self._instructions = instructions
        self._messages: list[Message] = []
        self._made: dict[int, Projection] = {}
        self._turn = ""
        self._substitution: Substitution | None = None

    @property
    def substitution(self) -> Substitution | None:
        """Which model answers for the rest of this turn, if it is not the first."""
        return self._substitution

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it must not follow the last one."""
        last = self._messages[-1] if self._messages else None
        if merge_replies(last, message) is None:  # old versions stored two replies in a row
            check_next(last, message)
        for projection in self._made.values():
            projection.append(message)
        self._messages.append(message)
        if type(message) is UserMessage:
            if not message.turn or message.turn != self._turn:  # else it joined the turn that runs
                self._turn, self._substitution = message.turn, None
        elif type(message) is AssistantMessage:
            self._substitution = message.substitution or None

    def of(self, place: int) -> Projection:
        """Return the conversation in the format of the model at this place of the list."""
        projection = self._made.get(place)
        if projection is None:
            projection = self._made[place] = self._models[place].projection(self._instructions)
            for message in self._messages:
                projection.append(message)
        return projection

    def __len__(self) -> int:
        return len(self._messages)


class ModelChain:
    """The models of a list, as one model: the first of them that can answer does."""

    def __init__(self, models: Sequence[Model], rests: RestingModels) -> None:
        """`rests` is shared by all lists of the process: a model that failed in one rests in all."""
        self._models = tuple(models)
        self._rests = rests

    @property
    def name(self) -> str:
        """The name of the first model."""
        return self._models[0].name

    def projection(self, instructions: str = "") -> ChainProjection:
        """Return an empty conversation for these models."""
        return ChainProjection(self._models, instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send the conversation to the first model that can answer. Yield events, `Replied` last.

        Raises `ModelError` when none can, or when the answer of one broke off.
        """
        return self.reply_as_wished(projection, specs, artifacts, NO_WISHES)

    async def reply_as_wished(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None, wishes: ReplyWishes
    ) -> AsyncGenerator[ModelEvent, None]:
        """Reply as `reply` does, as these wishes say."""
        assert isinstance(projection, ChainProjection), "a projection belongs to the model that made it"
        failed: dict[str, str] = {}
        for place, model in self._in_order(projection.substitution):
            substitution = self._substitution(place, projection.substitution, failed)
            if substitution is not None:
                yield Substituted(substitution, is_new=substitution != projection.substitution)
            is_delivered = False
            try:
                async for event in with_wishes(model, wishes).reply(projection.of(place), specs, artifacts):
                    if type(event) is Replied:
                        self._rests.end(model.name)
                        yield _with_substitution(event, substitution)
                        return
                    is_delivered = is_delivered or type(event) not in (Queued, Retrying, NearlySpent)
                    yield event
                return
            except ModelError as error:
                error.model = model.name
                if error.fault not in _CAN_NOT_ANSWER or is_delivered:
                    raise _with_earlier(error, failed) from None
                self._rests.begin(model.name, error)
                if len(failed) + 1 == len(self._models):
                    raise _with_earlier(error, failed) from None
                failed[model.name] = str(error)

    def _in_order(self, chosen: Substitution | None) -> Iterator[tuple[int, Model]]:
        """Yield the models in the order in which they are asked: those that rest come last, better late than never."""
        current = self.name if chosen is None else chosen.by
        places = range(len(self._models))
        yield from sorted(
            ((place, self._models[place]) for place in places),
            key=lambda one: (self._rests.seconds_left(one[1].name) > 0, one[1].name != current, one[0]),
        )

    def _substitution(self, place: int, before: Substitution | None, failed: dict[str, str]) -> Substitution | None:
        """Return why this model answers, if it is not the first."""
        name = self._models[place].name
        if place == 0:
            return None
        if before is not None and before.by == name:
            return before
        reason = failed.get(self.name) or self._rests.reason(self.name) or (before.reason if before else _NO_REASON)
        return Substitution(name, self.name, reason)


def _with_substitution(replied: Replied, substitution: Substitution | None) -> Replied:
    if substitution is None:
        return replied
    return Replied(structs.replace(replied.message, substitution=substitution))


def _with_earlier(error: ModelError, failed: dict[str, str]) -> ModelError:
    """Return the error with what the models before said, if any was asked."""
    if failed:
        told = " ".join(f"{name!r} had failed before: {reason}" for name, reason in failed.items())
        error.args = (f"{error} {told}",)
    return error


def api_of(projection: Projection) -> Api | None:
    """Return the API in whose format this conversation is; of several models, that of the first. None without one."""
    if isinstance(projection, ChainProjection):
        projection = projection.of(0)
    return projection.api if isinstance(projection, EncodedProjection) else None
