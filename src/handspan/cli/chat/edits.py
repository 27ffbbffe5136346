"""A question about an edit, as the terminal shows it: with a diff in place of its JSON (SPEC P5)."""

import sys
from pathlib import Path
from typing import Final

from msgspec import structs

from handspan.cli.terminal_questions import render_question
from handspan.cli.wrapping import wrap_for
from handspan.core.questions import Question
from handspan.engine.changes import IN_DIFF, render_diff

_COLOURS: Final = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
_PLAIN: Final = "\x1b[0m"


def render_with_diff(question: Question, workspace: Path | None, *, is_coloured: bool) -> str:
    """Return the lines of a question; for an edit with a diff in place of the texts in its arguments."""
    diff = render_diff(question, workspace)
    if not diff:
        return wrap_for(sys.stderr, render_question(question))
    others = {name: value for name, value in question.arguments.items() if name not in IN_DIFF}
    shown = structs.replace(question, arguments=others)
    head, _, tail = render_question(shown).lstrip("\n").partition("\n")
    lines = [f"  {_COLOURS.get(line[:1], '')}{line}{_PLAIN}" if is_coloured else f"  {line}" for line in diff]
    return "\n".join(["", wrap_for(sys.stderr, head), *lines, wrap_for(sys.stderr, tail)])
