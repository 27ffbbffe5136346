"""What a person types, line after line: plainly, or with editing where the terminal can (SPEC U2)."""

import asyncio
import contextlib
import signal
import sys
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


class PlainPrompt:
    """Reads line after line; at a terminal with a prompt, simple editing and a history that is kept in a file."""

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
            return typed.rstrip()
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
