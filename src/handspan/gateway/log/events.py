"""Lines about calls, turns and questions, made of the bus's events.

A call costs microseconds, and a line costs more than that. So only the first calls of each second have a line of their
own, and the others are counted; one line a second says how many there were. `--verbose` writes them all.
"""

import asyncio
import logging
import math
from collections import Counter
from typing import Final

from handspan.core.bus import Bus, CallCompleted, QuestionEnded, QuestionOpened, TokenRevoked, TurnEvent
from handspan.core.errors import ERROR_TYPES
from handspan.core.events import BudgetLow, Compacted, Ended, ModelSwitched, RequestQueued, RetryComing
from handspan.core.records import TOKEN_ID_LENGTH
from handspan.core.values import describe_seconds, describe_wait

SUCCESS: Final = "success"
_EACH_SECOND: Final = 10
"""Lines for successful calls in a second, and as many for others."""
_SECOND: Final = 1.0
_REFUSED: Final = ("validation_error", "permission_denied")
"""Types of errors of calls that did not run."""

_log = logging.getLogger(__name__)


class EventLog:
    """Listens to the bus, and logs what happens. `follow` begins to listen."""

    def __init__(self, *, logs_each_call: bool = False) -> None:
        self._limit = math.inf if logs_each_call else _EACH_SECOND
        self._lines = [0, 0]
        """Lines of this second: for calls that did not succeed, and for those that did."""
        self._counted: Counter[str] = Counter()
        """Calls of this second without a line, by status."""
        self._second: asyncio.TimerHandle | None = None

    def follow(self, bus: Bus) -> None:
        """Log the events of this bus."""
        bus.subscribe(CallCompleted, self._on_call)
        bus.subscribe(TurnEvent, self._on_turn_event)
        bus.subscribe(QuestionOpened, self._on_question)
        bus.subscribe(QuestionEnded, self._on_answer)
        bus.subscribe(TokenRevoked, self._on_revoked)

    def close(self) -> None:
        """Log what was counted last."""
        if self._second is not None:
            self._second.cancel()
            self._end_second()

    # Calls.

    def _on_call(self, call: CallCompleted) -> None:
        """Log the call, or only count it if this second has had its lines."""
        is_good = call.status == SUCCESS
        if self._lines[is_good] >= self._limit:
            self._counted[call.status] += 1
            return
        self._lines[is_good] += 1
        if self._second is None:
            self._second = asyncio.get_running_loop().call_later(_SECOND, self._end_second)
        log_call(call)

    def _end_second(self) -> None:
        """Log how many calls had no line of their own in this second."""
        self._second = None
        self._lines = [0, 0]
        counted, self._counted = self._counted, Counter()
        if counted:
            _log.info(
                "%s more calls in this second: %s",
                f"{counted.total():,}",
                ", ".join(f"{count:,} {status}" for status, count in counted.most_common()),
                extra={"event": "calls", **counted},
            )

    # Turns, questions, tokens.

    def _on_turn_event(self, published: TurnEvent) -> None:
        """Log the end of a turn, and what makes it slow."""
        event, about = published.event, {"session": published.session, "turn": published.turn}
        match event:
            case Ended(reason="done" | "pending" as reason):
                _log.debug("turn in %s ended: %s", published.session, reason, extra={"event": "turn", **about})
            case Ended(reason="error" as reason, text=text):
                _log.warning("turn in %s failed: %s", published.session, text, extra={"event": "turn", **about})
            case Ended(reason=reason):
                _log.info("turn in %s ended: %s", published.session, reason, extra={"event": "turn", **about})
            case RetryComing(reason=reason, seconds=seconds):
                text = "the model could not answer (%s): it is asked again %s"
                _log.warning(text, reason, describe_wait(seconds), extra={"event": "retry", **about})
            case Compacted(before=before, after=after, summarized=summarized, note=note):
                text = "the context of %s went from about %d to %d tokens, with %d messages in a summary%s"
                extra = {"event": "compacted", **about}
                _log.info(text, published.session, before, after, summarized, note and f": {note}", extra=extra)
            case ModelSwitched(model=model, of=of, reason=reason):
                text = "%s answers in place of %s: %s"
                _log.warning(text, model, of, reason, extra={"event": "model_switched", **about})
            case BudgetLow(text=text):
                _log.warning("%s", text, extra={"event": "budget_low", **about})
            case RequestQueued(model=model, reason=str(reason)):
                text = "a request to %s waits: %s"
                _log.info(text, model, reason, extra={"event": "queued", **about})
            case RequestQueued(model=model, running=running):
                text = "a request to %s waits: %d run already"
                _log.info(text, model, running, extra={"event": "queued", **about})

    def _on_question(self, opened: QuestionOpened) -> None:
        one = opened.question
        about = {"event": "question", "question": one.id, "call": one.call_id, "tool": one.tool, "owner": one.owner}
        _log.info("question (%s) about %s: %s", one.kind, one.tool, one.id, extra=about)

    def _on_answer(self, ended: QuestionEnded) -> None:
        decision = ended.decision or "abandoned"
        about = {"event": "answer", "question": ended.id, "call": ended.call_id, "decision": decision}
        _log.info("question %s ended: %s", ended.id, decision, extra={**about, "owner": ended.owner})

    def _on_revoked(self, event: TokenRevoked) -> None:
        token = event.token[:TOKEN_ID_LENGTH]
        about = {"event": "token_revoked", "owner": event.owner, "token_id": token}
        _log.info("a token of %s was revoked: %s", event.owner, token, extra=about)


def log_call(call: CallCompleted) -> None:
    """Log one call that has its result: what, how long, how it ended. Never its arguments or its result."""
    took = describe_seconds(call.duration)
    if call.status == SUCCESS:
        text = f"call {call.name}: success in {took} ({call.id})"
    elif ERROR_TYPES.get(call.status) in _REFUSED:  # type: ignore[call-overload]  # a status is one of its codes
        text = f"call {call.name}: refused, {call.status} ({call.id})"
    else:
        text = f"call {call.name}: failed after {took}, {call.status} ({call.id})"
    origin = call.tool.origin
    about = {"event": "call", "call": call.id, "tool": call.name, "status": call.status, "seconds": call.duration}
    about |= {"session": call.session, "owner": call.owner, "origin": "" if origin is None else origin.kind}
    _log.info("%s", text, extra=about)
