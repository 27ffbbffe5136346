"""Completion of what begins with `/`: commands, tools, agents, sessions, models, skills, files.

Loads prompt_toolkit, so only a terminal loads this module.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from handspan.cli.chat.commands import COMMANDS
from handspan.cli.render import one_line, shorten_line
from handspan.core.errors import HandspanError

CompletionNames: TypeAlias = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""Returns the names of a kind (`tools`, `agents` …), each with a few words."""
_ABOUT: Final = 72
"""Columns of the words beside a name."""


class CommandCompleter(Completer):
    """Completes the line that is typed. Names are asked for once a line: while a person types, they stay the same."""

    def __init__(self, names: CompletionNames) -> None:
        self._names = names
        self._known: dict[str, Sequence[tuple[str, str]]] = {}
        self._line = ""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: only the other way can ask the gateway."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the words that fit what is typed before the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, begun = text.partition(" ")
        if command != self._line:
            self._line, self._known = command, {}
        for name, about in await self._find(command, begun if space else None):
            typed = begun if space else command
            if name.casefold().startswith(typed.casefold()):
                yield Completion(name, start_position=-len(typed), display_meta=shorten_line(one_line(about), _ABOUT))

    async def _find(self, command: str, begun: str | None) -> Sequence[tuple[str, str]]:
        """Return the names that may stand here: commands and tools, or names for the argument of a command."""
        if begun is None:
            tools = [(f"/{name}", about) for name, about in await self._of_kind("tools")]
            return [*((name, one.help) for name, one in COMMANDS.items()), *tools]
        kind = COMMANDS[command].completes if command in COMMANDS else ""
        if kind == "files":
            return await asyncio.to_thread(_files, begun)
        return await self._of_kind(kind) if kind else ()

    async def _of_kind(self, kind: str) -> Sequence[tuple[str, str]]:
        if kind not in self._known:
            try:
                self._known[kind] = await self._names(kind)
            except HandspanError:  # the gateway is away: there is nothing to offer
                return ()
        return self._known[kind]


def _files(begun: str) -> list[tuple[str, str]]:
    """Return the files and folders that the path may become."""
    folder, _, _ = begun.rpartition("/")
    shown = f"{folder}/" if "/" in begun else ""
    try:
        found = sorted((Path(shown).expanduser() if shown else Path()).iterdir())[:200]
    except OSError:
        return []
    return [(f"{shown}{path.name}{'/' if path.is_dir() else ''}", "") for path in found if path.name[:1] != "."]
