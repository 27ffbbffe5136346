"""A prompt with editing: several lines, history, completion. Loads prompt_toolkit: only a terminal loads this module.

Enter sends, Alt-Enter begins a new line, and a paste of several lines is one message. Ctrl-C clears what is typed; a
second one ends the conversation, as Ctrl-D on an empty line does.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from handspan.cli.chat.word_completion import CommandCompleter, CompletionNames
from handspan.cli.ctrl_c import hear_ctrl_c

_LONGEST: Final = 1000
"""Lines of the history that are kept."""
_STYLE: Final = Style.from_dict({"prompt": "bold ansicyan", "rprompt": "ansibrightblack"})
_AGAIN: Final = "Ctrl-C again ends"


def make_editor(history: Path, names: CompletionNames) -> "LineEditor":
    """Return an editor at this terminal; `names` returns the names of a kind, for completion."""
    return LineEditor(history, CommandCompleter(names))


class LineEditor:
    """Reads what a person types, as `PlainPrompt` does."""

    def __init__(
        self, history: Path, completer: Completer, *, read_from: Input | None = None, write_to: Output | None = None
    ) -> None:
        """`read_from` and `write_to` replace the terminal."""
        self._is_armed = False
        """Whether Ctrl-C was pressed and nothing typed since: the next Ctrl-C ends the conversation."""
        self._is_away = False
        """Whether the gateway is away."""
        self._writing: set[asyncio.Future[None]] = set()
        """Lines that are being written above the prompt."""
        self._session: PromptSession[str] = PromptSession(
            message=[("class:prompt", "> ")],
            multiline=True,
            prompt_continuation=[("class:prompt", "· ")],
            history=FileOfLines(history),
            completer=completer,
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            key_bindings=self._bindings(),
            rprompt=self._hint,
            style=_STYLE,
            input=read_from,
            output=write_to,
        )
        self._session.default_buffer.on_text_changed += self._disarm

    async def line(self) -> str | None:
        """Return what is typed next; None at the end."""
        self._is_armed = False
        try:
            with hear_ctrl_c(self._session.app.key_processor.send_sigint):
                return (await self._session.prompt_async(handle_sigint=False)).rstrip()
        except (EOFError, KeyboardInterrupt):
            return None

    def link(self, is_up: bool) -> None:
        """Show at the prompt whether the gateway is away."""
        self._is_away = not is_up
        self._session.app.invalidate()

    def write_above(self, write: Callable[[], None]) -> None:
        """Run this function, which writes lines, and show the prompt below them again."""
        if self._session.app.is_running:
            writing = asyncio.ensure_future(run_in_terminal(write))
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
        else:
            write()

    def _hint(self) -> StyleAndTextTuples:
        words = "reconnecting…" if self._is_away else _AGAIN if self._is_armed else ""
        return [("class:rprompt", words)]

    def _disarm(self, _: object) -> None:
        if self._session.default_buffer.text:
            self._is_armed = False

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._enter)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        """Take the completion that is chosen, or send the message."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        else:
            buffer.validate_and_handle()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Clear the line at the first Ctrl-C, and end the conversation at the second."""
        if self._is_armed:
            event.app.exit(exception=EOFError, style="class:exiting")
            return
        event.current_buffer.reset()
        self._is_armed = True
        event.app.invalidate()


class FileOfLines(History):
    """The history in a file, an entry a line; an entry of several lines as a JSON text. `PlainPrompt` reads it, too."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """Return what was typed, the last first."""
        with contextlib.suppress(OSError):
            lines = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
            return [_read_entry(line) for line in reversed(lines[-_LONGEST:])]
        return []

    def store_string(self, string: str) -> None:
        """Store an entry. A file that has become long keeps only its last entries."""
        line = msgspec.json.encode(string).decode() if "\n" in string or string.startswith('"') else string
        with contextlib.suppress(OSError):  # the conversation goes on without a history
            self._file.touch(mode=0o600)
            self._file.chmod(0o600)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            lines = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
            if len(lines) > 2 * _LONGEST:
                self._file.write_text("\n".join([*lines[-_LONGEST:], ""]), encoding="utf-8")


def _read_entry(line: str) -> str:
    if line.startswith('"'):
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(line, type=str)
    return line
