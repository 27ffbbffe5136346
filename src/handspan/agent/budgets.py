"""The budgets of this gateway: requests to models reserve what they may cost, wait for money, or are refused (SPEC L5).

A request that does not fit waits for those under way, if it would fit without them. Else the person is asked for more;
where no person can be asked, or says no, the request is refused. What a request did cost is written with its reply.
"""

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, runtime_checkable

from handspan.config.budget_settings import BudgetSettings
from handspan.config.settings import Settings
from handspan.core.budgets import (
    EVERYONE,
    Addition,
    BudgetLimit,
    BudgetLimits,
    CostEstimate,
    LimitState,
    NoRoom,
    Payer,
    Reservation,
    Settlement,
    dollars_text,
    limits_of,
    next_period,
    paying,
    to_dollars,
    to_nano,
)
from handspan.core.bus import BudgetChanged, Bus
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, HandspanError, StoreError, ToolError
from handspan.core.late_imports import zoneinfo
from handspan.core.principals import OPERATOR
from handspan.core.questions import BUDGET, Answer, Question, Questions
from handspan.core.store import BudgetBook
from handspan.core.tasks import Tasks, finish
from handspan.core.values import Json
from handspan.engine.questions import AnswerComesLater
from handspan.models.model import ModelError

_LOOK_SECONDS: Final = 5.0
"""Seconds between two looks whether there is money again: another node may have ended, or a day begun."""
_REST_SECONDS: Final = 1.0
"""Seconds until the cost of a request is written that no reply has taken along: it has failed, or was no turn's."""
_MORE: Final = 5
"""The larger amount of a question: so many times the smaller one."""
_NO: Final = "No"
_log = logging.getLogger(__name__)


@runtime_checkable
class _TakesBack(Questions, Protocol):
    """Questions that can be ended without an answer."""

    async def take_back(self, question: Question) -> None:
        """End this question, which has no call: no client shows it any more."""
        ...


class Budgets:
    """Reserves money for requests to models, and settles what they did cost. Fills `Budget` of `models/budgeted.py`."""

    def __init__(
        self,
        book: BudgetBook,
        bus: Bus,
        settings: Settings,
        questions: Questions | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._book = book
        self._bus = bus
        self._settings = settings
        self._questions = questions
        self._clock = clock
        self._open: set[str] = set()
        """The reservations of requests under way."""
        self._ended: dict[str, Settlement] = {}
        """What requests did cost, until that is written."""
        self._changed = asyncio.Event()
        self._writing = Tasks()
        self._later: asyncio.TimerHandle | None = None
        """Writes what no reply has taken along."""
        bus.subscribe(BudgetChanged, lambda _: self._note_change())

    def use(self, settings: Settings) -> None:
        """Hold these limits from now on. Money that was spent stays spent."""
        self._settings = settings
        self._note_change()

    async def close(self) -> None:
        """Write what is still to be written."""
        if self._later is not None:
            self._later.cancel()
        await self._writing.wait()
        with contextlib.suppress(StoreError):  # the next start releases what stays reserved
            await self.settle_rest()

    @property
    def given(self) -> BudgetSettings:
        """What the settings say."""
        return self._settings.budget

    @property
    def has_limits(self) -> bool:
        """Whether any request may be limited."""
        agents = self._settings.agents.values()
        return self.given.has_limits or any(agent.budget != BudgetLimits() for agent in agents)

    @property
    def limits_now(self) -> bool:
        """Whether any limit holds for the requests of this context."""
        return bool(self.limits_for(_payer()))

    def limits_for(self, payer: Payer) -> list[BudgetLimit]:
        """Return the limits that hold for a request of this payer."""
        given = self.given
        own = given.owners.get(payer.owner, given.each_owner)
        return [
            *limits_of(EVERYONE, BudgetLimits(given.day, given.month)),
            *limits_of(f"owner:{payer.owner}", own),
            *limits_of(f"agent:{payer.agent}", payer.own),
        ]

    def today(self) -> str:
        """Return the day in the zone of the settings."""
        zone = zoneinfo.ZoneInfo(self.given.zone) if self.given.zone else None
        return str(datetime.fromtimestamp(self._clock(), zone).date())

    # Requests.

    @property
    def running(self) -> int:
        """How many requests of this process have reserved money and run."""
        return len(self._open)

    async def reserve_now(self, estimate: CostEstimate) -> Reservation | NoRoom:
        """Reserve what a request of this context may cost, if it fits now. Raises `ModelError` (`budget_spent`)."""
        payer = _payer()
        return await self._try(new_call_id(), payer, estimate, self.limits_for(payer), day=self.today())

    async def reserve(self, estimate: CostEstimate) -> Reservation:
        """Reserve what a request of this context may cost. Raises `ModelError` (`budget_spent`) if no money is left."""
        payer, held = _payer(), new_call_id()
        asking: asyncio.Task[Answer | None] | None = None
        question: Question | None = None
        try:
            while True:
                changed = self._changed
                day, limits = self.today(), self.limits_for(payer)
                found = await self._try(held, payer, estimate, limits, day=day)
                if isinstance(found, Reservation):
                    return found
                if question is not None and not found.spent:  # another answer made room: only others are in the way
                    await self._end_question(asking, question)
                    asking = question = None
                if question is None and found.spent:
                    question = self._question(payer, found, day)
                    asking = asyncio.create_task(self._ask(question)) if self._can_ask(payer) else None
                    if asking is None:
                        raise self._refusal(found, day)
                await self._wait(changed, asking)
                if asking is not None and asking.done():
                    assert question is not None
                    await self._take_answer(question, asking.result(), found, day)
                    asking = question = None
        finally:
            if question is not None:
                await finish(self._end_question(asking, question))

    async def _try(
        self, held: str, payer: Payer, estimate: CostEstimate, limits: Sequence[BudgetLimit], *, day: str
    ) -> Reservation | NoRoom:
        """Try to reserve once, and write what ended requests did cost by the way."""
        settles = tuple(self._ended.values())
        reserving = asyncio.ensure_future(self._book.reserve(held, payer, estimate, limits, day=day, settles=settles))
        try:
            found = await finish(reserving)
        except asyncio.CancelledError:
            if not reserving.cancelled() and reserving.exception() is None:
                self._release(reserving.result())
            raise
        except StoreError as error:
            raise ModelError("budget_spent", f"What is left of the budget can't be read: {error}") from None
        self._forget(settles)
        if isinstance(found, Reservation):
            self._open.add(held)
        return found

    def _release(self, found: Reservation | NoRoom) -> None:
        """Release what was reserved for a caller that was cancelled meanwhile."""
        if isinstance(found, Reservation):
            self._open.add(found.id)
            self.end(found, 0)

    def end(self, reservation: Reservation, nano: int, output: int = 0) -> None:
        """Note what a request did cost. The write that stores its reply takes it (`take`); later notes are ignored."""
        if reservation.id in self._open:
            self._open.discard(reservation.id)
            self._ended[reservation.id] = Settlement(reservation, nano, output)
            self._write_rest_later()

    def _write_rest_later(self) -> None:
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_REST_SECONDS, self._begin_rest)

    def _begin_rest(self) -> None:
        self._later = None
        if self._ended:
            self._writing.start(self.settle_rest())

    def take(self, session: str) -> tuple[Settlement, ...]:
        """Return what ended requests of this session did cost, for the write that stores the reply."""
        if not self._ended:
            return ()
        return tuple([one for one in self._ended.values() if one.reservation.payer.session == session])

    def note_stored(self, settlements: Sequence[Settlement], stored: "asyncio.Future[None]") -> None:
        """Note that the write of these has ended. After a failure they are written later."""
        if not stored.cancelled() and stored.exception() is None:
            self._forget(settlements)
        else:
            self._write_rest_later()

    async def settle_rest(self) -> None:
        """Write what ended requests did cost whose reply was not stored: they have failed, or were no turn's."""
        if settles := tuple(self._ended.values()):
            await self._book.settle(settles)
            self._forget(settles)

    def _forget(self, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            self._ended.pop(one.reservation.id, None)
        if settlements:
            self._note_change()
            self._bus.publish(BudgetChanged())

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, changed: asyncio.Event, asking: "asyncio.Task[Answer | None] | None") -> None:
        """Wait for the answer, for a change of the budget, or a little."""
        waiting = asyncio.create_task(changed.wait())
        try:
            await asyncio.wait(
                {waiting, *([asking] if asking is not None else [])},
                timeout=_LOOK_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waiting.cancel()

    # The person.

    def _can_ask(self, payer: Payer) -> bool:
        return self._questions is not None and payer.may_add

    def _question(self, payer: Payer, found: NoRoom, day: str) -> Question:
        """Return the question for more money: two amounts, and a no."""
        options: list[Json] = [*(f"Add ${amount:g} today" for amount in self._amounts(found)), _NO]
        told = " ".join(self.describe(state) for state in found.spent)
        return Question(
            id=f"budget/{new_call_id()}",
            kind="input",
            call_id="",
            tool=BUDGET,
            arguments={},
            subject=f"{told} The next request may cost {_dollars(found.nano)}. Add money today?",
            owner=payer.owner,
            session=payer.session,
            fingerprint="",
            expires_in=self._settings.tools.question_timeout,
            schema={"enum": options},
            agent=payer.agent,
            for_admin=payer.owner != OPERATOR.owner,
        )

    def _amounts(self, found: NoRoom) -> tuple[float, float]:
        """Return the amounts of the question: at least so much that the request fits."""
        missing = max(to_dollars(one.spent + found.nano - one.most) for one in found.spent)
        step = self.given.step
        least = step * max(1, -(-missing // step))
        return least, least * _MORE

    async def _ask(self, question: Question) -> Answer | None:
        assert self._questions is not None
        try:
            return await self._questions.ask(question)
        except (HandspanError, AnswerComesLater) as error:  # no person can be asked, or the gateway stops
            _log.info("No person was asked for more money: %s", error)
            return None

    async def _take_answer(self, question: Question, answer: Answer | None, found: NoRoom, day: str) -> None:
        """Add what the person said. Raises `ModelError` (`budget_spent`) for a no."""
        options = [str(one) for one in (question.schema or {})["enum"]]  # type: ignore[union-attr] # a list of ours
        if answer is None:  # it may be stored and open: no request waits for its answer any more
            await self._take_back(question)
        said = "" if answer is None or answer.decision != "allow" else str(answer.value)
        if said not in options[:-1]:
            raise self._refusal(found, day)
        amount = self._amounts(found)[options.index(said)]
        for state in found.spent:
            await self.add(state.limit.of, amount, addition=f"{question.id}/{state.limit.of}")

    async def _end_question(self, asking: "asyncio.Task[Answer | None] | None", question: Question) -> None:
        if asking is not None and not asking.done():
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await self._take_back(question)

    async def _take_back(self, question: Question) -> None:
        with contextlib.suppress(ToolError):
            if isinstance(self._questions, _TakesBack):
                await self._questions.take_back(question)

    async def add(self, of: str, dollars: float, *, addition: str = "") -> None:
        """Add this amount to a budget for today. `addition`: an id, under which it is added once."""
        await self._book.add(Addition(addition or new_call_id(), of, self.today(), to_nano(dollars)))
        self._note_change()
        self._bus.publish(BudgetChanged())

    # What people see.

    async def states(self, limits: Sequence[BudgetLimit]) -> Sequence[LimitState]:
        """Return how far these limits are used today."""
        return await self._book.states(limits, day=self.today())

    def known_limits(self, owner: str) -> list[BudgetLimit]:
        """Return the limits that this owner may see: the operator those of all owners, too."""
        is_operator = owner == OPERATOR.owner
        found = self.limits_for(Payer(owner))
        for name, agent in self._settings.agents.items():
            found += limits_of(f"agent:{name}", agent.budget)
        if is_operator:
            for name, limits in self.given.owners.items():
                found += limits_of(f"owner:{name}", limits) if name != owner else []
        return found

    async def for_all(self) -> Sequence[LimitState]:
        """Return how far the limits for all are used today."""
        limits = limits_of(EVERYONE, BudgetLimits(self.given.day, self.given.month))
        return await self.states(limits) if limits else ()

    def free_at(self, limit: BudgetLimit) -> str:
        """Return the day on which the whole budget is there again."""
        return next_period(limit.period, self.today())

    def describe(self, state: LimitState) -> str:
        """Return how far this limit is spent, as a sentence."""
        added = f", with {_dollars(state.added)} added today {_dollars(state.most)}," if state.added else ""
        return (
            f"Of the budget of {_dollars(state.limit.nano)} a {state.limit.period}{_whose(state.limit.of)}{added} "
            f"{_dollars(state.spent)} are spent."
        )

    def _how_to_add(self, found: NoRoom) -> str:
        """Return the commands that add as much to each spent budget as the request needs."""
        amount = self._amounts(found)[0]
        limits = dict.fromkeys(state.limit.of for state in found.spent)
        return " with ".join(f"`handspan budget add {amount:g}{_option_of(of)}`" for of in limits)

    def _refusal(self, found: NoRoom, day: str) -> ModelError:
        """Return the error that says what is spent, what the request may cost and what a person can do."""
        told = " ".join(self.describe(state) for state in found.spent)
        free = max(next_period(state.limit.period, day) for state in found.spent)
        text = f"{told} The next request may cost {_dollars(found.nano)}."
        if any(found.nano > state.limit.nano for state in found.spent):
            text += " That is more than the whole budget: raise it in the settings, send less, or set max_tokens."
        else:
            text += f" It is free again on {free}."
        text += f" {self._how_to_add(found)} adds to it today."
        return ModelError("budget_spent", text)


def _option_of(of: str) -> str:
    """Return the option of `handspan budget add` that names this budget."""
    kind, _, name = of.partition(":")
    return f" --{kind} {shlex.quote(name)}" if of else ""


def check_zone(settings: Settings) -> None:
    """Raise `ConfigError` when there is no zone of a name that the settings have."""
    for key, zone in (("budget.zone", settings.budget.zone), ("schedules.zone", settings.schedules.zone)):
        try:
            zoneinfo.ZoneInfo(zone or "UTC")
        except (KeyError, ValueError, OSError):
            text = f"{key}: there is no time zone {zone!r}. Name one as 'Europe/Berlin'."
            raise ConfigError(text) from None


def _payer() -> Payer:
    """Return for whom a model is asked: outside turns the operator."""
    return paying.get() or Payer(OPERATOR.owner)


def _whose(of: str) -> str:
    kind, _, name = of.partition(":")
    return f" of the {kind} {name!r}" if of else ""


def _dollars(nano: int) -> str:
    return dollars_text(to_dollars(nano))
