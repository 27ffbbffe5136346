"""What a tool returned, as the call's outcome: the same wherever the tool ran."""

from typing import Any, Final

from handspan.core.results import Attachment, Failure, Pending, Success, ToolResult, succeed

_WORDS: Final = frozenset((Success, Failure, Pending, Attachment))


def outcome(output: Any) -> ToolResult | Pending:
    """The tool's output as a result; `ToolError` when it has no JSON form."""
    if type(output) not in _WORDS:  # `isinstance` is slow for structs, and this is the way of every call
        return succeed(output)
    match output:
        case Success():
            return succeed(output.value, output.attachments)
        case Attachment():
            return succeed(None, (output,))
        case _:
            other: Failure | Pending = output
            return other
