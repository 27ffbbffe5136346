"""The file tools (SPEC B): read, write, edit and list files of one `Workspace`."""

import json
import re
from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.results import Success
from handspan.core.tool import READS_WORKSPACE, Annotations, Tool, ToolSpec, boolean, integer, parameters, string
from handspan.core.values import Arguments, JsonObject, escape_invisible, strip_invisible
from handspan.media.workers import MediaWorkers
from handspan.tools.decoding import HEAD, detect_encoding, find_encoding, is_utf8
from handspan.tools.directories import DirectoryEntry
from handspan.tools.media_files import MediaFiles, is_media
from handspan.tools.paths import quote_path
from handspan.tools.result_sources import FROM_FILE
from handspan.tools.text_pages import PageReader
from handspan.tools.workspace import REWRITE_LIMIT, Workspace

RESULT_LIMIT: Final = 64 * 1024
EDIT_LIMIT: Final = 16 * 1024 * 1024
LIST_LIMIT: Final = 10_000

_ENVELOPE: Final = 64
"""Bytes of a result that are not its text."""
_SECONDS: Final = 10.0
# Serial, so that two appends of one reply of the model keep their order.
_CHANGES_FILES: Final = Annotations(destructive=True, serial=True, group="workspace")
_PATH: Final = string("Path of the file, relative to the workspace, such as 'notes/today.txt'.")


def file_tools(
    workspace: Workspace, result_limit: int = RESULT_LIMIT, media: MediaWorkers | None = None
) -> tuple[Tool, ...]:
    """Return all file tools for this workspace. `result_limit`: the engine's limit; pages of `read_file` stay below it.

    Without `media`, images and PDF count as binary files.
    """
    read = ReadFile(workspace, result_limit, media)
    return read, WriteFile(workspace), EditFile(workspace), ListDirectory(workspace)


class ReadFile:
    """Reads the text of a file or PDF, whole or a page of lines; or an image."""

    spec = ToolSpec(
        name="read_file",
        description="Read a text file, an image or a PDF of the workspace. An image comes as an image, a PDF as text. "
        "A long text comes in pages; the last line says how to read on.",
        parameters=parameters(
            "path",
            path=_PATH,
            encoding=string("Encoding of the text, such as 'UTF-8'.", default="UTF-8"),
            offset=integer("The line to begin at; 1, the first line, by default.", minimum=0),
            limit=integer("How many lines; as many as fit by default.", minimum=1),
        ),
        timeout=_SECONDS,
        annotations=READS_WORKSPACE,
    )
    handling: Final = FROM_FILE

    def __init__(
        self, workspace: Workspace, result_limit: int = RESULT_LIMIT, media: MediaWorkers | None = None
    ) -> None:
        self._workspace = workspace
        self._room = result_limit - _ENVELOPE
        self._media = None if media is None else MediaFiles(media, self._room)

    def run(self, arguments: Arguments, ctx: ToolContext) -> str | Success:
        """Return a page of the file's text; of an image or a PDF, what models can see."""
        path = cast(str, arguments["path"])
        asked = find_encoding(cast(str, arguments.get("encoding", "UTF-8")))
        # JSON Schema accepts 5.0 as an integer.
        first = max(1, int(cast(float, arguments.get("offset", 1))))
        limit = int(cast(float, arguments["limit"])) if "limit" in arguments else None
        with self._workspace.open_file(path) as file:
            if self._media is not None and is_media(file):
                return self._media.read(file, path, first, limit, deadline=ctx.deadline)
            encoding = detect_encoding(file.read(0, HEAD), asked)
            return PageReader(file, encoding, path, self._room, deadline=ctx.deadline).read(first, limit)


class WriteFile:
    """Writes a file, or adds text to its end."""

    spec = ToolSpec(
        name="write_file",
        description="Write text to a file of the workspace, creating it and its directories if needed.",
        parameters=parameters(
            "path",
            "content",
            path=_PATH,
            content=string("The text to write, as UTF-8."),
            mode=string(
                "Replace the whole file, or add to its end.", enum=["overwrite", "append"], default="overwrite"
            ),
        ),
        timeout=_SECONDS,
        annotations=_CHANGES_FILES,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Write the file, or append to it, and return how many bytes."""
        path = cast(str, arguments["path"])
        data = encode_argument(arguments, "content")
        mode = cast(str, arguments.get("mode", "overwrite"))
        if mode == "append":
            self._check_encoding(path, data)
            self._workspace.append(path, data, ctx.deadline)
        else:
            self._workspace.write(path, data, ctx.deadline)
        return {
            "message": f"Successfully wrote {len(data)} byte{'' if len(data) == 1 else 's'} to {path}",
            "path": path,
            "bytes_written": len(data),
            "mode": mode,
        }

    def _check_encoding(self, path: str, data: bytes) -> None:
        """Raise `execution_failed` when the file has another encoding, in which the new text would be unreadable."""
        try:
            with self._workspace.open_file(path) as file:
                is_wide = detect_encoding(file.read(0, HEAD), "utf-8").unit > 1
                is_mixed = is_wide or not (data.isascii() or file.size > REWRITE_LIMIT or is_utf8(file.chunks()))
        except ToolError as error:
            if error.code == "file_not_found":
                return
            raise
        if is_mixed:
            kind = "UTF-16 or UTF-32 text" if is_wide else "not UTF-8 text"
            raise ToolError(
                "execution_failed",
                f"{quote_path(path)} is {kind}, and content is written as UTF-8; nothing was changed. Write to another "
                "file, or convert this one first, such as with iconv in exec_shell.",
            )


class EditFile:
    """Replaces a text in a file: its one occurrence, or all of them."""

    spec = ToolSpec(
        name="edit_file",
        description="Replace a text in a file of the workspace. It must occur exactly once, or replace_all be true.",
        parameters=parameters(
            "path",
            "old_text",
            "new_text",
            path=_PATH,
            old_text=string("The text to replace, exactly as it stands in the file.", minLength=1),
            new_text=string("The text to put in its place."),
            replace_all=boolean("True replaces every occurrence, such as a name in the whole file."),
        ),
        timeout=_SECONDS,
        annotations=_CHANGES_FILES,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Replace a text in the file."""
        path = cast(str, arguments["path"])
        old, new = encode_argument(arguments, "old_text"), encode_argument(arguments, "new_text")
        if old == new:
            raise ToolError("invalid_arguments", "old_text and new_text are the same: there is nothing to edit.")
        is_for_all = bool(arguments.get("replace_all", False))
        edit = _Replacement(old, new, path, is_for_all=is_for_all)
        self._workspace.edit(path, edit.apply, EDIT_LIMIT, ctx.deadline)
        answer: JsonObject = {"message": f"Successfully edited {path}", "path": path}
        return answer | {"replaced": edit.count} if is_for_all else answer


class _Replacement:
    """Replaces a text in the bytes of a file, and counts the replacements."""

    def __init__(self, old: bytes, new: bytes, path: str, *, is_for_all: bool) -> None:
        self._old = old
        self._new = new
        self._path = path
        self._is_for_all = is_for_all
        self.count = 0

    def apply(self, data: bytes) -> bytes:
        """Return the bytes with the new text. Raises `ToolError` when the old text is missing or not unique."""
        if b"\0" in data:
            text = f"{quote_path(self._path)} is a binary file or UTF-16 text; only UTF-8 text can be edited."
            raise ToolError("execution_failed", text)
        old, new = _match_line_endings(data, self._old, self._new)
        if not is_utf8((data,)):
            self._check_ascii(data, old, new)
        place = data.find(old)
        if place < 0:
            raise ToolError("invalid_arguments", self._explain_missing(data, old))
        if not self._is_for_all and data.find(old, place + 1) >= 0:
            raise ToolError("invalid_arguments", self._explain_repeated(data, old))
        self.count = data.count(old) if self._is_for_all else 1
        return data.replace(old, new, self.count)

    def _check_ascii(self, data: bytes, old: bytes, new: bytes) -> None:
        """Raise `execution_failed` if an edit of text in an unknown encoding could break a character.

        In some encodings, such as Shift JIS, the second byte of a character looks like ASCII.
        """
        if not (old + new).isascii() or re.search(rb"[\x80-\xff]" + re.escape(old), data):
            raise ToolError(
                "execution_failed",
                f"{quote_path(self._path)} is not UTF-8 text: only ASCII text that follows ASCII text can be edited in "
                "it. Convert it first, such as with iconv in exec_shell.",
            )

    def _explain_missing(self, data: bytes, old: bytes) -> str:
        """Return why the text is not found, as far as that can be seen."""
        text = f"old_text was not found in {quote_path(self._path)} (0 matches)."
        if invisible := _find_invisible(data.decode("utf-8", "replace"), old.decode()):
            return f"{text} {invisible}"
        first = next((line.strip() for line in old.splitlines() if line.strip()), b"")
        place = data.find(first) if first else -1
        if place >= 0:
            text += f" Its first line is in line {_line_of(data, place)}; the text around it differs."
        return f"{text} Read the file and copy the text exactly."

    def _explain_repeated(self, data: bytes, old: bytes) -> str:
        """Return why the text is not replaced: it appears more than once. Name the lines."""
        lines: list[str] = []
        place = data.find(old)
        while place >= 0 and len(lines) < _MAX_PLACES:
            lines.append(str(_line_of(data, place)))
            place = data.find(old, place + 1)
        count = max(data.count(old), 2)  # `bytes.count` does not count matches that overlap
        more = ", …" if place >= 0 else ""
        return (
            f"old_text appears {count} times in {quote_path(self._path)} (lines {', '.join(lines)}{more}); provide "
            "more context to make it unique, or set replace_all."
        )


_MAX_PLACES: Final = 10
_LONGEST_PASSAGE: Final = 1000


def _find_invisible(text: str, old: str) -> str:
    """Return which invisible characters keep `old` from being found, and where; empty when there is another reason.

    Invisible characters are removed from what a model reads (SPEC S4), so a copy of that text can't match.
    """
    wanted, seen = strip_invisible(old), strip_invisible(text)
    place = seen.find(wanted) if wanted else -1
    if place < 0:
        return ""
    first = seen.count("\n", 0, place)
    passage = "\n".join(text.split("\n", first + wanted.count("\n") + 1)[first : first + wanted.count("\n") + 1])
    codes = sorted({f"U+{ord(character):04X}" for character in passage if not strip_invisible(character)})
    if not codes:  # the invisible characters are in old_text itself
        return "Without invisible characters it would be found: leave them out of old_text."
    return (
        f"Line {first + 1} holds invisible characters ({', '.join(codes[:_MAX_PLACES])}), which were removed from what "
        f"you read. It is, as JSON: {_clip(escape_invisible(json.dumps(passage, ensure_ascii=False)))}"
    )


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_PASSAGE else f"{text[:_LONGEST_PASSAGE]}…"


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, place) + 1


def _match_line_endings(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Return both texts with the line endings of the file. If these are mixed, `old` is tried unchanged first.

    Texts that differ only in line endings stay as they are: such an edit changes line endings.
    """
    all_lines, windows_lines = data.count(b"\n"), data.count(b"\r\n")
    if _unix_lines(old) == _unix_lines(new):
        return old, new
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
        parameters=parameters(
            "path", path=string("Path of the directory, relative to the workspace; '.' is the workspace itself.")
        ),
        timeout=_SECONDS,
        annotations=READS_WORKSPACE,
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Return the entries of a folder, as many as fit."""
        listing = self._workspace.entries(cast(str, arguments["path"]), LIST_LIMIT, ctx.deadline)
        answer: JsonObject = {"entries": [_render_entry(entry) for entry in listing.entries]}
        if listing.total > len(listing.entries):
            answer["shown"] = len(listing.entries)
            answer["total"] = listing.total
            answer["message"] = (
                f"Showing the first {len(listing.entries)} of {listing.total} entries. "
                "find_files finds others by a pattern of their names."
            )
        return answer


def _render_entry(entry: DirectoryEntry) -> JsonObject:
    # JSON can't have a name that is not UTF-8: invalid bytes are written as \xNN.
    name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return {"name": name, "kind": entry.kind, "is_dir": entry.kind == "directory", "size": entry.size}


def encode_argument(arguments: Arguments, name: str) -> bytes:
    """Return the argument as UTF-8. Raises `invalid_arguments` for a lone surrogate."""
    try:
        return cast(str, arguments[name]).encode()
    except UnicodeEncodeError as error:
        text = f"{name} holds a lone surrogate at character {error.start}, which is no character. Leave it out."
        raise ToolError("invalid_arguments", text) from None
