"""What a call would change in a file, as a diff: a person who is asked sees the change, not its JSON (SPEC P5)."""

import contextlib
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import structs

from handspan.cli.terminal_questions import render_question
from handspan.cli.wrapping import wrap_for
from handspan.core.questions import Question
from handspan.core.values import escape_invisible

_MOST_LINES: Final = 60
_COLOURS: Final = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
_PLAIN: Final = "\x1b[0m"
_IN_DIFF: Final = ("old_text", "new_text", "content")
"""Arguments that the diff shows; all others are shown as they are."""
_LARGEST: Final = 200_000
"""Bytes of a file that is compared."""


def render_with_diff(question: Question, workspace: Path | None, *, is_coloured: bool) -> str:
    """Return the lines of a question; for an edit with a diff in place of the texts in its arguments."""
    diff = render_diff(question, workspace)
    if not diff:
        return wrap_for(sys.stderr, render_question(question))
    others = {name: value for name, value in question.arguments.items() if name not in _IN_DIFF}
    shown = structs.replace(question, arguments=others)
    head, _, tail = render_question(shown).lstrip("\n").partition("\n")
    lines = [
        f"  {_COLOURS.get(line[:1], '') if is_coloured else ''}{line}{_PLAIN if is_coloured else ''}" for line in diff
    ]
    return "\n".join(["", wrap_for(sys.stderr, head), *lines, wrap_for(sys.stderr, tail)])


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
    if workspace is None:
        return ""
    try:
        file = (workspace / path).resolve()
        if not file.is_relative_to(workspace.resolve()) or not file.is_file() or file.stat().st_size > _LARGEST:
            return ""
        return file.read_bytes().decode()  # `read_text` would hide which lines end with \r
    except (OSError, UnicodeDecodeError, ValueError):
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
