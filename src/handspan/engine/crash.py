"""What code that is not ours leaves behind when it fails, in words."""

from handspan.core.errors import ERROR_TYPES, ToolError
from handspan.core.results import Failure

_LONGEST = 2000


def said(error: BaseException) -> str:
    """What an exception says of itself; never more than a model wants to read, and never another exception."""
    try:
        words = str(error)
    except Exception:  # even its `__str__` may fail
        words = "it can't be put into words"
    return sayable(f"{type(error).__name__}: {words}"[:_LONGEST])


def failure(error: ToolError) -> Failure:
    """The failure that a tool raised; a code that is not in the table counts as `execution_failed`."""
    code = error.code if error.code in ERROR_TYPES else "execution_failed"
    return Failure(code, sayable(str(error.message)))


def sayable(text: str) -> str:
    """The text without what can't be written as UTF-8, such as the halves of file names that are no text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
