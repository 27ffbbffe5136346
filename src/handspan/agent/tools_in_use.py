"""Which tools a conversation has called or found, and the order in which its model is sent tools (SPEC R4).

Both follow from the messages alone, so another process that goes on with the session comes to the same tools.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage
from handspan.core.tool import SEARCH_TOOLS, ToolSpec
from handspan.registry.toolbox import Toolbox


class ToolsInUse:
    """The names that the model called, and those that `search_tools` found for it."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._last_use: dict[str, int] = {}
        """Each name with the time of its last use (`_clock`), in the order of the first use."""
        self._clock = 0
        """Counts uses."""
        self._places: dict[str, int] = {}
        """The place of each tool that was sent. A tool that comes back gets its place back."""
        self._chosen: tuple[ToolSpec, ...] = ()
        """The tools that were chosen last, in the order of the toolbox."""
        self._sent: tuple[ToolSpec, ...] = ()
        """The same tools, in the order in which the model gets them."""
        for message in messages:
            self.note(message)

    def note(self, message: Message) -> None:
        """Note the tools that this message calls or finds."""
        if isinstance(message, AssistantMessage):
            for part in message.parts:
                if isinstance(part, CallPart):
                    self._use(part.name)
        elif isinstance(message, ResultsMessage):
            for result in message.results:
                if result.name == SEARCH_TOOLS:
                    for name in _found_names(result):
                        self._use(name)

    def choose_specs(self, box: Toolbox, whole: Toolbox) -> tuple[ToolSpec, ...]:
        """Return the tools for the next request. Tools sent before keep their order, so that prompt caches hold.

        `whole` is the toolbox without the skills of the turn. Its order counts, because it is the same in every
        process, also in a process that goes on with a turn in which a skill is on.
        """
        chosen = box.specs_for_model(self._last_use)
        if chosen is not self._chosen:
            for spec in (*whole.specs_for_model(self._last_use), *chosen):
                self._places.setdefault(spec.name, len(self._places))
            ordered = tuple(sorted(chosen, key=lambda spec: self._places[spec.name]))
            self._chosen, self._sent = chosen, chosen if ordered == chosen else ordered
        return self._sent

    def _use(self, name: str) -> None:
        self._clock += 1
        self._last_use[name] = self._clock


class _FoundTool(Struct, frozen=True):
    name: str


class _Found(Struct, frozen=True):
    tools: tuple[_FoundTool, ...]


class _SearchEnvelope(Struct, frozen=True):
    """A result of `search_tools`: only the part that is read."""

    result: _Found


def _found_names(result: CallResult) -> list[str]:
    """Return the names that `search_tools` found, the best one last: it counts as used last."""
    if result.is_error:
        return []
    try:
        envelope = msgspec.json.decode(result.envelope, type=_SearchEnvelope)
    except msgspec.DecodeError:  # the envelope was cut, or a hook has replaced it
        return []
    return [tool.name for tool in reversed(envelope.result.tools)]
