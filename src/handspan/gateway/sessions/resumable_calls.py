"""Calls that wait for a person while this gateway dies and lives again: they run when somebody has answered (SPEC P5).

The process that asked is gone, and with it the turn. The call is in the ledger, the question in the store.
"""

import logging

from handspan.agent.agents import Agents
from handspan.agent.loading import ConversationLoader
from handspan.agent.sessions import Sessions
from handspan.core.agents import Agent
from handspan.core.calls import CallRecord
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.events import CallProgress
from handspan.core.principals import Principal
from handspan.core.questions import Question
from handspan.core.records import Recovery
from handspan.core.store import Store
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine

_log = logging.getLogger(__name__)


class ResumableCalls:
    """Runs such calls, each once, and lets their turns go on. All work is done beside the turns, and ends with them."""

    def __init__(
        self, store: Store, engine: Engine, loader: ConversationLoader, agents: Agents, sessions: Sessions
    ) -> None:
        self._store = store
        self._engine = engine
        self._loader = loader
        self._agents = agents
        self._sessions = sessions

    def end_expired(self, call_id: str) -> None:
        """End the run of this call, which waited too long here."""
        self._sessions.beside(self._go_on_after(call_id))

    def resume_answered(self, question: Question) -> None:
        """Run the call of this question, if it has one, which was answered when nobody waited for that any more."""
        if question.call_id:
            self._sessions.beside(self._resume(question.call_id))

    async def recover(self, recovery: Recovery) -> None:
        """Go on with what was decided while nobody was there: for the start, with what `Store.recover` gave."""
        for call_id in recovery.expired:
            self._sessions.beside(self._go_on_after(call_id))
        for call_id in recovery.waiting:
            record = await self._store.ledger.find(call_id)
            if record is not None and record.state == "accepted" and not await self._is_asked(record):
                self._sessions.beside(self._resume(call_id))

    async def expire(self) -> None:
        """End the calls that waited too long, and let their turns go on. To be called now and then."""
        for call_id in await self._store.expire():
            self._sessions.beside(self._go_on_after(call_id))

    async def _resume(self, call_id: str) -> None:
        try:
            record = await self._store.ledger.find(call_id)
            if record is not None:
                await self._engine.resume(call_id, await self._caller(record))
                await self._go_on_after(call_id)
        except HandspanError as error:
            _log.error("The call %s could not go on: %s", call_id, error)

    async def _go_on_after(self, call_id: str) -> None:
        record = await self._store.ledger.find(call_id)
        if record is None or not record.session:
            return
        if record.tool.answered_by == "request":
            await self._end_run(record)
        else:
            await self._sessions.go_on(record.session, record.owner)

    async def _end_run(self, record: CallRecord) -> None:
        """Its client does not come any more, and no model is asked for nobody; unless others of the round are open."""
        if not await self._store.ledger.open_calls(owner=record.owner, session=record.session):
            try:  # another run may be at work by now, and have calls of its own when it lets us in
                session = self._sessions.get(record.session, record.owner)
                await session.give_up(Principal(record.owner), expired=True).end()
            except HandspanError as refused:
                _log.warning("The run in %s could not be ended: %s", record.session, refused)

    async def _is_asked(self, record: CallRecord) -> bool:
        asked = await self._store.questions.open_for(owner=record.owner, session=record.session)
        return any(question.call_id == record.id for question in asked)

    async def _caller(self, record: CallRecord) -> Caller:
        """Who made that call; one whose agent is gone may use nothing."""
        try:
            agent = (await self._agents.find(record.agent, owner=record.owner)).agent
        except ConfigError:
            agent = Agent(record.agent, tools=())

        def report(value: Json) -> None:
            session = self._sessions.find(record.session, record.owner)
            if session is not None:
                session.tell(CallProgress(record.id, record.name, value))

        # What was not a page's tool when it was called does not become one: another run may be at work by now.
        in_turn = record.tool.answered_by == "request"
        return self._loader.caller(agent, Principal(record.owner), record.session, report, in_turn=in_turn)
