"""How long a call may still take, and whose clock says so (SPEC E6)."""

from msgspec import Struct


class Deadline(Struct, frozen=True, gc=False):
    """A moment on this process's monotonic clock; on a wire it is remaining milliseconds, in the store wall-clock."""

    at: float
    whose: str
    """The clock that fires, in words for an error: "the tool's own limit", "the caller's deadline"."""

    def later(self, seconds: float) -> "Deadline":
        """The same deadline after `seconds` that do not count, such as waiting for a person."""
        return Deadline(self.at + seconds, self.whose)
