"""The folders that skills are found in, one folder a skill (SPEC A3, S1).

What lies in the workspace may have been put there by a model: it is read as file tools read, so that no link leads out.
A person's own folder may be full of links, as a person likes.
"""

import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from handspan.core.errors import ConfigError, ToolError
from handspan.skills.fields import SkillError
from handspan.skills.text import cleaned
from handspan.tools.workspace import Workspace

Where: TypeAlias = Literal["workspace", "user", "builtin"]

MAX_CHILDREN: Final = 1000
"""Names that are looked at in one folder."""

_IN_WORKSPACE: Final = ".handspan/skills"
_BUILTIN: Final = Path(__file__).with_name("builtin")
# A pipe without a writer must not block, a terminal must not become ours.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SkillFolder(Protocol):
    """A place with skills. What can't be read is a `SkillError`; what is not there, is not."""

    @property
    def where(self) -> Where: ...

    @property
    def path(self) -> str:
        """Where it lies, for a person."""

    def names(self) -> list[str]:
        """The folders in it, sorted."""

    def place(self, name: str, file: str) -> str:
        """Where a file of one of them lies, for a person."""

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        """Up to `limit` bytes of a file in one of them."""


def skill_folders(
    workspace: Path, config_folder: Path | None = None, hidden: Iterable[Path] = ()
) -> tuple[SkillFolder, ...]:
    """The folders of the workspace, the person and the package: the nearest first."""
    user = [] if config_folder is None else [PlainFolder("user", config_folder / "skills")]
    return WorkspaceFolder(workspace, hidden), *user, PlainFolder("builtin", _BUILTIN)


class PlainFolder:
    """A folder of the configuration or of the package."""

    def __init__(self, where: Where, folder: Path) -> None:
        self.where: Where = where
        self._folder = folder

    @property
    def path(self) -> str:
        """Where it lies, for a person."""
        return printable(self._folder)

    def names(self) -> list[str]:
        """The folders in it, sorted; none when it does not exist."""
        try:
            with os.scandir(self._folder) as children:
                return sorted(
                    child.name for child in islice(children, MAX_CHILDREN) if _counts(child.name, child.is_dir())
                )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SkillError(self.path, None, _cause(error)) from None

    def place(self, name: str, file: str) -> str:
        """The whole path."""
        return printable(self._folder / name / file)

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        """Up to `limit` bytes of a file; None when there is none."""
        try:
            descriptor = os.open(self._folder / name / file, _READ)
            with open(descriptor, "rb") as opened:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return opened.read(limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SkillError(self.place(name, file), None, _cause(error)) from None
        raise SkillError(self.place(name, file), None, "it is not a regular file. Put one there, or remove it")


class WorkspaceFolder:
    """`.handspan/skills` of the workspace."""

    where: Where = "workspace"
    path = _IN_WORKSPACE

    def __init__(self, workspace: Path, hidden: Iterable[Path] = ()) -> None:
        """`hidden`: what is out of reach although the workspace contains it."""
        self._root = workspace
        self._hidden = tuple(hidden)

    def names(self) -> list[str]:
        """The folders in it, sorted; none when there is no such folder, or no workspace yet."""
        if _is_missing(self._root / _IN_WORKSPACE):  # the usual case, and found out much faster
            return []
        try:
            with Workspace(self._root, self._hidden) as workspace:
                children = workspace.entries(_IN_WORKSPACE, MAX_CHILDREN).entries
        except ConfigError:
            return []
        except ToolError as error:
            if error.code == "file_not_found":
                return []
            raise SkillError(self.path, None, _without_stop(error)) from None
        return [child.name for child in children if _counts(child.name, child.kind in ("directory", "link"))]

    def place(self, name: str, file: str) -> str:
        """The path from the workspace on, as file tools take it."""
        return printable(f"{_IN_WORKSPACE}/{name}/{file}")

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        """Up to `limit` bytes of a file; None when there is none."""
        try:
            with (
                Workspace(self._root, self._hidden) as workspace,
                workspace.reading(f"{_IN_WORKSPACE}/{name}/{file}") as opened,
            ):
                return opened.part(0, limit)
        except ConfigError:
            return None
        except ToolError as error:
            if error.code == "file_not_found":
                return None
            raise SkillError(self.place(name, file), None, _without_stop(error)) from None


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:  # whoever reads it says what is wrong
        return False
    return False


def _counts(name: str, is_folder: bool) -> bool:
    return is_folder and not name.startswith(".")


def printable(path: Path | str) -> str:
    """A path that any front can show: what is no text in it is replaced, what a model could misread is left out."""
    return cleaned(os.fsencode(path).decode("utf-8", "replace"))


def _cause(error: OSError) -> str:
    return f"it can't be read ({error.strerror}). Change its permissions, or remove it"


def _without_stop(error: ToolError) -> str:
    return error.message.removesuffix(".")
