"""What a tool returned, as the call's outcome: the same wherever the tool ran."""

from typing import Any, Final

from handspan.core.results import Attachment, Failure, Pending, Success, ToolResult, succeed

RESULT_TYPES: Final = frozenset((Success, Failure, Pending, Attachment))
"""What a tool may return that is no plain value. Asked by `type` in the way of every call: `isinstance` is slow."""


def outcome(output: Any) -> ToolResult | Pending:
    """The tool's output as a result; `ToolError` when it has no JSON form."""
    if type(output) not in RESULT_TYPES:
        return succeed(output)
    match output:
        case Success():
            return succeed(output.value, output.attachments)
        case Attachment():
            return succeed(None, (output,))
        case _:
            other: Failure | Pending = output
            return other
