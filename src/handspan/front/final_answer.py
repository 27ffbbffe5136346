"""Typed answers: the model gives the answer by a last tool call, and the turn ends there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from handspan.agent.conversation import Conversation
from handspan.agent.final_answer import FINAL_ANSWER, strip_fence
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.principals import Origin, ToolScope
from handspan.core.values import Arguments
from handspan.front.answer_types import AnswerType
from handspan.registry.registry import Registry

T = TypeVar("T")


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
                self._values.append(self._type.from_json(strip_fence(text).encode()))
        return self._values

    @contextmanager
    def add_for_turn(self, registry: Registry, conversation: Conversation) -> Iterator[None]:
        """Open a block in which a conversation has this tool, for one turn."""
        origin = Origin("plugin", FINAL_ANSWER, conversation.id)
        registry.register(self, origin, ToolScope("turn", conversation.id))
        try:
            yield
        finally:
            registry.unregister_by_source(origin)
