"""What a call would change in a file, as a diff: a person who is asked sees the change, not its JSON (SPEC P5)."""

import contextlib
import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from handspan.core.questions import Question
from handspan.core.values import escape_invisible

WRITERS: Final = ("edit_file", "write_file")
"""The tools of which calls have a diff."""
IN_DIFF: Final = ("old_text", "new_text", "content")
"""Arguments that the diff shows; all others are shown as they are."""
_MOST_LINES: Final = 60
_LARGEST: Final = 200_000
"""Bytes of a file that is compared."""


def render_diff(question: Question, workspace: Path | None) -> list[str]:
    """Return the lines of a diff for a call that edits or writes a file; none for any other call.

    `workspace` is the folder of the gateway if it is on this computer: then the diff is that of the whole file, with
    the lines around the change. Otherwise the place of the change is not known, and not shown.
    """
    match question.tool, dict(question.arguments):
        case "edit_file", {"path": str(path), "old_text": str(old), "new_text": str(new)} as given:
            now = _content(workspace, path)
            places = now.count(old) if old else 0
            if places == 1 or (places and given.get("replace_all")):
                return list(_diff(path, now, now.replace(old, new)))
            return [line for line in _diff(path, old, new) if not line.startswith("@@")]
        case "write_file", {"path": str(path), "content": str(content), "mode": "append"}:
            now = _content(workspace, path)
            return list(_diff(path, now, now + content))
        case "write_file", {"path": str(path), "content": str(content)}:
            return [*_describe_lost(workspace, path), *_diff(path, _content(workspace, path), content)]
        case _:
            return []


def _describe_lost(workspace: Path | None, path: str) -> Iterator[str]:
    """Yield what a person has to know of a file that would be replaced and is not in the diff."""
    if workspace is None:
        yield "(what the file holds now is not known here)"
        return
    with contextlib.suppress(OSError, ValueError):
        size = (workspace / path).stat().st_size
        if size and not _content(workspace, path):
            yield f"(this replaces a file of {size} bytes, which can't be shown)"


def _content(workspace: Path | None, path: str) -> str:
    """Return what a file of the workspace holds now; empty when it is not there, or can't be compared."""
    if workspace is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError, ValueError):
            file = (workspace / path).resolve()
            if file.is_relative_to(workspace.resolve()) and file.is_file() and file.stat().st_size <= _LARGEST:
                return file.read_bytes().decode()  # `read_text` would hide which lines end with \r
    return ""


def _diff(path: str, old: str, new: str) -> Iterator[str]:
    """Yield the lines of the diff. Only a newline ends a line: a person must see any other separator."""
    name = path.replace("\n", "\\n")
    lines = difflib.unified_diff(_lines(old), _lines(new), f"{name} (now)", f"{name} (after this call)", lineterm="")
    is_newline_at_end_changed = old.endswith("\n") != new.endswith("\n")
    for number, line in enumerate(lines):
        if number == _MOST_LINES:
            yield "… (more lines)"
            return
        has_no_newline = is_newline_at_end_changed and line[:1] in "+- " and number > 1 and not line.endswith("\n")
        shown = escape_invisible(line.removesuffix("\n")).replace("\r", "\\r")
        yield f"{shown} (no newline at the end)" if has_no_newline else shown


def _lines(text: str) -> list[str]:
    """Return the lines with the newlines that end them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
