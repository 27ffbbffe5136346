"""What the rounds of a run used, added up for one answer."""

from msgspec import UNSET, UnsetType

from handspan.core.events import UsageCounted
from handspan.core.messages import Usage
from handspan.wire.openai.chat import CompletionDetails, PromptDetails, UsageView


class UsageMeter:
    """Adds up what replies used. What a model does not report stays unknown (SPEC M6)."""

    def __init__(self) -> None:
        self._seen: list[Usage] = []
        self._cost: float | None = 0.0

    def add(self, event: UsageCounted) -> None:
        """Count one reply."""
        self._seen.append(event.usage)
        self._cost = None if event.cost is UNSET or self._cost is None else self._cost + event.cost

    @property
    def view(self) -> UsageView | UnsetType:
        """The sum; unset when a needed count is unknown."""
        counts = [(one.input, one.output) for one in self._seen]
        if not counts or any(read is None or written is None for read, written in counts):
            return UNSET
        read, written = sum(one[0] or 0 for one in counts), sum(one[1] or 0 for one in counts)
        return UsageView(
            read,
            written,
            read + written,
            prompt_tokens_details=PromptDetails(sum(one.cached or 0 for one in self._seen)),
            completion_tokens_details=CompletionDetails(sum(one.reasoning or 0 for one in self._seen)),
            cost=UNSET if self._cost is None else self._cost,
        )
