"""The first part of the system prompt: instructions of the built-in agent, made from the live state (SPEC A5).

The instructions have a line for each thing that the agent can use: without the tool, there is no line. If the settings
have instructions for the built-in agent (`agents.General.instructions`), it gets those instead.
`skills.build_instructions` puts all parts in order.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.agents import GENERAL, Agent
from handspan.registry.toolbox import Toolbox

DescribeShell: TypeAlias = Callable[[], Awaitable[str]]
"""Returns a sentence on where commands run and what they can reach."""

_GREETING: Final = (
    "You are a helpful agent with tools. Use them where they help instead of guessing, look at what they answer, and"
    " say plainly what you did and what you could not do."
)
_ASK: Final = "- ask_user asks the person: use it when a decision is theirs and nothing else tells you."
_MEMORY: Final = (
    "- memory_read and memory_write keep what later conversations need: look there before you ask the person again, and"
    " write down what the person wants to be remembered."
)
_SKILLS: Final = (
    "- A skill is a way of working, written down. use_skill switches one on for this turn: see the list below."
)
_ARTIFACTS: Final = (
    "- A result that is too long is cut and kept whole as an artifact: read_artifact reads on in it, from any byte, or"
    " searches it."
)


class DefaultInstructions:
    """Writes the instructions of the built-in agent."""

    def __init__(self, workspace: Path, describe_shell: DescribeShell) -> None:
        self._workspace = workspace
        self._describe_shell = describe_shell

    async def write(self, agent: Agent, box: Toolbox, now: datetime) -> str:
        """Return the agent's own instructions; for a built-in agent without any, those made from the live state."""
        if agent.instructions or agent.name != GENERAL.name:
            return agent.instructions
        shell = await self._describe_shell() if _has(box, "exec_shell", "spawn") else ""
        return "\n".join([_GREETING, "", *self._lines(box, now, shell)])

    def _lines(self, box: Toolbox, now: datetime, shell: str) -> Iterator[str]:
        """Yield what is true now: the date, the workspace, the shell, and what the tools are for."""
        exact = " get_current_time tells the exact time." if _has(box, "get_current_time") else ""
        yield f"- Today is {now:%A}, {now.date()}, in the time zone {now:%Z} (UTC{now:%z}).{exact}"
        if _has(box, "read_file", "write_file", "list_directory"):
            yield (
                f"- Your files are in the workspace {str(self._workspace)!r}: paths are relative to it, and no file"
                " tool leads out of it."
            )
        if shell:
            yield f"- {shell}"
        for line, tools in _LINES:
            if _has(box, *tools):
                yield line


_LINES: Final = (
    (_ASK, ("ask_user",)),
    (_MEMORY, ("memory_read", "memory_write")),
    (_SKILLS, ("use_skill",)),
    (_ARTIFACTS, ("read_artifact",)),
)


def _has(box: Toolbox, *names: str) -> bool:
    """Whether the agent may use one of these built-in tools."""
    return any((entry := box.find(name)) is not None and entry.origin.is_builtin for name in names)
