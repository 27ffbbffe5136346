"""What the rounds of a run used, added up for one answer."""

from msgspec import UnsetType

from handspan.core.events import UsageCounted
from handspan.core.messages import Usage


class UsageMeter:
    """Adds up what replies used. What a model does not report stays unknown (SPEC M6)."""

    def __init__(self) -> None:
        self._seen: list[Usage] = []
        self.model = ""
        """The model that answered last."""
        self.cost: float | None = 0.0
        """US dollars; None when a price is unknown."""

    def add(self, event: UsageCounted) -> None:
        """Count one reply."""
        self._seen.append(event.usage)
        self.model = event.model
        self.cost = None if isinstance(event.cost, UnsetType) or self.cost is None else self.cost + event.cost

    @property
    def total(self) -> Usage | None:
        """The sum; None when a needed count is unknown."""
        seen = self._seen
        if not seen or any(one.input is None or one.output is None for one in seen):
            return None
        return Usage(
            sum(one.input or 0 for one in seen),
            sum(one.output or 0 for one in seen),
            sum(one.cached or 0 for one in seen),
            sum(one.reasoning or 0 for one in seen),
        )
