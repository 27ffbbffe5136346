"""The memory tools (SPEC B): one MEMORY.md for each owner, in the state directory, private (SPEC S6)."""

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ConfigError, ToolError
from handspan.core.tool import READ_ONLY, Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.tools.files import utf8
from handspan.tools.workspace import Workspace

MEMORY_LIMIT: Final = 1024 * 1024
"""Bytes that one owner's memory may have."""

_FILE: Final = "MEMORY.md"
_SHOWN_PATH: Final = "memory/MEMORY.md"
_SECONDS: Final = 10.0
_PLAIN_OWNER: Final = r"[a-z0-9][a-z0-9_-]{0,63}"
_BLANK_LINE: Final = r"\n[^\S\n]*\n\s*"


def memory_tools(folder: Path) -> tuple[Tool, ...]:
    """The memory tools, with all memories below this folder."""
    return MemoryRead(folder), MemoryWrite(folder)


class MemoryRead:
    """The owner's memory, or the paragraphs that hold a text."""

    spec = ToolSpec(
        name="memory_read",
        description="Read the long-term memory, or only the paragraphs of it that contain a text.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Text that a paragraph must contain, in any case; leave it out to read everything.",
                },
            },
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=READ_ONLY,
    )

    def __init__(self, root: Path) -> None:
        self._memories = _Memories(root)

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        content = self._memories.read(ctx.who.owner)
        query = cast(str, arguments.get("query", ""))
        answer: JsonObject = _search(content or "", query) if query.strip() else {"content": content or ""}
        if content is None:
            answer["message"] = "No memory file found"
        return answer


class MemoryWrite:
    """Adds to the owner's memory, or replaces it."""

    spec = ToolSpec(
        name="memory_write",
        description="Add a paragraph to the long-term memory, or replace all of it.",
        parameters={
            "type": "object",
            "properties": {
                "content": {"type": "string", "description": "The text to remember, as Markdown."},
                "mode": {
                    "type": "string",
                    "enum": ["append", "overwrite"],
                    "default": "append",
                    "description": "Add to the end as a new paragraph, or replace everything.",
                },
            },
            "required": ["content"],
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=Annotations(destructive=True, serial=True),
    )

    def __init__(self, root: Path) -> None:
        self._memories = _Memories(root)

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        data = utf8(arguments, "content")
        mode = cast(str, arguments.get("mode", "append"))
        self._memories.write(ctx.who.owner, data, mode == "append", ctx.deadline)
        return {"message": f"Successfully wrote {len(data)} bytes to memory (mode: {mode})", "path": _SHOWN_PATH}


class _Memories:
    """One private folder for each owner."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, owner: str) -> str | None:
        """The whole memory; None when there is none."""
        if not self._folder(owner).is_dir():
            return None
        with self._opened(owner) as memory:
            data = _content(memory)
        return None if data is None else data.decode("utf-8", "replace").removeprefix("\ufeff")

    def write(self, owner: str, data: bytes, is_append: bool, until: Deadline | None) -> None:
        """Add a paragraph or replace everything. Writers wait for each other, also those of other processes."""
        self._make_private_folders(owner)
        with self._opened(owner) as memory, _alone_in(memory.path):
            old = (_content(memory) or b"") if is_append else b""
            new = old + _gap_after(old) + data
            if len(new) > MEMORY_LIMIT:
                raise ToolError(
                    "file_too_large",
                    f"The memory would have {len(new)} bytes; {MEMORY_LIMIT} are possible. Nothing was written. "
                    "Read it, then write a shorter version with mode 'overwrite'.",
                )
            memory.write(_FILE, new, until)

    def _opened(self, owner: str) -> Workspace:
        try:
            return Workspace(self._folder(owner), file_mode=0o600, folder_mode=0o700)
        except ConfigError as error:
            raise ToolError("execution_failed", "The memory can't be opened. Ask the person to look at it.") from error

    def _folder(self, owner: str) -> Path:
        """A name that no other owner's can be: others hold a dot and are made of a hash."""
        if re.fullmatch(_PLAIN_OWNER, owner):
            return self._root / owner
        return self._root / f"owner.{hashlib.sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"

    def _make_private_folders(self, owner: str) -> None:
        try:
            self._root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self._root, self._folder(owner)):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # SPEC S6, also for one that was there
        except OSError as error:
            raise ToolError(
                "execution_failed",
                f"The memory's folder can't be made: {error.strerror}. Ask the person to look at it.",
            ) from error


def _content(memory: Workspace) -> bytes | None:
    try:
        with memory.reading(_FILE) as file:
            if file.size > MEMORY_LIMIT:
                raise ToolError(
                    "file_too_large",
                    f"The memory has {file.size} bytes; {MEMORY_LIMIT} are possible. Ask the person to shorten "
                    "MEMORY.md, or replace it with mode 'overwrite'.",
                )
            return file.part(0, file.size)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Nobody else writes in this folder meanwhile: a lock that ends with the process, whatever happens."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _gap_after(old: bytes) -> bytes:
    """What makes a blank line between the old text and the next paragraph."""
    if not old or old.endswith(b"\n\n"):
        return b""
    return b"\n" if old.endswith(b"\n") else b"\n\n"


def _search(content: str, query: str) -> JsonObject:
    wanted = query.strip().casefold()
    paragraphs = re.split(_BLANK_LINE, content.replace("\r\n", "\n").strip())
    matches: list[Json] = [paragraph for paragraph in paragraphs if wanted in paragraph.casefold()]
    return {"query": query, "matches": matches, "count": len(matches)}
