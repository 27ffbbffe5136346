"""Answers about files of an owner (`protocol/graph.md` 9.4)."""

from msgspec import Struct


class UploadAnswer(Struct, frozen=True, kw_only=True):
    """The file that was uploaded."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str
    extracted_text: str | None = None
    url: str
    """The path of the file, below the address of the gateway."""
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileAnswer(Struct, frozen=True, kw_only=True):
    """The type, size and name of a file."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str | None = None
    extracted_text: str | None = None
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileUrlAnswer(Struct, frozen=True, kw_only=True):
    """The address of a file."""

    file_id: str
    url: str
    expires_at: float | None = None
    mime_type: str


class MultimodalAnswer(Struct, frozen=True, kw_only=True):
    """The largest size of a file, and the kind of storage."""

    media_storage_type: str = "local"
    media_storage_path: str = ""
    """Always empty: clients do not see the path."""
    media_max_size_mb: float
    document_handling: str = "pass_raw"
