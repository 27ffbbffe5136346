"""Artifacts, as REST shows them (SPEC X4)."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.wire.rest.fields import SessionId


class UploadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What is uploaded."""

    name: Annotated[str, Meta(max_length=200)] = ""
    session: SessionId = ""
    """It is deleted with this session."""


class ShownArtifact(Struct, frozen=True):
    """The handle of something kept aside."""

    id: str
    size: int
    media_type: str
    name: str
