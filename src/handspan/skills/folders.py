"""The folders of skills, one folder for each skill, and the reader of their files (SPEC A3, S1).

A model can write in the workspace. So skills of the workspace are read like files of the file tools: no link leads out.
In a person's own folder links are allowed.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from handspan.core.errors import ConfigError, ToolError
from handspan.skills.file import MAX_BYTES, Skill, parse_legacy, parse_skill
from handspan.skills.front_matter import SkillError
from handspan.skills.text import clean_text
from handspan.tools.workspace import Workspace

_T = TypeVar("_T")
Where: TypeAlias = Literal["workspace", "user", "builtin"]

MAX_CHILDREN: Final = 1000
"""The most names that are read in one folder."""

_IN_WORKSPACE: Final = ".handspan/skills"
_BUILTIN: Final = Path(__file__).with_name("builtin")
# A pipe without a writer must not block, and a terminal must not become our controlling terminal.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PlainFolder:
    """A folder of the configuration or of the package. Methods raise `SkillError` when it can't be read."""

    def __init__(self, where: Where, folder: Path) -> None:
        self.where: Where = where
        self._folder = folder
        self.path = printable(folder)
        """The path, for a person."""

    def names(self) -> list[str]:
        """Return the names of the skills' folders, sorted; none for a missing folder."""
        try:
            with os.scandir(self._folder) as children:
                return sorted(
                    child.name
                    for child in islice(children, MAX_CHILDREN)
                    if _is_skill_folder(child.name, is_folder=child.is_dir())
                )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SkillError(self.path, None, _explain_os_error(error)) from None

    def display_path(self, name: str, file: str) -> str:
        """Return the path of a skill's file, for a person."""
        return printable(self._folder / name / file)

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        """Return up to `limit` bytes of a skill's file, or None when it is missing."""
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
    """`.handspan/skills` of the workspace. Its methods are those of `PlainFolder`."""

    where: Where = "workspace"
    path = _IN_WORKSPACE

    def __init__(self, workspace: Path, hidden: Iterable[Path] = ()) -> None:
        """`hidden`: paths in the workspace that are not read."""
        self._root = workspace
        self._hidden = tuple(hidden)

    def names(self) -> list[str]:
        """Return the names of the folders that may hold a skill."""
        if _is_missing(self._root / _IN_WORKSPACE):  # the usual case, and a much faster check
            return []
        found = self._look(self.path, lambda workspace: workspace.entries(_IN_WORKSPACE, MAX_CHILDREN))
        children = () if found is None else found.entries
        return [
            child.name
            for child in children
            if _is_skill_folder(child.name, is_folder=child.kind in ("directory", "link"))
        ]

    def display_path(self, name: str, file: str) -> str:
        return printable(f"{_IN_WORKSPACE}/{name}/{file}")

    def read(self, name: str, file: str, limit: int) -> bytes | None:
        def read_file(workspace: Workspace) -> bytes:
            with workspace.open_file(f"{_IN_WORKSPACE}/{name}/{file}") as opened:
                return opened.read(0, limit)

        return self._look(self.display_path(name, file), read_file)

    def _look(self, path: str, look: Callable[[Workspace], _T]) -> _T | None:
        """Return what `look` returns; None when the workspace, or what it looks for, is missing."""
        try:
            with Workspace(self._root, self._hidden) as workspace:
                return look(workspace)
        except ConfigError:
            return None
        except ToolError as error:
            if error.code == "file_not_found":
                return None
            raise SkillError(path, None, error.message.removesuffix(".")) from None


SkillFolder: TypeAlias = PlainFolder | WorkspaceFolder


def skill_folders(
    workspace: Path, config_folder: Path | None = None, hidden: Iterable[Path] = ()
) -> tuple[SkillFolder, ...]:
    """Return the folders of the workspace, the person and the package, in this order of priority."""
    user = [] if config_folder is None else [PlainFolder("user", config_folder / "skills")]
    return WorkspaceFolder(workspace, hidden), *user, PlainFolder("builtin", _BUILTIN)


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:  # the reader reports the problem
        return False
    return False


def _is_skill_folder(name: str, *, is_folder: bool) -> bool:
    return is_folder and not name.startswith(".")


def printable(path: Path | str) -> str:
    """Return a path that every interface can show: valid text, without characters that could mislead a model."""
    return clean_text(os.fsencode(path).decode("utf-8", "replace"))


def _explain_os_error(error: OSError) -> str:
    return f"it can't be read ({error.strerror}). Change its permissions, or remove it"


# Reading

MAX_SKILLS: Final = 100
"""The most skills of one folder."""

_FILE: Final = "SKILL.md"
_MANIFEST: Final = "skill.json"
_PROMPT: Final = "prompt.md"


class FoundSkill(Struct, frozen=True):
    """One folder with its skill, or with the reason why it has none."""

    where: Where
    path: str
    name: str
    """The folder's name when there is no skill."""
    skill: Skill | None
    problem: str = ""


class SkillReader:
    """Reads the folders at each call, and parses a file only when it has changed."""

    def __init__(self, folders: Sequence[SkillFolder]) -> None:
        self._folders = tuple(folders)
        self._parsed: dict[str, tuple[bytes, FoundSkill]] = {}
        """The hash of each skill's files, and what they are, by the path of the first one."""

    def find_all(self) -> list[FoundSkill]:
        """Return all skills of this moment, in the order of the folders and of their names."""
        parsed: dict[str, tuple[bytes, FoundSkill]] = {}
        found = [each for folder in self._folders for each in self._read_folder(folder, parsed)]
        self._parsed = parsed  # without the entries of removed files
        return found

    def _read_folder(self, folder: SkillFolder, parsed: dict[str, tuple[bytes, FoundSkill]]) -> Iterator[FoundSkill]:
        """Yield the skills of a folder. One that can't be read comes with its problem."""
        try:
            names = folder.names()
        except SkillError as error:
            yield FoundSkill(folder.where, folder.path, "*", None, problem=str(error))
            return
        for name in names[:MAX_SKILLS]:
            yield self._read_skill(folder, name, parsed)
        if len(names) > MAX_SKILLS:
            problem = f"{folder.path}: only the first {MAX_SKILLS} folders by name are read. Remove what is not needed."
            yield FoundSkill(folder.where, folder.path, "*", None, problem=problem)

    def _read_skill(self, folder: SkillFolder, name: str, parsed: dict[str, tuple[bytes, FoundSkill]]) -> FoundSkill:
        """Return one skill, parsed anew only if its files have changed. `parsed` gets it for the next time."""
        path = folder.display_path(name, _FILE)
        try:
            parts = _read_parts(folder, name)
        except SkillError as error:
            return FoundSkill(folder.where, path, printable(name), None, problem=str(error))
        path = path if len(parts) == 1 else folder.display_path(name, _MANIFEST)
        digest = b"".join(hashlib.sha256(part).digest() for part in parts)
        known = self._parsed.get(path)
        if known is None or known[0] != digest:
            known = digest, _parse(folder.where, path, name, parts)
        parsed[path] = known
        return known[1]


def _read_parts(folder: SkillFolder, name: str) -> tuple[bytes, ...]:
    """Return the bytes of a SKILL.md, or of the two files of an older skill."""
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


def _parse(where: Where, path: str, name: str, parts: tuple[bytes, ...]) -> FoundSkill:
    try:
        skill = parse_skill(parts[0], path) if len(parts) == 1 else parse_legacy(parts[0], parts[1], path)
    except SkillError as error:
        return FoundSkill(where, path, printable(name), None, problem=str(error))
    return FoundSkill(where, path, skill.name, skill)
