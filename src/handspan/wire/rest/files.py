"""Files of the workspace in REST: their names (SPEC U6)."""

from typing import Annotated

from msgspec import Meta, Struct


class FilesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of the workspace."""

    folder: Annotated[str, Meta(max_length=4096, description="A path in the workspace. Empty: the workspace.")] = ""
    agent: Annotated[
        str, Meta(max_length=100, description="An agent that may list folders. Empty: the default one.")
    ] = ""


class FileEntry(Struct, frozen=True):
    """A file or a folder."""

    name: str
    is_folder: bool


class FileNames(Struct, frozen=True):
    """What is in a folder, by name."""

    entries: list[FileEntry]
    total: int
    """How many there are; the list has the first of them."""
