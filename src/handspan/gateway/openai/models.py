"""Agents as models: `handspan` is the default agent, `handspan/NAME` any other."""

from typing import Final
from urllib.parse import unquote

from handspan.core.agents import Agent
from handspan.gateway.openai.envelope import OpenAiRefusal
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.agents import allowed_agents, default_agent
from handspan.gateway.runs.client import RunClient
from handspan.wire.openai.models import ModelView

DEFAULT: Final = "handspan"
_PREFIX: Final = "handspan/"


async def list_models(parts: GatewayParts, client: RunClient) -> list[ModelView]:
    """Return the models that the token may use, the default first."""
    agents = await allowed_agents(parts.app.agents, client)
    default = await default_agent(parts.app.agents, client)
    views = [ModelView(DEFAULT, description=default.description)] if default is not None else []
    return [*views, *(ModelView(f"{_PREFIX}{agent.name}", description=agent.description) for agent in agents)]


async def find_agent(parts: GatewayParts, client: RunClient, model: str) -> Agent:
    """Return the agent that this model is. Raises `OpenAiRefusal` (404) for an unknown one, or another token's."""
    agents = await allowed_agents(parts.app.agents, client)
    if model == DEFAULT:
        found = await default_agent(parts.app.agents, client)
    else:
        name = unquote(model).removeprefix(_PREFIX)
        found = next((agent for agent in agents if agent.name == name), None)
    if found is None:
        known = ", ".join(view.id for view in (await list_models(parts, client))[:10]) or "none"
        text = f"The model {model[:80]!r} does not exist, or this token may not use it. It may use: {known}."
        raise OpenAiRefusal(404, text, "model", "model_not_found")
    return found
