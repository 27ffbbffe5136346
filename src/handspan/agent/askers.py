"""For which agents an agent works in a session: found through the calls that asked (SPEC J5)."""

from msgspec import structs

from handspan.agent.agents import Agents
from handspan.core.agents import Agent, Mode, agent_in_session
from handspan.core.calls import CallRecord
from handspan.core.children import MAX_DEPTH, asking_call
from handspan.core.errors import ConfigError
from handspan.core.store import Ledger


class Askers:
    """Finds the calls that led to a session, and what they mean for the agent in it."""

    def __init__(self, agents: Agents, ledger: Ledger) -> None:
        self._agents = agents
        self._ledger = ledger

    async def calls(self, session_id: str, owner: str) -> list[CallRecord]:
        """Return the calls that led to this session, the nearest first; none for a session that no agent asked for."""
        found: list[CallRecord] = []
        while (call_id := asking_call(session_id)) and len(found) <= MAX_DEPTH:
            record = await self._ledger.find(call_id)
            if record is None or record.owner != owner:
                break
            found.append(record)
            session_id = record.session
        return found

    async def act(self, agent: Agent, session_id: str, owner: str) -> Agent:
        """Return the agent as it acts in this session: with no wider mode than the agents for which it works."""
        agent = agent_in_session(agent, session_id)
        if not asking_call(session_id):
            return agent
        calls = await self.calls(session_id, owner)
        modes = [await self._mode_of(record) for record in calls]
        if not calls or asking_call(calls[-1].session):  # the journal has forgotten who asked: the strictest mode
            modes.append("read_only")
        return structs.replace(agent, asker_modes=tuple(dict.fromkeys(mode for mode in modes if mode != "automatic")))

    async def _mode_of(self, record: CallRecord) -> Mode:
        """Return the mode of the agent that made this call, where it made it; the strictest if that agent is gone."""
        try:
            asker = (await self._agents.find(record.agent, owner=record.owner)).agent
        except ConfigError:
            return "read_only"
        return agent_in_session(asker, record.session).mode
