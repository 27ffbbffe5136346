"""Calls that wait for a person while the gateway restarts: they run when the person has answered (SPEC P5).

The process that asked is gone, and with it the turn. The ledger has the call, the store has the question.
"""

import logging

from msgspec import structs

from handspan.agent.agents import Agents
from handspan.agent.children import Children
from handspan.agent.loading import ConversationLoader
from handspan.agent.sessions import Sessions
from handspan.core.agents import Agent, SkillTools
from handspan.core.calls import CallRecord
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.events import CallProgress
from handspan.core.principals import Principal
from handspan.core.questions import Question
from handspan.core.records import Recovery
from handspan.core.results import Pending
from handspan.core.store import Store
from handspan.core.values import Json, strip_all
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.skills.skills import tools_of_skills

_log = logging.getLogger(__name__)


class ResumableCalls:
    """Runs calls whose person answered after a restart, each once, and resumes their turns.

    The work runs in tasks of `Sessions`; closing `Sessions` ends them.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        loader: ConversationLoader,
        agents: Agents,
        sessions: Sessions,
        children: Children,
    ) -> None:
        self._nodes = sessions.nodes
        self._store = store
        self._engine = engine
        self._loader = loader
        self._agents = agents
        self._sessions = sessions
        self._children = children

    def end_expired(self, call_id: str) -> None:
        """Resume the turn of a call that has expired."""
        self._sessions.tasks.start(self._go_on_after(call_id))

    def resume_answered(self, question: Question) -> None:
        """Run the call of a question that was answered after its caller had gone; if this gateway stops, the next one
        does."""
        if question.call_id and self._sessions.is_open:
            self._sessions.tasks.start(self._resume(question.call_id))

    async def recover(self, recovery: Recovery) -> None:
        """Resume the calls and turns that were answered or expired while no gateway ran: after `Store.recover`."""
        for session, owner in recovery.answered:
            self._sessions.tasks.start(self._sessions.resume_turn(session, owner))
        for call_id in recovery.expired:
            self._sessions.tasks.start(self._go_on_after(call_id))
        for call_id in recovery.waiting:
            record = await self._store.ledger.find(call_id)
            if record is not None and record.state == "accepted" and not await self._is_asked(record):
                self._sessions.tasks.start(self._resume(call_id))
            elif record is not None and record.tool.answered_by == "agent":
                self._children.begin(call_id)

    async def expire(self) -> None:
        """End expired calls and resume their turns. The gateway calls this regularly."""
        for call_id in await self._store.expire():
            self._sessions.tasks.start(self._go_on_after(call_id))

    async def _resume(self, call_id: str) -> None:
        """Run the call, unless another node works on it, and resume its turn."""
        try:
            if await self._nodes.is_held_elsewhere(call_id):
                return
            record = await self._store.ledger.find(call_id)
            if record is not None:
                result = await self._engine.resume(call_id, await self._caller(record))
                if not isinstance(result, Pending):
                    await self._go_on_after(call_id)
        except HandspanError as error:
            _log.error("The call %s could not go on: %s", call_id, error)

    async def _go_on_after(self, call_id: str) -> None:
        """Resume the turn of a call that is over, or end the run of the page that it belongs to."""
        record = await self._store.ledger.find(call_id)
        if record is None or not record.session:
            return
        if record.tool.answered_by == "agent":
            await self._children.end_expired(record)
        if record.tool.answered_by == "request":
            await self._end_run(record)
        else:
            await self._sessions.resume_turn(record.session, record.owner)

    async def _end_run(self, record: CallRecord) -> None:
        """End the run of a page that does not come back, unless other calls of its round are open."""
        if not await self._store.ledger.open_calls(owner=record.owner, session=record.session):
            try:  # another run may have begun meanwhile: `expired` leaves its open calls alone
                session = self._sessions.get(record.session, record.owner)
                await session.give_up(Principal(record.owner), expired=True).wait_for_end()
            except HandspanError as refused:
                _log.warning("The run in %s could not be ended: %s", record.session, refused)

    async def _is_asked(self, record: CallRecord) -> bool:
        asked = await self._store.questions.open_for(owner=record.owner, session=record.session)
        return any(question.call_id == record.id for question in asked)

    async def _caller(self, record: CallRecord) -> Caller:
        """Return the caller of this call. A caller whose agent is gone has no tools."""
        try:
            agent = (await self._agents.find(record.agent, owner=record.owner)).agent
        except ConfigError:
            agent = Agent(record.agent, tools=())
        agent = await self._sessions.askers.act(agent, record.session, record.owner)
        agent = await self._loader.limit_in_session(agent, record.session, record.owner)

        def report(value: Json) -> None:
            session = self._sessions.find(record.session, record.owner)
            if session is not None:
                session.listeners.tell(CallProgress(record.id, record.name, strip_all(value)))  # S4

        # The toolbox has the page's tools only for a call of the page: another run may use them by now.
        in_turn = record.tool.answered_by == "request"
        tools = await self._tools_of_skills(record, agent)
        who = Principal(record.owner)
        caller = self._loader.caller(agent, who, record.session, report, in_turn=in_turn, skill_tools=tools)
        return structs.replace(caller, goes_on_elsewhere=lambda: not self._sessions.is_open, is_turn=True)

    async def _tools_of_skills(self, record: CallRecord, agent: Agent) -> SkillTools | None:
        """Return the tools of the skills with which a call of a turn was made. A request calls without skills."""
        session = await self._store.conversations.find(record.session, owner=record.owner) if record.session else None
        if session is None:
            return None
        active = await self._loader.active_skills(session, agent)
        return tools_of_skills(active.skills) if record.id in active.open_calls else None
