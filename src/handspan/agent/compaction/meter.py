"""How full the context of a model is: its API's last count, and an estimate of what came since (SPEC L1, L3)."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from handspan.agent.compaction.planner import visible_size
from handspan.agent.compaction.sizes import MessageSizes
from handspan.core.messages import Api, AssistantMessage, Message
from handspan.core.records import ContextMarks
from handspan.core.tool import ToolSpec
from handspan.models.estimate import count_json, count_words

DEFAULT_WINDOW: Final = 32_000
"""Tokens that a model can read of which nothing is known."""
_FIRST_FACTOR: Final = 1.15
"""An estimate is taken as too small by so much, until the API has counted."""
_LEAST_FACTOR: Final = 0.7
_MOST_FACTOR: Final = 4.0
_CREDIBLE: Final = 0.4
"""A count below this part of the estimate is none of the whole: some servers leave out what they had in a cache."""


class Window(Struct, frozen=True):
    """How many tokens a model can read."""

    tokens: int | None
    """None: no limit, as for a model without an API."""
    is_certain: bool = True
    """Whether a setting, the data of known models or a refusal says so."""


class _Count(Struct, frozen=True):
    """What an API has counted."""

    messages: int
    """So many messages, with the reply."""
    tokens: int
    overhead: int
    """The estimate for instructions and tools at that time."""


class ContextMeter:
    """Measures one conversation for one model."""

    def __init__(self, api: Api | None, window: Window) -> None:
        self.sizes = MessageSizes(api)
        self.window = window
        self.factor = _FIRST_FACTOR
        """What an estimate is multiplied by, as learned from the API's counts."""
        self._count: _Count | None = None
        self._marks: ContextMarks | None = None
        """The marks of the request that was measured last; None: none was measured."""
        self.used = 0
        """About how many tokens the last request had, with its reply; 0: not known."""
        self._specs: Sequence[ToolSpec] = ()
        self._instructions = ""
        self.failed_turn = 0
        """Where the last turn began when a summary failed: no other is tried in that turn."""
        self.failure = ""
        """Why it failed."""
        self.overhead = 0
        """The estimate for instructions and tools, without the factor."""

    def measure(
        self, messages: Sequence[Message], marks: ContextMarks, instructions: str, specs: Sequence[ToolSpec]
    ) -> int:
        """Return about how many tokens a request with these messages has."""
        sizes = self.sizes
        length = sizes.follow(messages)
        if specs is not self._specs or instructions != self._instructions:
            self._weigh(instructions, specs)
        if self._marks is None:
            self._look_back(messages, marks)
        self._marks, count = marks, self._count
        if count is None:
            self.used = int((self.overhead + visible_size(sizes, marks, length)) * self.factor)
        else:
            since = sizes.whole[length] - sizes.whole[count.messages] + self.overhead - count.overhead
            self.used = count.tokens + int(since * self.factor)
        return self.used

    def note(self, message: Message, length: int) -> None:
        """Note a message that was added, the last of so many: a reply says what its request had."""
        if type(message) is not AssistantMessage or message.usage is None or self._marks is None:
            return
        read, written = message.usage.input, message.usage.output
        asked = self.overhead + visible_size(self.sizes, self._marks, length - 1)
        if read is None or written is None or read < asked * _CREDIBLE:
            return
        self.factor = min(max(read / max(asked, 1), _LEAST_FACTOR), _MOST_FACTOR)
        self.used = read + written
        self._count = _Count(length, self.used, self.overhead)

    def renewed(self) -> "ContextMeter":
        """Return a meter for other messages of the same conversation."""
        other = ContextMeter(self.sizes.api, self.window)
        other.factor = self.factor
        return other

    def forget_count(self) -> None:
        """Estimate anew: the messages that the model sees are others."""
        self._count = None

    def note_failure(self, turn: int, why: str) -> None:
        """Note that a summary failed in the last turn, which begins there."""
        self.failed_turn, self.failure = turn, why

    def refuse(self, tokens: int) -> None:
        """Note that the last request had more than so many tokens, which are all that the model can read."""
        self.window = Window(tokens)
        asked, self._count = self.used / self.factor, None
        self.factor = min(max(self.factor, 1.1 * tokens / max(asked, 1)), _MOST_FACTOR)

    def _look_back(self, messages: Sequence[Message], marks: ContextMarks) -> None:
        """Use the count of the last reply, if it saw the messages as these marks show them."""
        for length in range(len(messages), max(marks.made, marks.short, len(messages) - 3), -1):
            message = messages[length - 1]
            if type(message) is AssistantMessage:
                self._marks = marks
                self.note(message, length)
                return

    def _weigh(self, instructions: str, specs: Sequence[ToolSpec]) -> None:
        tools = sum(
            count_words(spec.description) + count_json(msgspec.json.encode(spec.parameters).decode()) + 12
            for spec in specs
        )
        self._specs, self._instructions, self.overhead = specs, instructions, tools + count_words(instructions)
