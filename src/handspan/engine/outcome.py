"""Converts what a tool returned or raised to the call's outcome: alike on the loop, on a thread and in a process."""

import logging
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from handspan.core.errors import ERROR_TYPES, ToolError
from handspan.core.results import Attachment, Failure, Pending, Success, ToolResult, succeed

_LONGEST_TEXT: Final = 2000
_LONGEST_TRACEBACK: Final = 20_000
_PACKAGE: Final = str(Path(__file__).parents[1])
_log = logging.getLogger(__name__)


def convert_output(output: Any) -> ToolResult | Pending:
    """Return the tool's output as a result. Raises `ToolError` when the output has no JSON form."""
    match output:
        case Success():
            return succeed(output.value, output.attachments)
        case Attachment():
            return succeed(None, (output,))
        case Failure() | Pending():
            return output
        case _:
            return succeed(output)


def convert_error(error: ToolError) -> Failure:
    """Return the failure that a tool raised. A code that is not in the table becomes `execution_failed`."""
    code = error.code if error.code in ERROR_TYPES else "execution_failed"
    return Failure(code, _replace_unencodable(str(error.message)))


class EndedByTool(RuntimeError):
    """A tool raised what would end the program, such as `SystemExit`. The text names it."""


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an exception, cut to 2,000 characters. Never raises."""
    try:
        text = str(error)
    except Exception:  # code that is not ours: even its `__str__` may fail
        text = "it can't be put into words"
    if isinstance(error, EndedByTool):
        return _replace_unencodable(text[:_LONGEST_TEXT])
    return _replace_unencodable(f"{type(error).__name__}: {text}"[:_LONGEST_TEXT])


def _replace_unencodable(text: str) -> str:
    """Return the text with `?` for what has no UTF-8 form, such as half a surrogate pair in a file name."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def log_fault(tool: str, call_id: str, trace: str) -> None:
    """Log where a tool's own code failed (`describe_traceback`), with the call's id. The caller gets only the error."""
    about = {"event": "tool_fault", "tool": tool, "call": call_id}
    _log.warning("Tool %r failed in the call %s\n%s", tool, call_id, trace, extra=about)


def describe_traceback(error: BaseException) -> str:
    """Return the traceback of code that is not ours as text; of a long traceback its end. Never raises."""
    try:
        lines = traceback.format_exception(type(error), error, _skip_our_frames(error.__traceback__))
        return _replace_unencodable("".join(lines).rstrip()[-_LONGEST_TRACEBACK:])
    except Exception:  # code that is not ours: even its `__str__` may fail
        return describe_error(error)


def _skip_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame that is not ours; all of it if every frame is ours."""
    found = trace
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return found or trace


def unknown_outcome(name: str) -> Failure:
    """Return the result of a call whose own result could not be stored before Handspan was closed."""
    text = f"Handspan was closed before the result of {name!r} could be stored: its outcome is unknown."
    return Failure("unknown_outcome", f"{text} Look before you call it again.")


def encode_result(result: ToolResult) -> ToolResult:
    """Return the result with its JSON; a failure when it has no JSON form."""
    if isinstance(result, Failure) or result.encoded:
        return result
    try:
        return succeed(result.value, result.attachments)
    except ToolError as error:
        return Failure(error.code, error.message)
