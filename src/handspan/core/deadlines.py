"""The moment when a call is stopped, and whose limit that is (SPEC E6)."""

from msgspec import Struct


class Deadline(Struct, frozen=True, gc=False):
    """A moment on this process's monotonic clock. A wire carries the remaining milliseconds, the store a wall time."""

    at: float
    whose: str
    """Whose limit it is, in words for an error: "the tool's own limit", "the caller's deadline"."""

    def later(self, seconds: float) -> "Deadline":
        """Return this deadline moved by `seconds` that do not count, such as waiting for a person."""
        return Deadline(self.at + seconds, self.whose)
