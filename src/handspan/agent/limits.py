"""What ends a turn that would not end by itself (SPEC E4)."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, UserMessage


class TurnLimits(Struct, frozen=True):
    """How long an agent may go on in one turn."""

    rounds: int | None = 20
    """Rounds of tool calls; None for no limit."""
    repeats: int = 3
    """How often the same call with the same arguments may run in one turn."""
    failed_rounds: int = 5
    """Rounds in a row in which every call fails."""
    parallel: int = 16
    """Calls of one reply that run; the others are told to come again."""


class TurnCounts:
    """What has happened since the person last spoke, kept up to date message by message."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.rounds = 0
        self.failed_rounds = 0
        self._seen: Counter[tuple[str, str]] = Counter()
        for message in messages:
            self.note(message)

    def note(self, message: Message) -> None:
        """Take this message into account."""
        if type(message) is UserMessage:
            self.rounds = self.failed_rounds = 0
            self._seen.clear()
        elif type(message) is AssistantMessage:
            if message.calls:
                self.rounds += 1
                self._seen.update((call.name, call.arguments) for call in message.calls)
        elif type(message) is ResultsMessage:
            failed = all(result.is_error for result in message.results)
            self.failed_rounds = self.failed_rounds + 1 if failed else 0

    def is_over(self, limits: TurnLimits) -> str | None:
        """Why the model may not call tools any more in this turn: "limit", "errors", or None."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return "limit"
        return "errors" if self.failed_rounds >= limits.failed_rounds else None

    def repeats(self, call: CallPart) -> int:
        """How often this very call was asked for in this turn, this time included."""
        return self._seen[call.name, call.arguments]
