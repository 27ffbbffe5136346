"""Typed answers: the model gives the answer by a last tool call, and the turn ends there."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Generic, TypeVar

from handspan.agent.conversation import Conversation
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, Text, UserMessage
from handspan.core.principals import Origin, ToolScope
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from handspan.front.answer_types import FINAL_ANSWER, AnswerType
from handspan.models.model import Model, ModelEvent, Projection, Replied, TextDelta
from handspan.registry.registry import Registry

T = TypeVar("T")

MAX_TRIES: Final = 3
"""How many answers the model may try."""


class FinalAnswer(Generic[T]):
    """The tool that the model calls to give its answer. It exists for the turns of one `ask`."""

    def __init__(self, answer_type: AnswerType[T]) -> None:
        self._type = answer_type
        self._values: list[T] = []
        self.spec = answer_type.spec
        self.handling = answer_type.handling

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """Store the answer. Raises `ToolError`, which the model reads, when it does not fit the type."""
        self._values.append(self._type.from_arguments(arguments))
        return "The answer was taken."

    def find(self, text: str) -> Sequence[T]:
        """Return the answers of the turn that ended with this text, the last one counts; none when no answer fits.

        Some models write the JSON of the answer instead of calling the tool. That counts too. `None` can be an answer.
        """
        if not self._values:
            with suppress(ToolError):
                self._values.append(self._type.from_json(_strip_fence(text).encode()))
        return self._values

    def add_for_turn(self, registry: Registry) -> Callable[[Conversation], AbstractContextManager[None]]:
        """Return a function that gives a conversation this tool for one turn."""

        @contextmanager
        def register_for_turn(conversation: Conversation) -> Iterator[None]:
            origin = Origin("plugin", FINAL_ANSWER, conversation.id)
            registry.register(self, origin, ToolScope("turn", conversation.id))
            try:
                yield
            finally:
                registry.unregister_by_source(origin)

        return register_for_turn


class WatchedProjection:
    """The projection of another model, which also watches for an accepted final answer."""

    def __init__(self, inner: Projection) -> None:
        self.inner = inner
        self._calls: tuple[CallPart, ...] = ()
        self._refusals = 0
        self.last_text: str | None = None
        """The text that ends the turn without another request; None: the model has to reply."""

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it can't follow the last one."""
        self.inner.append(message)
        self.last_text = None
        match message:
            case UserMessage():
                self._refusals = 0
            case AssistantMessage():
                self._calls = message.calls
            case ResultsMessage():
                self._read_results(message)

    def _read_results(self, message: ResultsMessage) -> None:
        for call, result in zip(self._calls, message.results, strict=True):
            if call.name == FINAL_ANSWER and not result.is_error:
                self.last_text = call.arguments
                return
            self._refusals += call.name == FINAL_ANSWER
        if self._refusals >= MAX_TRIES:
            self.last_text = "I could not give an answer of this form."

    def __len__(self) -> int:
        return len(self.inner)


class ModelWithFinalAnswer:
    """The same model. A turn whose final answer was accepted ends without another request to it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def projection(self, instructions: str = "") -> WatchedProjection:
        """Return an empty conversation in this model's format."""
        return WatchedProjection(self._model.projection(instructions))

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Return what the model replies, or the text that is known already."""
        assert isinstance(projection, WatchedProjection), "a projection belongs to the model that made it"
        if projection.last_text is not None:
            return _reply_with(projection.last_text, self.name)
        return self._model.reply(projection.inner, specs, artifacts)


async def _reply_with(text: str, model: str) -> AsyncIterator[ModelEvent]:
    yield TextDelta(text)
    yield Replied(AssistantMessage((Text(text),), "end", model))


def _strip_fence(text: str) -> str:
    """Return the text without the fence of three backticks around it."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return stripped
    return stripped.removeprefix("```").removeprefix("json").removesuffix("```").strip()
