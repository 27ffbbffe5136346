"""Line after line at a prompt, until the person ends the conversation."""

import asyncio
import sys
from typing import TYPE_CHECKING

from handspan.cli import late
from handspan.cli.chat.commands import SlashCommands
from handspan.cli.chat.prompt import PlainPrompt
from handspan.cli.chat.terminal_chat import TerminalChat
from handspan.cli.ctrl_c import hear_ctrl_c
from handspan.cli.options import read_place

if TYPE_CHECKING:
    from handspan.cli.chat.editor import LineEditor


async def converse_at_prompt(talk: TerminalChat, *, can_do_more: bool) -> None:
    """Talk until the person ends the conversation. `can_do_more`: standard output can do more than write letters."""
    commands, history = SlashCommands(talk), read_place().state / "chat_history"
    if not (sys.stdin.isatty() and can_do_more):
        prompt = PlainPrompt(history)
        talk.write_above = prompt.write_above
        prompt.open()
        try:
            await converse(commands, prompt)
        finally:
            prompt.close()
        return
    editor = late.editor.make_editor(history, commands.names)
    talk.on_link = editor.link
    talk.write_above = editor.write_above
    await converse(commands, editor)


async def converse(commands: SlashCommands, reader: "PlainPrompt | LineEditor") -> None:
    """Answer line after line, until the person ends the conversation."""
    while (line := await reader.line()) is not None:
        if not await _answer(commands, line):
            return


async def _answer(commands: SlashCommands, line: str) -> bool:
    """Answer a line. Ctrl-C aborts the answer, not the conversation."""
    with hear_ctrl_c(lambda: answering.cancel()):
        answering = asyncio.create_task(commands.answer(line))
        try:
            return await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            commands.note_aborted()
            return True
