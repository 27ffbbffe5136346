"""Where a page of a list ends and the next one begins: a place that stays the same while rows come and go."""

import math
from typing import Final, NamedTuple

from handspan.core.errors import ToolError

_LARGEST_PAGE: Final = 1000


def page_size(limit: int) -> int:
    """As many rows as somebody asked for, within reason."""
    return max(1, min(limit, _LARGEST_PAGE))


class Mark(NamedTuple):
    """The last row of a page: the time it is ordered by, and its id."""

    at: float
    id: str

    def __str__(self) -> str:
        return f"{self.at!r}~{self.id}"

    @classmethod
    def read(cls, text: str | None) -> "Mark":
        """The mark that a person's client sent back; before everything when there is none."""
        if text is None:
            return cls(math.inf, "")
        at, _, row_id = text.partition("~")
        try:
            return cls(float(at), row_id.encode().decode())
        except ValueError:  # UnicodeEncodeError too
            raise ToolError(
                "invalid_arguments", f"{text[:60]!r} is no place in a list: use the `next` of a page."
            ) from None
