"""Markdown while it arrives: which blocks are whole, and so can be shown for good."""

import re
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_CONTINUES: Final = re.compile(r"\s+\S")
"""A line that belongs to the block before it, even after an empty line: the inside of a list."""


class MarkdownBlocks:
    """Takes a text piece by piece, and gives its blocks when they are whole."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The whole lines of the block that arrives."""
        self._line = ""
        """The line that is not whole yet."""
        self._fence = ""
        """The fence of the code block that is open; empty outside of one."""
        self._is_after_empty = False

    @property
    def rest(self) -> str:
        """The part of the last block that has come: the block is not whole yet."""
        return "\n".join([*self._lines, self._line]).strip("\n")

    def add(self, text: str) -> list[str]:
        """Take more of the text, and return the blocks that are whole now."""
        *lines, self._line = (self._line + text).split("\n")
        return [block for line in lines if (block := self._take(line))]

    def end(self) -> str:
        """Return the last block, and begin anew."""
        rest = self.rest
        self._lines, self._line, self._fence, self._is_after_empty = [], "", "", False
        return rest

    def _take(self, line: str) -> str:
        """Take a whole line. If it begins a new block, return the block before it; else an empty text."""
        block = ""
        if self._is_after_empty and line.strip() and not self._fence and not _CONTINUES.match(line):
            block, self._lines = "\n".join(self._lines).strip("\n"), []
        self._lines.append(line)
        self._is_after_empty = not line.strip() and not self._fence
        self._note_fence(line)
        return block

    def _note_fence(self, line: str) -> None:
        """Note that this line opens or closes a block of code."""
        found = _FENCE.match(line)
        if found is None:
            return
        if not self._fence:
            self._fence = found[1]
        elif line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""
