"""An editor for a few lines of JSON at the terminal. Loads prompt_toolkit: only a terminal loads this module."""

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.document import Document
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.validation import ValidationError, Validator

from handspan.cli.ctrl_c import hear_ctrl_c
from handspan.core.errors import InvalidAnswer
from handspan.core.values import JsonObject, strip_invisible

_KEYS: Final = "  (Enter: run it so · Alt-Enter: new line · Ctrl-C: go back)\n"


class _ElsewhereError(Exception):
    """The person wants to go on in another editor."""


async def edit_json(
    text: str,
    check: Callable[[str], JsonObject],
    *,
    read_from: Input | None = None,
    write_to: Output | None = None,
) -> JsonObject | None:
    """Return the object that the person makes of this text; None when the person gives up.

    `check` reads the text, and raises `InvalidAnswer` while it does not fit. `read_from` and `write_to` replace the
    terminal.
    """
    program = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    keys = f"{_KEYS}  (Ctrl-X Ctrl-E: {program})\n" if program else _KEYS
    session: PromptSession[str] = PromptSession(
        message=keys,
        multiline=True,
        validator=_Check(check),
        validate_while_typing=False,
        key_bindings=_bindings(has_program=bool(program)),
        input=read_from,
        output=write_to or create_output(sys.stderr),
    )
    with hear_ctrl_c(lambda: None):  # Ctrl-C is a key of the editor
        while True:
            try:
                return check(await session.prompt_async(default=text, handle_sigint=False))
            except (EOFError, KeyboardInterrupt):
                return None
            except _ElsewhereError:
                text = await _edit_elsewhere(program, session.default_buffer.text)


class _Check(Validator):
    """Keeps the editor open while `check` refuses the text, and shows why."""

    def __init__(self, check: Callable[[str], JsonObject]) -> None:
        self._check = check

    def validate(self, document: Document) -> None:
        try:
            self._check(document.text)
        except InvalidAnswer as error:
            raise ValidationError(document.cursor_position, strip_invisible(str(error))) from None


def _bindings(*, has_program: bool) -> KeyBindings:
    """Return the keys: Enter is done, Escape Enter a new line, Ctrl-C gives up; Ctrl-X Ctrl-E opens another editor."""
    keys = KeyBindings()
    keys.add("enter")(lambda event: event.current_buffer.validate_and_handle())
    keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    keys.add("c-c")(lambda event: event.app.exit(exception=KeyboardInterrupt))
    if has_program:
        keys.add("c-x", "c-e")(lambda event: event.app.exit(exception=_ElsewhereError))
    return keys


async def _edit_elsewhere(program: str, text: str) -> str:
    """Return the text as the person left it in this program, which has the terminal meanwhile."""
    with tempfile.TemporaryDirectory(prefix="handspan-") as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(*shlex.split(program), str(file))
        except OSError as error:
            print(f"{program!r} can't be started: {error.strerror}. Set VISUAL or EDITOR.", file=sys.stderr)
            return text
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.shield(ended)
        finally:
            await ended  # also when the question is over meanwhile: two programs can't share a terminal
        return file.read_text(encoding="utf-8")
