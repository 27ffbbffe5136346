"""What a person types, line after line: plainly, or with editing where the terminal can (SPEC U2)."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

from handspan.engine.threads import Threads

_SIGN: Final = "> "


class PromptReader(Protocol):
    """Reads what a person says."""

    def open(self) -> None:
        """Get ready."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...

    async def line(self) -> str | None:
        """Return what is typed next; None at the end."""
        ...

    def write_above(self, write: Callable[[], None]) -> None:
        """Run this function, which writes lines, and show the prompt below them again."""
        ...


class PlainPrompt:
    """Reads line after line; at a terminal with a prompt, simple editing and a history that is kept in a file."""

    def __init__(self, history: Path) -> None:
        """A prompt for this terminal, if it is one."""
        self._history = history
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._editing = _line_editing() if self._is_terminal else None
        self._threads = Threads(cap=1)
        self._is_asking = False

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
        loop.add_signal_handler(signal.SIGINT, self._explain_end)
        self._is_asking = True
        try:
            # On a thread of ours: nothing can interrupt a read from a terminal, and it must not hold up the exit.
            typed: str = await self._threads.run(input, _SIGN if self._is_terminal else "")
            return typed.rstrip()
        except EOFError:
            if self._is_terminal:
                print()  # the shell's own prompt comes next, on a line of its own
            return None
        finally:
            self._is_asking = False
            loop.remove_signal_handler(signal.SIGINT)

    def write_above(self, write: Callable[[], None]) -> None:
        """Run this function, which writes lines, and show the prompt below them again."""
        if self._is_asking and self._is_terminal:
            sys.stdout.write("\n")
            write()
            self._show_again()
        else:
            write()

    def _explain_end(self) -> None:
        sys.stdout.write("\n(Ctrl-D ends the conversation.)\n")
        self._show_again()

    def _show_again(self) -> None:
        """Show the prompt with what was typed."""
        begun = self._editing.get_line_buffer() if self._editing is not None else ""
        sys.stdout.write(f"{_SIGN if self._is_terminal else ''}{begun}")
        sys.stdout.flush()


def _line_editing() -> ModuleType | None:
    try:
        import readline  # noqa: PLC0415 - only for a conversation, and not everywhere
    except ImportError:
        return None
    return readline
