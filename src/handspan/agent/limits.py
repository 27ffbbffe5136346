"""Limits that end a turn which would not end by itself (SPEC E4)."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, UserMessage
from handspan.core.results import Failure


class TurnLimits(Struct, frozen=True):
    """How much an agent may do in one turn."""

    rounds: int | None = 20
    """Rounds of tool calls; None for no limit."""
    repeats: int = 3
    """How often the same call with the same arguments may run in one turn."""
    failed_rounds: int = 5
    """Rounds in a row in which every call fails."""
    parallel: int = 16
    """How many calls of one reply run; the model is asked to repeat the others."""


class TurnCounts:
    """Counts rounds and calls since the person's last message."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.rounds = 0
        self.failed_rounds = 0
        self._seen: Counter[tuple[str, str]] = Counter()
        for message in messages:
            self.note(message)

    def note(self, message: Message) -> None:
        """Count this message."""
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
        """Returns why the model may call no more tools in this turn: "limit" or "errors"; None when it may."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return "limit"
        return "errors" if self.failed_rounds >= limits.failed_rounds else None

    def repeats(self, call: CallPart) -> int:
        """Returns how often the model made this call with these arguments in this turn, this time included."""
        return self._seen[call.name, call.arguments]


def refuse_call(call: CallPart, place: int, counts: TurnCounts, limits: TurnLimits) -> Failure | None:
    """Returns the result of a call that is over a limit and does not run; None for all others.

    `place` is the call's position in its reply.
    """
    if place >= limits.parallel:
        return Failure("busy", f"At most {limits.parallel} calls of one reply are run. Call this one again next.")
    if counts.repeats(call) > limits.repeats:
        return Failure(
            "policy_denied",
            f"{call.name!r} was called {limits.repeats} times with these arguments in this turn, and is not run again. "
            "Use what you know, or do something else.",
        )
    return None
