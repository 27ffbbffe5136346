"""What a client's code gives back, beyond plain JSON, and the words of the seed's builder form."""

from typing import TypeAlias, final

from msgspec import Struct

from handspan.core.errors import ErrorCode
from handspan.core.values import Arguments, Json


@final
class Image(Struct, frozen=True):
    """A picture as a tool's result."""

    data: bytes
    media_type: str = "image/png"
    name: str = ""


@final
class ToolCallRequest(Struct, frozen=True):
    """A call, as `tool_call_handler` gets it."""

    id: str
    name: str
    args: Arguments


class ToolCallResult:
    """What `tool_call_handler` returns: `ToolCallResult.Success(output)` or `ToolCallResult.Failure(error)`."""

    @final
    class Success(Struct, frozen=True):
        """The call did what it should."""

        output: "Output" = ""

    @final
    class Failure(Struct, frozen=True):
        """It did not."""

        error: str
        code: ErrorCode | None = None


Output: TypeAlias = Json | bytes | Image
