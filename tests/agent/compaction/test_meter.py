"""What a measurement of a conversation costs: tools and instructions are not weighed in each round."""

from collections.abc import Iterator, Sequence
from typing import overload

from handspan.agent.compaction.meter import ContextMeter, Window
from handspan.core.messages import Text, UserMessage
from handspan.core.records import ContextMarks
from handspan.core.tool import ToolSpec

SPEC = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


class CountedTools(Sequence[ToolSpec]):
    """Tools that count how often they are read."""

    def __init__(self, *specs: ToolSpec) -> None:
        self._specs = specs
        self.times = 0

    def __iter__(self) -> Iterator[ToolSpec]:
        self.times += 1
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    @overload
    def __getitem__(self, place: int) -> ToolSpec: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ToolSpec]: ...
    def __getitem__(self, place: int | slice) -> ToolSpec | Sequence[ToolSpec]:
        return self._specs[place]


def test_tools_and_instructions_are_weighed_again_only_when_they_have_changed() -> None:
    meter, tools, messages = (
        ContextMeter("openai-chat", Window(1000)),
        CountedTools(SPEC),
        [UserMessage((Text("Hi."),))],
    )

    def measure(*instructions: str) -> int:
        """As a turn does whose client has added instructions: it joins them for each request."""
        return meter.measure(messages, ContextMarks(), "\n\n".join(instructions), tools)

    first = measure("Be brief.", "Say please.")
    assert measure("Be brief.", "Say please.") == first
    assert tools.times == 1
    assert measure("Be brief.", "Say please, and thank you for everything that you get.") > first
    assert tools.times == 2
