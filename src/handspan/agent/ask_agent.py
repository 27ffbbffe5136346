"""The tool by which an agent asks another one: `ask_agent` (SPEC J5)."""

from typing import Final, Protocol

from handspan.core.children import ASK_AGENT
from handspan.core.context import ToolContext
from handspan.core.results import Pending
from handspan.core.tool import Annotations, Handling, ToolSpec, parameters, string
from handspan.core.values import Arguments, Json

_LONGEST_TASK: Final = 20_000


def _answering_agent(arguments: Arguments, _: Json) -> str:
    """Return where the answer comes from: that agent may have read what others wrote (SPEC S4)."""
    return f"the agent {str(arguments.get('agent', ''))!r}"


class AskedAgents(Protocol):
    """What makes other agents work."""

    async def ask(self, arguments: Arguments, ctx: ToolContext) -> Pending:
        """Check that the agent may be asked. The outcome comes when it has answered. Raises `ToolError`."""
        ...


class AskAgent:
    """Lets another agent work on a task in a session of its own, and returns its answer."""

    spec: Final = ToolSpec(
        name=ASK_AGENT,
        description=(
            "Give a task to another agent and get its answer. It has its own tools and knows nothing of this"
            " conversation: write down all that it needs. Several can work at the same time."
        ),
        parameters=parameters(
            "agent",
            "task",
            agent=string("The name of the agent.", minLength=1, maxLength=200),
            task=string("What to do, and what the answer has to say.", minLength=1, maxLength=_LONGEST_TASK),
        ),
        timeout=600.0,
        # It changes nothing itself. What the other agent does are calls of its own, by no wider mode than the asker's.
        annotations=Annotations(read_only=True),
    )
    handling: Final = Handling("loop", "agent", suspends=True, needs_turn=True, result_source=_answering_agent)

    def __init__(self, agents: AskedAgents) -> None:
        self._agents = agents

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Pending:
        """Return `Pending`: the turn of the other agent gives the outcome."""
        return await self._agents.ask(arguments, ctx)
