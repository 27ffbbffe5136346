"""The file tools (SPEC B): read, write, edit and list files of one `Workspace`."""

from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.results import Success
from handspan.core.tool import READ_ONLY, Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, JsonObject
from handspan.media.workers import MediaWorkers
from handspan.tools.decoding import HEAD, decode_part, detect_encoding, find_encoding, padded_length
from handspan.tools.directories import DirectoryEntry
from handspan.tools.media_files import MediaFiles
from handspan.tools.paths import quote_path
from handspan.tools.workspace import OpenedFile, Workspace

READ_LIMIT: Final = 1024 * 1024
"""The most bytes of one read."""
EDIT_LIMIT: Final = 16 * 1024 * 1024
LIST_LIMIT: Final = 10_000

_SECONDS: Final = 10.0
# Serial: two appends of one model response keep their order.
_CHANGES_FILES: Final = Annotations(destructive=True, serial=True)
_PATH: Final[JsonObject] = {
    "type": "string",
    "description": "Path of the file, relative to the workspace, such as 'notes/today.txt'.",
}


def file_tools(workspace: Workspace, media: MediaWorkers | None = None) -> tuple[Tool, ...]:
    """Returns all file tools for this workspace. Without `media`, images and PDF count as binary files."""
    return ReadFile(workspace, media), WriteFile(workspace), EditFile(workspace), ListDirectory(workspace)


class ReadFile:
    """Reads the text of a file, whole or a range; an image, or the text of a PDF."""

    spec = ToolSpec(
        name="read_file",
        description="Read a text file of the workspace, whole or from a byte offset on. An image comes as an image. "
        "A PDF comes as text: there, offset and limit count lines.",
        parameters={
            "type": "object",
            "properties": {
                "path": _PATH,
                "encoding": {
                    "type": "string",
                    "default": "UTF-8",
                    "description": "Encoding of the text, such as 'UTF-8'.",
                },
                "offset": {"type": "integer", "minimum": 0, "description": "First byte to read; default 0."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Bytes to read, {READ_LIMIT} at most; next_offset in the answer: where to go on.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=READ_ONLY,
    )

    def __init__(self, workspace: Workspace, media: MediaWorkers | None = None) -> None:
        self._workspace = workspace
        self._media = None if media is None else MediaFiles(media)

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject | Success:
        path = cast(str, arguments["path"])
        asked = find_encoding(cast(str, arguments.get("encoding", "UTF-8")))
        with self._workspace.open_file(path) as file:
            if self._media is not None:
                first, most = (
                    int(cast(float, arguments.get("offset", 0))),
                    int(cast(float, arguments.get("limit", 2**31))),
                )
                shown = self._media.read(file, path, first, most, ctx.deadline)
                if shown is not None:
                    return shown
            if "offset" not in arguments and "limit" not in arguments:
                return _read_whole(file, asked, path)
            # JSON Schema accepts 5.0 as an integer.
            offset = int(cast(float, arguments.get("offset", 0)))
            limit = int(cast(float, arguments.get("limit", READ_LIMIT)))
            return _read_range(file, offset, min(limit, READ_LIMIT), asked, path)


def _read_whole(file: OpenedFile, asked: str, path: str) -> JsonObject:
    if file.size > READ_LIMIT:
        raise ToolError(
            "file_too_large",
            f"{quote_path(path)} has {file.size} bytes, more than the {READ_LIMIT} that are read at once. "
            "Read it in parts with offset and limit, for example offset=0 and limit=60000.",
        )
    data = file.read(0, READ_LIMIT)
    encoding = detect_encoding(data[:HEAD], asked)
    return {"content": decode_part(data, 0, len(data), encoding, path).text}


def _read_range(file: OpenedFile, offset: int, limit: int, asked: str, path: str) -> JsonObject:
    encoding = detect_encoding(file.read(0, HEAD), asked)
    if not encoding.has_ranges:
        raise ToolError(
            "invalid_arguments", f"A file in {encoding.name} can't be read in parts. Leave out offset and limit."
        )
    # The operating system refuses an offset above 63 bits.
    start = min(offset, file.size)
    part = decode_part(file.read(start, padded_length(limit)), start, limit, encoding, path)
    return {
        "content": part.text,
        "offset": part.start,
        "size": file.size,
        "next_offset": part.end if part.end < file.size else None,
    }


class WriteFile:
    """Writes a file, or adds text to its end."""

    spec = ToolSpec(
        name="write_file",
        description="Write text to a file of the workspace, creating it and its directories if needed.",
        parameters={
            "type": "object",
            "properties": {
                "path": _PATH,
                "content": {"type": "string", "description": "The text to write, as UTF-8."},
                "mode": {
                    "type": "string",
                    "enum": ["overwrite", "append"],
                    "default": "overwrite",
                    "description": "Replace the whole file, or add to its end.",
                },
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=_CHANGES_FILES,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        path = cast(str, arguments["path"])
        data = encode_argument(arguments, "content")
        mode = cast(str, arguments.get("mode", "overwrite"))
        write = self._workspace.append if mode == "append" else self._workspace.write
        write(path, data, ctx.deadline)
        return {
            "message": f"Successfully wrote {len(data)} bytes to {path}",
            "path": path,
            "bytes_written": len(data),
            "mode": mode,
        }


class EditFile:
    """Replaces one piece of text."""

    spec = ToolSpec(
        name="edit_file",
        description="Replace a piece of text that occurs exactly once in a file of the workspace.",
        parameters={
            "type": "object",
            "properties": {
                "path": _PATH,
                "old_text": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The text to replace; it must occur exactly once.",
                },
                "new_text": {"type": "string", "description": "The text to put in its place."},
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=_CHANGES_FILES,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        path = cast(str, arguments["path"])
        old, new = encode_argument(arguments, "old_text"), encode_argument(arguments, "new_text")
        if old == new:
            raise ToolError("invalid_arguments", "old_text and new_text are the same: there is nothing to edit.")
        self._workspace.edit(path, lambda data: _replace_once(data, old, new, path), EDIT_LIMIT, ctx.deadline)
        return {"message": f"Successfully edited {path}", "path": path}


def _replace_once(data: bytes, old: bytes, new: bytes, path: str) -> bytes:
    if b"\0" in data:
        raise ToolError(
            "execution_failed", f"{quote_path(path)} is a binary file or UTF-16 text; only UTF-8 text can be edited."
        )
    old, new = _match_line_endings(data, old, new)
    place = data.find(old)
    if place < 0:
        raise ToolError(
            "invalid_arguments",
            f"old_text was not found in {quote_path(path)} (0 matches). Read the file and copy the text exactly.",
        )
    if data.find(old, place + 1) >= 0:
        count = max(data.count(old), 2)  # `count` does not see matches that overlap
        raise ToolError(
            "invalid_arguments",
            f"old_text appears {count} times in {quote_path(path)}; provide more context to make it unique.",
        )
    return data[:place] + new + data[place + len(old) :]


def _match_line_endings(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Returns both texts with the line endings of the file. A mixed file: old_text is tried unchanged first."""
    all_lines, windows_lines = data.count(b"\n"), data.count(b"\r\n")
    if windows_lines == 0:
        return _unix_lines(old), _unix_lines(new)
    if windows_lines < all_lines and old in data:
        return old, new
    return _windows_lines(old), _windows_lines(new)


def _unix_lines(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n")


def _windows_lines(text: bytes) -> bytes:
    return _unix_lines(text).replace(b"\n", b"\r\n")


class ListDirectory:
    """Lists the children of a directory."""

    spec = ToolSpec(
        name="list_directory",
        description="List the files and directories in a directory of the workspace, sorted by name.",
        parameters={
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "Path of the directory, relative to the workspace; '.' is the workspace itself.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        timeout=_SECONDS,
        annotations=READ_ONLY,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        listing = self._workspace.entries(cast(str, arguments["path"]), LIST_LIMIT, ctx.deadline)
        answer: JsonObject = {"entries": [_render_entry(entry) for entry in listing.entries]}
        if listing.total > len(listing.entries):
            answer["shown"] = len(listing.entries)
            answer["total"] = listing.total
            answer["message"] = (
                f"Showing the first {len(listing.entries)} of {listing.total} entries. "
                "To see others use exec_shell, for example with ls and grep."
            )
        return answer


def _render_entry(entry: DirectoryEntry) -> JsonObject:
    # JSON can't hold a name that is not UTF-8: its invalid bytes are written as \xNN.
    name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return {"name": name, "kind": entry.kind, "is_dir": entry.kind == "directory", "size": entry.size}


def encode_argument(arguments: Arguments, name: str) -> bytes:
    """Returns the argument as UTF-8. Raises `invalid_arguments` for a lone surrogate."""
    try:
        return cast(str, arguments[name]).encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            "invalid_arguments",
            f"{name} holds a lone surrogate at character {error.start}, which is no character. Leave it out.",
        ) from None
