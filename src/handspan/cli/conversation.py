"""A conversation at a terminal, line after line."""

from pathlib import Path
from typing import Final, Protocol

from handspan.cli.prompt import Prompt
from handspan.cli.render_chat import Show
from handspan.core.errors import HandspanError
from handspan.core.events import Ended

COMMANDS: Final = ("/help", "/tools", "/agent", "/skill", "/usage")
HELP: Final = """\
/tools           what tools this agent may use
/agent [NAME]    which agent answers; with a name, let that one go on
/skill [NAME]    which skills are on; with a name, switch that one on
/usage           what this conversation used
/help            this
/quit            the end (so is Ctrl-D)
Ctrl-C aborts the answer, not the program."""


class Partner(Protocol):
    """The agent at the other end."""

    async def say(self, text: str) -> Ended:
        """One turn; Ctrl-C aborts it, and only it."""
        ...

    async def command(self, name: str, argument: str) -> list[str]:
        """The lines that answer a command other than /help and /quit."""
        ...


async def converse(partner: Partner, show: Show, history: Path) -> None:
    """Turn after turn, until the person has had enough."""
    prompt = Prompt(history)
    prompt.open()
    try:
        while (line := await prompt.line()) is not None and line not in ("/quit", "/exit"):
            await _answer(partner, show, line)
    finally:
        prompt.close()


async def _answer(partner: Partner, show: Show, line: str) -> None:
    name, _, argument = line.partition(" ")
    try:
        if name in COMMANDS:
            lines = HELP.splitlines() if name == "/help" else await partner.command(name, argument.strip())
            for said in lines or ["(none)"]:
                show.note(f"  {said}")
        elif line:
            await partner.say(line)
    except HandspanError as error:
        show.note(f"({error})")


def tool_line(name: str, description: str) -> str:
    """One tool, in the answer to /tools."""
    return f"{name:<24} {' '.join(description.split())[:90]}"
