"""Files of an owner (`protocol/graph.md` 9.4), as they are shown."""

from msgspec import Struct


class UploadAnswer(Struct, frozen=True, kw_only=True):
    """What was uploaded."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str
    extracted_text: str | None = None
    url: str
    """Where it can be had, below the address of the gateway."""
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileAnswer(Struct, frozen=True, kw_only=True):
    """What is known of a file."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str | None = None
    extracted_text: str | None = None
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileUrlAnswer(Struct, frozen=True, kw_only=True):
    """Where a file can be had."""

    file_id: str
    url: str
    expires_at: float | None = None
    mime_type: str


class MultimodalAnswer(Struct, frozen=True, kw_only=True):
    """How large a file may be, and where files are kept."""

    media_storage_type: str = "local"
    media_storage_path: str = ""
    """Not told."""
    media_max_size_mb: float
    document_handling: str = "pass_raw"
