"""The agent of an open `Handspan`: composes its App and its sessions, and asks it."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar

from msgspec import structs

from handspan.agent.final_answer import FINAL_ANSWER, MAX_TRIES, REMINDER, ModelWithFinalAnswer
from handspan.agent.opening import ChooseModel
from handspan.agent.requests import AddForTurn
from handspan.agent.sessions import Sessions
from handspan.agent.turn import Handle, Listener
from handspan.core.events import Ended
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.schedule_times import make_plan, new_schedule
from handspan.core.schedules import Maker, Schedule, SchedulePlan
from handspan.front.answer_types import AnswerType
from handspan.front.answers import AgentAnswer, AnswerMismatch, TurnRecorder, check_ended
from handspan.front.final_answer import FinalAnswer
from handspan.front.options import HandspanOptions
from handspan.front.questions import AnswerQuestion, CallbackQuestions
from handspan.gateway.app import App
from handspan.gateway.one_node import OneNode
from handspan.gateway.schedules.scheduler import Scheduler
from handspan.gateway.schedules.turns import ScheduledTurns
from handspan.models.choice import Choice
from handspan.models.model import Model

T = TypeVar("T")

_WAIT_SECONDS: Final = 24 * 3600.0
"""Seconds that an `ask` waits for earlier turns of its session. Programs set a shorter timeout themselves."""


class OpenAgent:
    """Answers in sessions until it is closed. It belongs to the event loop that opened it."""

    def __init__(self, app: App, sessions: Sessions, resources: AsyncExitStack) -> None:
        self.app = app
        self._sessions = sessions
        self._resources = resources
        self._scheduler: Scheduler | None = None

    @classmethod
    async def open(cls, options: HandspanOptions, answer_question: AnswerQuestion | None) -> "OpenAgent":
        """Return an agent with these options. Raises `ConfigError` when one of them can't be used."""
        async with AsyncExitStack() as resources:
            settings = resources.enter_context(options.open_settings())
            nodes = OneNode(settings.state)
            app = App(settings, CallbackQuestions(answer_question, nodes.bus), nodes=nodes, sources=options.sources)
            await resources.enter_async_context(app)
            choose = await _model_chooser(app, options.model)
            sessions = Sessions(
                app.store.conversations, app.loader, app.agents, choose, nodes=nodes, wait_seconds=_WAIT_SECONDS
            )
            resources.push_async_callback(sessions.drain, 0)
            agent = cls(app, sessions, resources.pop_all())
        try:
            if options.state is not None and (app.recovery.runs or await app.store.schedules.next_due() is not None):
                await agent.open_scheduler()
        except BaseException:
            await agent.close()
            raise
        return agent

    async def open_scheduler(self) -> None:
        """Run what is due from now on. A second call does nothing."""
        if self._scheduler is not None:
            return
        app, sessions = self.app, self._sessions
        turns = ScheduledTurns(app.store.schedules, sessions, app.agents, app.delivery)
        self._scheduler = Scheduler(app.store, turns, sessions.nodes, app.settings.schedules)
        await self._scheduler.open(app.recovery.runs)

    async def schedule(self, plan: SchedulePlan, words: str) -> Schedule:
        """Store a schedule and let it run. Raises `ToolError` when it can't be used."""
        await self.open_scheduler()
        app, own = self.app, self.app.settings.schedules
        now = app.store.ledger.now()
        plan = make_plan(structs.replace(plan, zone=plan.zone or own.zone_name), words, now)
        await app.delivery.check(plan.deliver, OPERATOR.owner)
        made = new_schedule(plan, Maker(OPERATOR.owner, OPERATOR.scopes), now, own.spread)
        await app.store.schedules.add(made)
        app.publish_schedule(made)
        return made

    async def close(self) -> None:
        """Stop all turns and close everything that `open` opened."""
        if self._scheduler is not None:
            await self._scheduler.stop()
        await self._sessions.drain(0)
        if self._scheduler is not None:
            await self._scheduler.close()
        await self._resources.aclose()

    def say(self, text: str, session: str, listener: Listener, add_for_turn: AddForTurn | None = None) -> Handle:
        """Start the turn that answers this text, and return its handle."""
        message, found = UserMessage((Text(text),)), self._sessions.get(session, OPERATOR.owner)
        return found.say(OPERATOR, message, listener, add_for_turn=add_for_turn)

    async def ask(self, text: str, session: str) -> AgentAnswer[str]:
        """Return the answer. Raises `AskFailed` when there is none."""
        recorder = TurnRecorder()
        ended = check_ended(await self.say(text, session, recorder.record).wait_for_end(), session)
        return _make_answer(ended.text, ended, session, recorder)

    async def ask_typed(self, text: str, session: str, answer_type: AnswerType[T]) -> AgentAnswer[T]:
        """Return the answer as a value of this type. Raises `AnswerMismatch` when all tries do not fit."""
        recorder, final = TurnRecorder(), FinalAnswer(answer_type)
        for _ in range(MAX_TRIES):
            handle = self.say(text, session, recorder.record, partial(final.add_for_turn, self.app.registry))
            ended = check_ended(await handle.wait_for_end(), session)
            values = final.find(ended.text)
            if values:
                return _make_answer(values[-1], ended, session, recorder)
            wrong = [call.result for call in recorder.calls if call.name == FINAL_ANSWER]
            if len(wrong) >= MAX_TRIES:
                break
            text = REMINDER
        problem = wrong[-1] if wrong else f"it did not call the tool {FINAL_ANSWER!r}, and wrote {ended.text[:200]!r}."
        failed = f"The model gave no {answer_type.name!r} in {MAX_TRIES} tries"
        raise AnswerMismatch(f"{failed}: {problem} Ask another model, or more simply.", ended, session)


def new_session_id() -> str:
    """Return an id that no other session has."""
    return os.urandom(16).hex()


async def _model_chooser(app: App, given: str | Model | Sequence[str | Model]) -> ChooseModel:
    """Return a function that chooses an agent's model: the program's own, or else the one that the agent names."""
    first, then = _split_list(given)
    chosen: Choice | None = None
    if not isinstance(first, str):
        chosen = await app.choices.with_others(app.choices.given(first), then)
    elif first:  # a wrong name fails here, not at the first answer
        chosen = await app.choices.choose(first, then)

    async def choose(named: str, others: tuple[str, ...] | None = None, /) -> Choice:
        choice = chosen or await app.choices.choose(named, others)
        return structs.replace(choice, model=ModelWithFinalAnswer(choice.model))

    return choose


def _split_list(given: str | Model | Sequence[str | Model]) -> tuple[str | Model, Sequence[str | Model] | None]:
    """Return the first model of a list, and the others; None for those where no list was given."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return given, None
    if not given:
        return "", None
    return given[0], given[1:]


def _make_answer(value: T, ended: Ended, session: str, recorder: TurnRecorder) -> AgentAnswer[T]:
    calls = tuple(call for call in recorder.calls if call.name != FINAL_ANSWER)
    return AgentAnswer(value, ended.text, session, calls, usage=recorder.usage, reason=ended.reason)
