"""Values that several subjects of REST share: pages, names, limits of texts, refusals."""

from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

SOMETHING: Final = r"[^\s\x1c-\x1f\x85\ufeff]"
"""A pattern for texts that are not empty: it means the same to Python and to JSON Schema, which have other spaces."""
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000, description="How many at most.")]
After: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([0-9]{1,16}(\.[0-9]{1,16})?~[A-Za-z0-9._~-]{0,128})?$",
        description="The `next` of the page before; empty for the first page.",
    ),
]
SessionId: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9._-]{0,128}$", description="A session's id; empty where none is meant.")
]
ToolName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, description="A tool's name.")]


class ErrorBody(Struct, frozen=True):
    """What every refusal says."""

    error: str
    """What is wrong, and what to do."""
    code: str
    """The kind of refusal, for programs."""
    retry_after: int | UnsetType = UNSET
    """Seconds to wait, where waiting helps."""
