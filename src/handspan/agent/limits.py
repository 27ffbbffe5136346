"""The limits of a turn: how many rounds and repeated calls it may have, and what the model is told then (SPEC E4).

By default only the number of rounds is limited, and no call is refused: a tool that is polled is called many times with
the same arguments. The two guards against endless repetition are settings of an agent (`agents.NAME.limits`), off by
default.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage, UserMessage
from handspan.core.results import Failure

EndOfTools: TypeAlias = Literal["limit", "errors"]
"""Why the model may call no more tools in a turn: too many rounds, or too many rounds in which every call failed."""

_EQUAL_CALLS_FOR_NOTE: Final = 3


class TurnLimits(Struct, frozen=True):
    """How much an agent may do in one turn. None means no limit."""

    rounds: int | None = 20
    """Rounds of tool calls."""
    repeats: int | None = None
    """How often the same call with the same arguments may run."""
    failed_rounds: int | None = None
    """Rounds in a row in which every call fails."""


class TurnCounts:
    """Counts rounds and calls since the person's last message."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.rounds = 0
        self.failed_rounds = 0
        self._made: dict[tuple[str, str], int] = {}
        """How often each call was made: by name and arguments."""
        self._last: object = None
        """The last call with its result, as `count_equal` compares it."""
        self._equal = 0
        """How many calls in a row, up to the last one, were equal."""
        for message in messages:
            self.note(message)

    def note(self, message: Message) -> None:
        """Count this message."""
        if isinstance(message, UserMessage):
            self.rounds = self.failed_rounds = self._equal = 0
            self._made.clear()
            self._last = None
        elif isinstance(message, AssistantMessage):
            if calls := message.calls:
                self.rounds += 1
                for call in calls:  # `Counter.update` takes ten times as long
                    key = call.name, call.arguments
                    self._made[key] = self._made.get(key, 0) + 1
        elif isinstance(message, ResultsMessage):
            failed = all(result.is_error for result in message.results)
            self.failed_rounds = self.failed_rounds + 1 if failed else 0

    def why_no_more_tools(self, limits: TurnLimits) -> EndOfTools | None:
        """Return why the model may call no more tools in this turn; None when it may call more."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return "limit"
        return "errors" if limits.failed_rounds is not None and self.failed_rounds >= limits.failed_rounds else None

    def count_made_before(self, calls: Sequence[CallPart], place: int) -> int:
        """Return how often the call at this place of the last reply was made before in this turn."""
        call = calls[place]
        from_here_on = sum(one.name == call.name and one.arguments == call.arguments for one in calls[place:])
        return self._made[call.name, call.arguments] - from_here_on

    def count_equal(self, call: CallPart, result: CallResult) -> int:
        """Return how many calls in a row, up to this one, had the same arguments and the same result."""
        outcome = (call.name, call.arguments, result.envelope, result.attachments)
        self._equal = self._equal + 1 if outcome == self._last else 1
        self._last = outcome
        return self._equal


def refuse_repeated(calls: Sequence[CallPart], counts: TurnCounts, limits: TurnLimits) -> dict[str, Failure]:
    """Return a failure for each call of the last reply that was repeated too often, by the id of the call."""
    if limits.repeats is None:
        return {}
    made = ((call, counts.count_made_before(calls, place)) for place, call in enumerate(calls))
    return {
        call.id: _repeated_failure(call.name, before, limits.repeats)
        for call, before in made
        if before >= limits.repeats
    }


def _repeated_failure(name: str, before: int, limit: int) -> Failure:
    return Failure(
        "policy_denied",
        f"{name!r} did not run: it was called {before} times before with these arguments in this turn, and this agent "
        f"may call it {limit} times (limits.repeats). Use the results that you have, or do something else.",
    )


def add_notes(
    calls: Sequence[CallPart], results: Sequence[CallResult], counts: TurnCounts, limits: TurnLimits
) -> tuple[CallResult, ...]:
    """Return the results of a round with notes for the model: on calls whose results repeat, on the end of tools."""
    equal = [counts.count_equal(call, result) for call, result in zip(calls, results, strict=True)]
    end = _note_on_end(results, counts, limits)
    if not end and max(equal) < _EQUAL_CALLS_FOR_NOTE:
        return tuple(results)
    notes = [_note_on_equal(count) for count in equal]
    notes[-1] = f"{notes[-1]} {end}".strip()
    return tuple(_add_note(result, note) if note else result for result, note in zip(results, notes, strict=True))


def _note_on_equal(count: int) -> str:
    if count < _EQUAL_CALLS_FOR_NOTE:
        return ""
    return f"This is call {count} in a row with the same arguments and the same result. Another may bring nothing new."


def _note_on_end(results: Sequence[CallResult], counts: TurnCounts, limits: TurnLimits) -> str:
    """Return what the model is told when it may call no more tools in this turn; empty when it may."""
    why = ""
    if limits.rounds is not None and counts.rounds >= limits.rounds:
        why = f"This was round {counts.rounds} of tool calls in this turn, and the limit is {limits.rounds}."
    elif limits.failed_rounds is not None and all(result.is_error for result in results):
        failed = counts.failed_rounds + 1
        if failed >= limits.failed_rounds:
            why = f"Every call of the last {failed} rounds failed, and the limit is {limits.failed_rounds}."
    if not why:
        return ""
    return f"{why} You can call no more tools now: answer with what you have, and say what is missing."


def _add_note(result: CallResult, note: str) -> CallResult:
    """Return the result with the note as one more field of its envelope."""
    return structs.replace(result, envelope=f'{result.envelope[:-1]},"hint":{msgspec.json.encode(note).decode()}}}')
