"""A typed answer: the model gives it by a last tool call, and the turn ends there."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, TypeVar

from handspan.agent.conversation import Conversation
from handspan.core.artifacts import Artifacts
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, Text, UserMessage
from handspan.core.principals import Origin, Scope
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from handspan.front.answer_types import FINAL_ANSWER, AnswerType
from handspan.models.model import Model, ModelEvent, Projection, Replied, TextDelta
from handspan.registry.registry import Registry

T = TypeVar("T")

MOST_TRIES: Final = 3
"""So often the model may give an answer that does not fit."""


class FinalAnswer(Generic[T]):
    """The tool that a model gives its answer with. It is there for the turns of one `ask`."""

    def __init__(self, answer_type: AnswerType[T]) -> None:
        self._type = answer_type
        self._values: list[T] = []
        self.spec = answer_type.spec
        self.handling = answer_type.handling

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """Take the answer. Raises `ToolError`, which the model reads, when it does not fit."""
        self._values.append(self._type.from_arguments(arguments))
        return "The answer was taken."

    def find(self, text: str) -> T | None:
        """The answer of the turn that ended with this text; None when it has none that fits.

        Some models write the JSON of the answer instead of calling the tool: that counts too.
        """
        if not self._values:
            try:
                self._values.append(self._type.from_json(_without_fence(text).encode()))
            except ToolError:
                return None
        return self._values[-1]

    def equip(self, registry: Registry) -> Callable[[Conversation], AbstractContextManager[None]]:
        """What gives a conversation this tool for one turn."""

        @contextmanager
        def lend(conversation: Conversation) -> Iterator[None]:
            origin = Origin("plugin", FINAL_ANSWER, conversation.id)
            registry.register(self, origin, Scope("turn", conversation.id))
            try:
                yield
            finally:
                registry.unregister_by_source(origin)

        return lend


class WatchedProjection:
    """The projection of another model, which also knows how the last final answer was taken."""

    def __init__(self, inner: Projection) -> None:
        self.inner = inner
        self._calls: tuple[CallPart, ...] = ()
        self._refusals = 0
        self.last_words: str | None = None
        """What the turn ends with without asking the model; None: the model has to speak."""

    def append(self, message: Message) -> None:
        """Add a message; `UnpairedCalls` when it must not stand there."""
        self.inner.append(message)
        self.last_words = None
        match message:
            case UserMessage():
                self._refusals = 0
            case AssistantMessage():
                self._calls = message.calls
            case ResultsMessage():
                self._note_results(message)

    def _note_results(self, message: ResultsMessage) -> None:
        for call, result in zip(self._calls, message.results, strict=True):
            if call.name == FINAL_ANSWER and not result.is_error:
                self.last_words = call.arguments
                return
            self._refusals += call.name == FINAL_ANSWER
        if self._refusals >= MOST_TRIES:
            self.last_words = "I could not give an answer of this form."

    def __len__(self) -> int:
        return len(self.inner)


class ModelWithFinalAnswer:
    """The same model; a turn whose final answer was taken ends without another request to it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def projection(self, instructions: str = "") -> WatchedProjection:
        """An empty conversation in this model's words."""
        return WatchedProjection(self._model.projection(instructions))

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: Artifacts | None = None
    ) -> AsyncIterator[ModelEvent]:
        """What the model says, or the last words that are known already."""
        assert isinstance(projection, WatchedProjection), "a projection belongs to the model that made it"
        if projection.last_words is not None:
            return _say(projection.last_words, self.name)
        return self._model.reply(projection.inner, specs, artifacts)


async def _say(text: str, model: str) -> AsyncIterator[ModelEvent]:
    yield TextDelta(text)
    yield Replied(AssistantMessage((Text(text),), "end", model))


def _without_fence(text: str) -> str:
    """The JSON of a text that stands between three backticks."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return stripped
    return stripped.removeprefix("```").removeprefix("json").removesuffix("```").strip()
