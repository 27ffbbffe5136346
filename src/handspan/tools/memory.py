"""The memory tools (SPEC B): one private MEMORY.md for each owner, in the state directory (SPEC S6)."""

import hashlib
import re
from pathlib import Path
from typing import Final, cast

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ConfigError, ToolError
from handspan.core.tool import Annotations, Tool, ToolSpec, parameters, string
from handspan.core.values import Arguments, Json, JsonObject
from handspan.tools.files import encode_argument
from handspan.tools.workspace import REWRITE_LIMIT, Workspace

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
        parameters=parameters(
            query=string("Text that a paragraph must contain (upper or lower case); without it, all is read.")
        ),
        timeout=_SECONDS,
        annotations=Annotations(read_only=True, idempotent=True, group="memory"),
    )

    def __init__(self, root: Path) -> None:
        self._memories = MemoryFolders(root)

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
        parameters=parameters(
            "content",
            content=string("The text to remember, as Markdown."),
            mode=string(
                "Add to the end as a new paragraph, or replace everything.",
                enum=["append", "overwrite"],
                default="append",
            ),
        ),
        timeout=_SECONDS,
        annotations=Annotations(destructive=True, serial=True, group="memory"),
    )

    def __init__(self, root: Path) -> None:
        self._memories = MemoryFolders(root)

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        data = encode_argument(arguments, "content")
        mode = cast(str, arguments.get("mode", "append"))
        self._memories.write(ctx.who.owner, data, is_append=mode == "append", deadline=ctx.deadline)
        size = f"{len(data)} byte{'' if len(data) == 1 else 's'}"
        return {"message": f"Successfully wrote {size} to memory (mode: {mode})", "path": _REPORTED_PATH}


class MemoryFolders:
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

    def write(self, owner: str, data: bytes, *, is_append: bool, deadline: Deadline | None) -> None:
        """Add a paragraph, or replace everything. Writers wait for each other, also in different processes."""
        self._make_private_folders(owner)
        with self._open_folder(owner) as memory:
            if is_append:
                memory.edit(_FILE, lambda old: _add(old, data), REWRITE_LIMIT, deadline, creates=True)
            else:
                memory.write(_FILE, _add(b"", data), deadline)

    def _open_folder(self, owner: str) -> Workspace:
        try:
            return Workspace(self._folder_of(owner), file_mode=0o600, folder_mode=0o700)
        except ConfigError as error:
            text = "The memory can't be opened. Ask the person to check the folder."
            raise ToolError("execution_failed", text) from error

    def _folder_of(self, owner: str) -> Path:
        """Return the owner's folder. A plain name is its name; any other name becomes `owner.` and a hash."""
        if re.fullmatch(_PLAIN_OWNER, owner):
            return self._root / owner
        return self._root / f"owner.{hashlib.sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"

    def _make_private_folders(self, owner: str) -> None:
        """Make the folders, which only the gateway's user can read."""
        try:
            self._root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self._root, self._folder_of(owner)):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)  # SPEC S6, also for a folder that existed before
        except OSError as error:
            text = f"The memory's folder can't be made: {error.strerror}. Ask the person to check the folder."
            raise ToolError("execution_failed", text) from error


def _read_memory(memory: Workspace) -> bytes | None:
    """Return the memory; None if there is none yet."""
    try:
        with memory.open_file(_FILE) as file:
            _check_size(file.size)
            return file.read(0, file.size)
    except ToolError as error:
        if error.code == "file_not_found":
            return None
        raise


def _check_size(size: int) -> None:
    if size > MEMORY_LIMIT:
        raise ToolError(
            "file_too_large",
            f"The memory has {size} bytes; {MEMORY_LIMIT} are possible. Ask the person to shorten "
            "MEMORY.md, or replace it with mode 'overwrite'.",
        )


def _add(old: bytes, data: bytes) -> bytes:
    """Return the memory with one more paragraph. Raises `file_too_large`."""
    _check_size(len(old))
    new = old + _blank_line_after(old) + data
    if len(new) > MEMORY_LIMIT:
        raise ToolError(
            "file_too_large",
            f"The memory would have {len(new)} bytes; {MEMORY_LIMIT} are possible. Nothing was written. "
            "Read it, then write a shorter version with mode 'overwrite'.",
        )
    return new


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
