"""Artifacts in REST (SPEC X4)."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.wire.rest.fields import SessionId


class UploadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The name and the session of an upload."""

    name: Annotated[str, Meta(max_length=200)] = ""
    session: SessionId = ""
    """The artifact is deleted with this session."""


class ArtifactView(Struct, frozen=True):
    """A stored artifact."""

    id: str
    size: int
    media_type: str
    name: str


class ListedArtifact(ArtifactView, frozen=True):
    """An artifact in a list."""

    session: str
    """The artifact is deleted with this session. Empty: it belongs to none."""
    at: str


class ArtifactList(Struct, frozen=True):
    """The caller's artifacts, the newest first."""

    artifacts: list[ListedArtifact]
