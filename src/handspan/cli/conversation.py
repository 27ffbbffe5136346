"""A conversation at a terminal, line after line."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

from handspan.cli.render_chat import Show
from handspan.core.errors import HandspanError
from handspan.core.events import Ended
from handspan.engine.threads import Threads

_SIGN: Final = "> "
COMMANDS: Final = ("/help", "/tools", "/agent", "/skill", "/usage")
HELP: Final = """\
/tools           what tools this agent may use
/agent [NAME]    which agent answers; with a name, let that one go on
/skill [NAME]    which skills are on; with a name, switch that one on, with -NAME off
/usage           what this conversation used
/help            this
/quit            the end (so is Ctrl-D)
Ctrl-C aborts the answer, not the program."""


class Partner(Protocol):
    """The agent that the person talks to."""

    async def say(self, text: str) -> Ended:
        """Run one turn and return its end. Ctrl-C aborts the turn alone."""
        ...

    async def command(self, name: str, argument: str) -> list[str]:
        """Return the lines that answer a command other than /help and /quit."""
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
            for text in lines or ["(none)"]:
                show.note(f"  {text}")
        elif line:
            await partner.say(line)
    except HandspanError as error:
        show.note(f"({error})")


def tool_line(name: str, description: str) -> str:
    """One tool, in the answer to /tools."""
    return f"{name:<24} {' '.join(description.split())[:90]}"


class Prompt:
    """Reads line after line; at a terminal with a prompt, line editing and a history that is kept in a file."""

    def __init__(self, history: Path) -> None:
        """A prompt for this terminal, if it is one."""
        self._history = history
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._editing = _line_editing() if self._is_terminal else None
        self._threads = Threads(cap=1)

    def open(self) -> None:
        """Remember what was typed in earlier conversations."""
        if self._editing is not None:
            with contextlib.suppress(OSError):  # there is none yet, or it can't be read: then there is no history
                self._history.touch(mode=0o600)
                self._editing.read_history_file(self._history)
            self._editing.set_history_length(1000)

    def close(self) -> None:
        """Keep what was typed."""
        if self._editing is not None:
            with contextlib.suppress(OSError):
                self._editing.write_history_file(self._history)
                self._history.chmod(0o600)

    async def line(self) -> str | None:
        """Return what is typed next; None at the end (Ctrl-D). Ctrl-C ends nothing here."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._show_again)
        try:
            # On a thread of ours: nothing can interrupt a read from a terminal, and it must not hold up the exit.
            typed: str = await self._threads.run(input, _SIGN if self._is_terminal else "")
            return typed.strip()
        except EOFError:
            if self._is_terminal:
                print()  # the shell's own prompt comes next, on a line of its own
            return None
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _show_again(self) -> None:
        begun = self._editing.get_line_buffer() if self._editing is not None else ""
        sys.stdout.write(f"\n(Ctrl-D ends the conversation.)\n{_SIGN if self._is_terminal else ''}{begun}")
        sys.stdout.flush()


def _line_editing() -> ModuleType | None:
    try:
        import readline  # noqa: PLC0415 - only for a conversation, and not everywhere
    except ImportError:
        return None
    return readline
