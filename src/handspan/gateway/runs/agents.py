"""The agents that a client of a front may talk to."""

from handspan.agent.agents import Agents
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError
from handspan.gateway.runs.client import RunClient


async def allowed_agents(agents: Agents, client: RunClient) -> list[Agent]:
    """Return the agents of this client: all of its owner, or those to which its token is bound."""
    allowed = client.who.agents
    known = await agents.all(owner=client.owner)
    return [one.agent for one in known if not allowed or one.agent.name in allowed]


async def default_agent(agents: Agents, client: RunClient) -> Agent | None:
    """Return the gateway's default agent; for a token that may not use it, the first of its own."""
    own = await allowed_agents(agents, client)
    try:
        default = (await agents.find(owner=client.owner)).agent
    except ConfigError:
        return own[0] if own else None
    return default if not client.who.agents or default.name in client.who.agents else next(iter(own), None)
