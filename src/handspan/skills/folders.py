"""The folders that skills are found in, one folder a skill (SPEC A3, S1).

What lies in the workspace may have been put there by a model: it is read as file tools read, so that no link leads out.
A person's own folder may be full of links, as a person likes.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.errors import ConfigError, ToolError
from handspan.skills.file import MAX_BYTES, Skill, parse_legacy, parse_skill
from handspan.skills.front_matter import SkillError
from handspan.skills.text import clean_text
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

    def display_path(self, name: str, file: str) -> str:
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
                    child.name
                    for child in islice(children, MAX_CHILDREN)
                    if _is_skill_folder(child.name, child.is_dir())
                )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SkillError(self.path, None, _explain_os_error(error)) from None

    def display_path(self, name: str, file: str) -> str:
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
            raise SkillError(self.display_path(name, file), None, _explain_os_error(error)) from None
        raise SkillError(self.display_path(name, file), None, "it is not a regular file. Put one there, or remove it")


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
            raise SkillError(self.path, None, _message_without_stop(error)) from None
        return [child.name for child in children if _is_skill_folder(child.name, child.kind in ("directory", "link"))]

    def display_path(self, name: str, file: str) -> str:
        """The path from the workspace on, as file tools take it."""
        return printable(f"{_IN_WORKSPACE}/{name}/{file}")

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        """Up to `limit` bytes of a file; None when there is none."""
        try:
            with (
                Workspace(self._root, self._hidden) as workspace,
                workspace.open_file(f"{_IN_WORKSPACE}/{name}/{file}") as opened,
            ):
                return opened.read(0, limit)
        except ConfigError:
            return None
        except ToolError as error:
            if error.code == "file_not_found":
                return None
            raise SkillError(self.display_path(name, file), None, _message_without_stop(error)) from None


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:  # whoever reads it says what is wrong
        return False
    return False


def _is_skill_folder(name: str, is_folder: bool) -> bool:
    return is_folder and not name.startswith(".")


def printable(path: Path | str) -> str:
    """A path that any front can show: what is no text in it is replaced, what a model could misread is left out."""
    return clean_text(os.fsencode(path).decode("utf-8", "replace"))


def _explain_os_error(error: OSError) -> str:
    return f"it can't be read ({error.strerror}). Change its permissions, or remove it"


def _message_without_stop(error: ToolError) -> str:
    return error.message.removesuffix(".")


# Reading

MAX_SKILLS: Final = 100
"""In one folder."""

_FILE: Final = "SKILL.md"
_MANIFEST: Final = "skill.json"
_PROMPT: Final = "prompt.md"

_Parsed: TypeAlias = tuple[bytes, Skill | str]
"""The hash of what was read, and the skill that it is or the reason why it is none."""


class FoundSkill(Struct, frozen=True):
    """What one folder holds: a skill, or the reason why it is none."""

    where: Where
    path: str
    name: str
    """The folder's, when there is no skill."""
    skill: Skill | None
    problem: str = ""


class SkillReader:
    """Looks into the folders each time it is asked, and parses a file again only when it has changed."""

    def __init__(self, folders: Sequence[SkillFolder]) -> None:
        self._folders = tuple(folders)
        self._parsed: dict[str, _Parsed] = {}

    def find_all(self) -> list[FoundSkill]:
        """All that is there at this moment, in the order of the folders, then of the names in them."""
        parsed: dict[str, _Parsed] = {}
        found = [each for folder in self._folders for each in self._read_folder(folder, parsed)]
        self._parsed = parsed  # what is gone is forgotten
        return found

    def _read_folder(self, folder: SkillFolder, parsed: dict[str, _Parsed]) -> Iterator[FoundSkill]:
        try:
            names = folder.names()
        except SkillError as error:
            yield FoundSkill(folder.where, folder.path, "*", None, str(error))
            return
        for name in names[:MAX_SKILLS]:
            yield self._read_skill(folder, name, parsed)
        if len(names) > MAX_SKILLS:
            problem = f"{folder.path}: only the first {MAX_SKILLS} folders by name are read. Remove what is not needed."
            yield FoundSkill(folder.where, folder.path, "*", None, problem)

    def _read_skill(self, folder: SkillFolder, name: str, parsed: dict[str, _Parsed]) -> FoundSkill:
        path = folder.display_path(name, _FILE)
        try:
            parts = _read_parts(folder, name)
            path = path if len(parts) == 1 else folder.display_path(name, _MANIFEST)
            parsed[path] = self._parse_cached(path, parts)
            outcome = parsed[path][1]
        except SkillError as error:
            outcome = str(error)
        if isinstance(outcome, str):
            return FoundSkill(folder.where, path, printable(name), None, outcome)
        return FoundSkill(folder.where, path, outcome.name, outcome)

    def _parse_cached(self, path: str, parts: tuple[bytes, ...]) -> _Parsed:
        digest = b"".join(hashlib.sha256(part).digest() for part in parts)
        known = self._parsed.get(path)
        return known if known is not None and known[0] == digest else (digest, _parse(path, parts))


def _read_parts(folder: SkillFolder, name: str) -> tuple[bytes, ...]:
    """The bytes of a SKILL.md, or of an older skill's two files."""
    limit = MAX_BYTES + 1
    data = folder.read(name, _FILE, limit)
    if data is not None:
        return (data,)
    manifest, prompt = folder.read(name, _MANIFEST, limit), folder.read(name, _PROMPT, limit)
    if manifest is None:
        raise SkillError(
            folder.display_path(name, _FILE), None, "there is no such file. Write one, or remove the folder"
        )
    if prompt is None:
        raise SkillError(
            folder.display_path(name, _PROMPT), None, f"there is no such file beside {_MANIFEST}. Write one"
        )
    return manifest, prompt


def _parse(path: str, parts: tuple[bytes, ...]) -> Skill | str:
    try:
        return parse_skill(parts[0], path) if len(parts) == 1 else parse_legacy(parts[0], parts[1], path)
    except SkillError as error:
        return str(error)
