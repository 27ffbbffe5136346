"""Agents that work for other agents: each call of `ask_agent` has a child session, whose turn answers it (SPEC J5).

The call is stored as pending before the turn begins. The ids of the session and of its message are made of the call's
id, so a turn that is begun twice, after a crash or by two nodes, runs once. `Engine.settle` gives the call its result,
in the process in which the turn of the child ends.
"""

import logging
import time
from functools import partial
from typing import NamedTuple

from handspan.agent.agents import Agents
from handspan.agent.ask_agent import AskAgent
from handspan.agent.refusals import GatewayStops, SessionBusy
from handspan.agent.sessions import Sessions
from handspan.agent.turn_events import QuestionOver, SessionEvent
from handspan.core.bus import CallCompleted, QuestionEnded, QuestionOpened, TurnEvent
from handspan.core.calls import CallRecord
from handspan.core.children import ASK_AGENT, MAX_AT_ONCE, MAX_DEPTH, asking_call, child_session
from handspan.core.context import ToolContext
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import CallFinished, CallProgress, CallStarted, Ended, QuestionAsked, TurnFault
from handspan.core.messages import Text, UserMessage
from handspan.core.names import did_you_mean
from handspan.core.principals import Principal
from handspan.core.results import Failure, Pending, ToolResult, add_notice, succeed
from handspan.core.store import Store
from handspan.core.values import Arguments, JsonObject, strip_all
from handspan.engine.engine import Engine
from handspan.registry.registry import Registry

_log = logging.getLogger(__name__)


class _Asked(NamedTuple):
    """Which agent works for a call, and for which session."""

    agent: str
    session: str


class Children:
    """Begins the turns of agents that others ask, follows them, and gives the calls their results.

    The work runs in tasks of `Sessions`; closing `Sessions` ends them.
    """

    def __init__(self, store: Store, engine: Engine, agents: Agents, sessions: Sessions, registry: Registry) -> None:
        self._store = store
        self._engine = engine
        self._agents = agents
        self._sessions = sessions
        self._registry = registry
        self._bus = sessions.nodes.bus
        self._working: dict[str, _Asked] = {}
        """The calls whose agents work in this process."""
        registry.register_own(AskAgent(self))
        self._bus.subscribe(TurnEvent, self._on_turn_event)
        self._bus.subscribe(CallCompleted, self._on_call_completed)
        self._bus.subscribe(QuestionOpened, self._on_question)
        self._bus.subscribe(QuestionEnded, self._on_question)

    # Asking.

    async def ask(self, arguments: Arguments, ctx: ToolContext) -> Pending:
        """Check that the agent may be asked. Its turn begins as soon as the call is stored. Raises `ToolError`."""
        owner = ctx.who.owner
        asking = await self._store.conversations.get(ctx.session, owner=owner)
        asker = (await self._agents.find(asking.agent, owner=owner)).agent
        name = str(arguments["agent"])
        if name not in asker.may_ask:
            known = ", ".join(asker.may_ask)
            hint = f"{did_you_mean(name, asker.may_ask)} You may ask: {known}."
            raise ToolError("invalid_arguments", f"There is no agent {name[:60]!r} that you may ask.{hint}")
        if len(await self._sessions.askers.calls(ctx.session, owner)) >= MAX_DEPTH:
            text = f"No agent is asked here: {MAX_DEPTH} agents wait for one another already. Do it yourself, or say"
            raise ToolError("policy_denied", f"{text} what is missing.")
        if sum(one.session == ctx.session for one in self._working.values()) >= MAX_AT_ONCE:
            text = f"{MAX_AT_ONCE} agents work for this conversation already: ask again when one of them has answered."
            raise ToolError("busy", text)
        self._working[ctx.call_id] = _Asked(name, ctx.session)
        left = None if ctx.deadline is None else max(0.0, ctx.deadline.at - time.monotonic())
        return Pending(left, partial(self.begin, ctx.call_id))

    def begin(self, call_id: str) -> None:
        """Begin the turn of the agent that this pending call asks, or go on with it, unless another process runs it."""
        self._sessions.tasks.start(self._work(call_id))

    async def _work(self, call_id: str) -> None:
        """Let the agent work, and give the call its end, if it does not wait or go on in another process."""
        is_new = call_id in self._working
        record = await self._store.ledger.find(call_id)
        if record is None or record.state != "pending":
            return
        child, owner = child_session(call_id), record.owner
        name, task = _read(record, "agent"), _read(record, "task")
        try:
            stored = await self._store.conversations.find(child, owner=owner)
            if stored is not None and stored.state != "idle":
                return  # its turn runs, or waits: `_on_turn_event` gets the end
            if is_new and call_id not in self._working:
                return  # the call has ended meanwhile
            self._working[call_id] = _Asked(name, record.session)
            who, message = Principal(owner), UserMessage((Text(task),), call_id)
            session = self._sessions.get(child, owner)
            handle = session.say(who, message, _ignore, agent=name, name=f"{name}: {task}", kind="child")
            await self._settle(call_id, await handle.wait_for_end(elsewhere=False))
        except GatewayStops:
            pass  # the next process, or another node, goes on with it
        except SessionBusy as error:
            _log.warning("The agent of the call %s works elsewhere: %s", call_id, error)
        except HandspanError as error:
            failure = Failure("execution_failed", f"The agent {name!r} could not begin: {error}")
            await self._engine.settle(call_id, failure)

    async def _settle(self, call_id: str, ended: Ended) -> None:
        """Give the call the end of its agent's turn. A turn that waits, or that the gateway's stop ends, goes on."""
        if ended.reason == "pending" or (ended.reason == "aborted" and not self._sessions.is_open):
            return
        record = await self._store.ledger.find(call_id)
        if record is not None and record.state == "pending":
            await self._engine.settle(call_id, _outcome(_read(record, "agent"), ended))

    # What happens meanwhile.

    def _on_turn_event(self, published: TurnEvent) -> None:
        call_id = asking_call(published.session)
        if not call_id or self._bus.is_remote:
            return
        if isinstance(published.event, Ended):
            self._sessions.tasks.start(self._settle(call_id, published.event))
        elif isinstance(published.event, CallStarted | CallFinished):
            self._report(call_id, published.owner, published.event)

    def _report(self, call_id: str, owner: str, event: CallStarted | CallFinished) -> None:
        """Tell the listeners of the asking session what the agent does, as progress of the call."""
        asked = self._working.get(call_id)
        asking = None if asked is None else self._sessions.find(asked.session, owner)
        if asked is not None and asking is not None:
            turn = asking.turns[0].id if asking.turns else asking.listeners.waiting
            value = strip_all(_describe(asked.agent, child_session(call_id), event))  # S4
            asking.listeners.publish(CallProgress(call_id, ASK_AGENT, value), turn)

    def _on_call_completed(self, call: CallCompleted) -> None:
        """Stop the agent of a call that is over: it may have timed out. Resume the turn, if it does not wait here."""
        if call.tool.answered_by != "agent":
            return
        self._working.pop(call.id, None)
        if self._bus.is_remote:
            self._engine.look_again(call.id)
        elif self._sessions.is_open:
            if call.status != "success":  # else its agent has ended
                self._sessions.tasks.start(self._stop(call.id, call.owner))
            if call.id not in self._sessions.loop.awaited:
                self._sessions.tasks.start(self._sessions.resume_turn(call.session, call.owner))

    async def end_expired(self, record: CallRecord) -> None:
        """Stop the agent of a call that the store has ended, because its time was over."""
        self._working.pop(record.id, None)
        self._engine.look_again(record.id)
        await self._stop(record.id, record.owner)

    async def _stop(self, call_id: str, owner: str) -> None:
        await self._sessions.abort_anywhere(child_session(call_id), owner)

    # Questions of the agents.

    def _on_question(self, event: QuestionOpened | QuestionEnded) -> None:
        session = event.question.session if isinstance(event, QuestionOpened) else event.session
        if not asking_call(session) or not self._sessions.is_open:
            return
        told: SessionEvent
        if isinstance(event, QuestionOpened):
            told = QuestionAsked(event.question)
        else:
            told = QuestionOver(event.id, event.kind, event.by)
        self._sessions.tasks.start(self._pass_on(session, event.owner, told))

    async def _pass_on(self, session: str, owner: str, event: SessionEvent) -> None:
        """Tell the asking sessions of a question, and stop the clocks of their calls while it is open (SPEC E6).

        With the answer, each of these calls has its whole time again.
        """
        calls = await self._sessions.askers.calls(session, owner)
        for record in calls:
            if (asking := self._sessions.find(record.session, owner)) is not None:
                asking.listeners.tell(event)
        if (whole := self._timeout()) is None:
            return
        waits = dict.fromkeys((record.id for record in calls), 0.0)
        for question in await self._store.questions.open_for(owner=owner):
            if asking_call(question.session):
                for record in await self._sessions.askers.calls(question.session, owner):
                    waits[record.id] = max(waits.get(record.id, 0.0), question.expires_in)
        for record in calls:
            if record.state == "pending":
                await self._engine.prolong(record, whole + waits[record.id])

    def _timeout(self) -> float | None:
        """Return how long a call may take, without the time of a person (SPEC E5)."""
        return next((one.timeout for one in self._registry if one.spec.name == ASK_AGENT), None)


def _read(record: CallRecord, name: str) -> str:
    """Return this argument of a call of `ask_agent`."""
    return str(record.arguments.get(name, "")) if isinstance(record.arguments, dict) else ""


def _ignore(_: SessionEvent, turn: str) -> None:
    """The listener of the message: `_on_turn_event` gets the events of the turn."""


def _describe(agent: str, session: str, event: CallStarted | CallFinished) -> JsonObject:
    """Return what listeners of the asking session are told: a line, and the parts of which it is made."""
    status, words = "open", "…"
    if isinstance(event, CallFinished):
        status, words = event.status, "done" if event.status == "success" else f"failed ({event.status})"
    call: JsonObject = {"id": event.id, "tool": event.name, "status": status}
    return {"text": f"{agent}: {event.name} {words}\n", "agent": agent, "session": session, "call": call}


def _outcome(agent: str, ended: Ended) -> ToolResult:
    """Return the result of a call whose agent's turn ended so."""
    match ended.reason:
        case "done":
            return succeed(ended.text)
        case "limit" | "errors" | "length" if ended.text:
            return add_notice(
                succeed(ended.text), f"The agent {agent!r} was stopped by a limit ({ended.reason}): it may not be done."
            )
        case "aborted":
            return Failure("cancelled", f"The agent {agent!r} was stopped before it had answered.")
    code = f" ({ended.fault.code})" if isinstance(ended.fault, TurnFault) else ""
    why = ended.text.rstrip(".") or f"its turn ended with {ended.reason!r}"
    return Failure("execution_failed", f"The agent {agent!r} could not answer: {why}{code}.")
