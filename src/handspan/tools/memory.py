"""The memory tools (SPEC B): one private MEMORY.md for each owner, in the state directory (SPEC S6)."""

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
from handspan.core.tool import Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.tools.files import encode_argument
from handspan.tools.workspace import Workspace

MEMORY_LIMIT: Final = 1024 * 1024
"""The most bytes of one owner's memory."""

_FILE: Final = "MEMORY.md"
_REPORTED_PATH: Final = "memory/MEMORY.md"
_SECONDS: Final = 10.0
_PLAIN_OWNER: Final = r"[a-z0-9][a-z0-9_-]{0,63}"
_BLANK_LINE: Final = r"\n[^\S\n]*\n\s*"


def memory_tools(folder: Path) -> tuple[Tool, ...]:
    """Return the memory tools. All memories lie below this folder."""
    return MemoryRead(folder), MemoryWrite(folder)


class MemoryRead:
    """Reads the owner's memory, or the paragraphs of it that contain a text."""

    spec = ToolSpec(
        name="memory_read",
        description="Read the long-term memory, or only the paragraphs of it that contain a text.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Text that a paragraph must contain (upper or lower case); without it, all is read.",
                },
            },
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=Annotations(read_only=True, idempotent=True, group="memory"),
    )

    def __init__(self, root: Path) -> None:
        self._memories = _MemoryFolders(root)

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
        annotations=Annotations(destructive=True, serial=True, group="memory"),
    )

    def __init__(self, root: Path) -> None:
        self._memories = _MemoryFolders(root)

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        data = encode_argument(arguments, "content")
        mode = cast(str, arguments.get("mode", "append"))
        self._memories.write(ctx.who.owner, data, mode == "append", ctx.deadline)
        size = f"{len(data)} byte{'' if len(data) == 1 else 's'}"
        return {"message": f"Successfully wrote {size} to memory (mode: {mode})", "path": _REPORTED_PATH}


class _MemoryFolders:
    """The memories of all owners: each owner has a private folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, owner: str) -> str | None:
        """Return the owner's whole memory; None when there is none."""
        if not self._folder_of(owner).is_dir():
            return None
        with self._open_folder(owner) as memory:
            data = _read_memory(memory)
        return None if data is None else data.decode("utf-8", "replace").removeprefix("\ufeff")

    def write(self, owner: str, data: bytes, is_append: bool, deadline: Deadline | None) -> None:
        """Add a paragraph, or replace everything. Writers wait for each other, also in different processes."""
        self._make_private_folders(owner)
        with self._open_folder(owner) as memory, _lock_folder(memory.path):
            old = (_read_memory(memory) or b"") if is_append else b""
            new = old + _blank_line_after(old) + data
            if len(new) > MEMORY_LIMIT:
                raise ToolError(
                    "file_too_large",
                    f"The memory would have {len(new)} bytes; {MEMORY_LIMIT} are possible. Nothing was written. "
                    "Read it, then write a shorter version with mode 'overwrite'.",
                )
            memory.write(_FILE, new, deadline)

    def _open_folder(self, owner: str) -> Workspace:
        try:
            return Workspace(self._folder_of(owner), file_mode=0o600, folder_mode=0o700, is_shared=False)
        except ConfigError as error:
            raise ToolError(
                "execution_failed", "The memory can't be opened. Ask the person to check the folder."
            ) from error

    def _folder_of(self, owner: str) -> Path:
        """Return the owner's folder. A plain name is its name; any other name becomes `owner.` and a hash."""
        if re.fullmatch(_PLAIN_OWNER, owner):
            return self._root / owner
        return self._root / f"owner.{hashlib.sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"

    def _make_private_folders(self, owner: str) -> None:
        try:
            self._root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self._root, self._folder_of(owner)):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # SPEC S6, also for a folder that existed before
        except OSError as error:
            raise ToolError(
                "execution_failed",
                f"The memory's folder can't be made: {error.strerror}. Ask the person to check the folder.",
            ) from error


def _read_memory(memory: Workspace) -> bytes | None:
    try:
        with memory.open_file(_FILE) as file:
            if file.size > MEMORY_LIMIT:
                raise ToolError(
                    "file_too_large",
                    f"The memory has {file.size} bytes; {MEMORY_LIMIT} are possible. Ask the person to shorten "
                    "MEMORY.md, or replace it with mode 'overwrite'.",
                )
            return file.read(0, file.size)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder against other writers during the block. The end of the process ends the lock, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _blank_line_after(old: bytes) -> bytes:
    """Return the line ends that separate the old text from the next paragraph."""
    if not old or old.endswith(b"\n\n"):
        return b""
    return b"\n" if old.endswith(b"\n") else b"\n\n"


def _search(content: str, query: str) -> JsonObject:
    wanted = query.strip().casefold()
    paragraphs = re.split(_BLANK_LINE, content.replace("\r\n", "\n").strip())
    matches: list[Json] = [paragraph for paragraph in paragraphs if wanted in paragraph.casefold()]
    return {"query": query, "matches": matches, "count": len(matches)}
