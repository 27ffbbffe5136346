"""What a person types, line after line, where no editor can be had: pipes and simple terminals (SPEC U2)."""

import asyncio
import contextlib
import os
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from handspan.cli.ctrl_c import hear_ctrl_c
from handspan.engine.threads import Threads

_SIGN: Final = "> "
_CTRL_C: Final = "\x03"
_CTRL_C_KEY: Final = r'"\C-c": "\C-e\C-v\C-c\r"'
"""A binding of readline: Ctrl-C ends the line, and is its last character."""
_AGAIN: Final = "(Ctrl-C again ends the conversation.)"


class PlainPrompt:
    """Reads line after line; at a terminal with a prompt, simple editing and a history in a file."""

    def __init__(self, history: Path) -> None:
        """`history` is the file with lines of earlier conversations."""
        self._history = history
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._editing = _line_editing() if self._is_terminal else None
        self._threads = Threads(cap=1)
        self._is_armed = False
        """Whether Ctrl-C was pressed and nothing typed since: the next Ctrl-C ends the conversation."""
        self._ended = asyncio.Event()
        self._is_asking = False
        """Whether the prompt waits for a line."""

    def open(self) -> None:
        """Load what was typed in earlier conversations."""
        if self._editing is not None:
            self._editing.parse_and_bind(_CTRL_C_KEY)
            self._editing.set_auto_history(False)
            with contextlib.suppress(OSError):  # there is none yet, or it can't be read: then there is no history
                self._history.touch(mode=0o600)
                self._editing.read_history_file(self._history)
            self._editing.set_history_length(1000)

    def close(self) -> None:
        """Write the history to its file."""
        if self._editing is not None:
            with contextlib.suppress(OSError):
                self._editing.write_history_file(self._history)
                self._history.chmod(0o600)

    async def line(self) -> str | None:
        """Return what is typed next; None at the end: Ctrl-D, or Ctrl-C twice.

        The first Ctrl-C clears what is typed. Where no person types, nothing is cleared: Ctrl-C ends the command.
        """
        self._is_armed, self._ended = False, asyncio.Event()
        with hear_ctrl_c(self._interrupt) if sys.stdin.isatty() else contextlib.nullcontext(), self._ctrl_c_as_key():
            typed = await self._read()
            while typed is not None and typed.endswith(_CTRL_C):
                self._is_armed &= typed == _CTRL_C
                self._interrupt()
                typed = None if self._ended.is_set() else await self._read()
        if typed and self._editing is not None:
            self._editing.add_history(typed)
        return typed

    async def _read(self) -> str | None:
        """Return one line; None at the end. With editing, Ctrl-C ends a line, too, and is its last character."""
        # On a thread of ours: nothing can interrupt a read from a terminal, and it must not hold up the exit.
        reading = asyncio.create_task(self._threads.run(input, _SIGN if self._is_terminal else ""))
        ended = asyncio.create_task(self._ended.wait())
        self._is_asking = True
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            typed: str | None = None if self._ended.is_set() else reading.result().rstrip()
            return typed
        except EOFError:
            if self._is_terminal:
                print()  # the shell's own prompt comes next, on a line of its own
            return None
        finally:
            ended.cancel()
            reading.cancel()
            self._is_asking = False

    def _interrupt(self) -> None:
        """End the conversation at the second Ctrl-C. A terminal without editing has cleared its line by itself."""
        if self._is_armed:
            self._ended.set()
            return
        self._is_armed = True
        sign = _SIGN if self._is_terminal and self._editing is None else ""
        print(f"{'' if self._editing else chr(10)}{_AGAIN}\n{sign}", end="", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def _ctrl_c_as_key(self) -> Iterator[None]:
        """Open a block in which Ctrl-C is a key for readline: its line can't be cleared in any other way."""
        if self._editing is None:
            yield
            return
        before, changed = termios.tcgetattr(sys.stdin), termios.tcgetattr(sys.stdin)
        changed[6][termios.VINTR] = bytes([os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE")])
        termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)

    def write_above(self, write: Callable[[], None]) -> None:
        """Run this function, which writes lines, and show the prompt below them again."""
        if self._is_asking and self._is_terminal:
            sys.stdout.write("\n")
            write()
            self._show_again()
        else:
            write()

    def _show_again(self) -> None:
        """Show the prompt with what was typed."""
        begun = self._editing.get_line_buffer() if self._editing is not None else ""
        sys.stdout.write(f"{_SIGN if self._is_terminal else ''}{begun}")
        sys.stdout.flush()


def _line_editing() -> ModuleType | None:
    """Return readline; None where it is missing, or is the other library of that name, whose keys are others."""
    try:
        import readline  # noqa: PLC0415 - only for a conversation, and not everywhere
    except ImportError:
        return None
    return None if "libedit" in (readline.__doc__ or "") else readline
