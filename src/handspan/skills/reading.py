"""What stands in the folders of skills: each a skill, or the reason why it is none (SPEC A3)."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.skills.fields import SkillError
from handspan.skills.file import MAX_BYTES, Skill, parse_legacy, parse_skill
from handspan.skills.folders import SkillFolder, Where, printable

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

    def look(self) -> list[FoundSkill]:
        """All that is there at this moment, in the order of the folders, then of the names in them."""
        parsed: dict[str, _Parsed] = {}
        found = [each for folder in self._folders for each in self._in(folder, parsed)]
        self._parsed = parsed  # what is gone is forgotten
        return found

    def _in(self, folder: SkillFolder, parsed: dict[str, _Parsed]) -> Iterator[FoundSkill]:
        try:
            names = folder.names()
        except SkillError as error:
            yield FoundSkill(folder.where, folder.path, "*", None, str(error))
            return
        for name in names[:MAX_SKILLS]:
            yield self._one(folder, name, parsed)
        if len(names) > MAX_SKILLS:
            problem = f"{folder.path}: only the first {MAX_SKILLS} folders by name are read. Remove what is not needed."
            yield FoundSkill(folder.where, folder.path, "*", None, problem)

    def _one(self, folder: SkillFolder, name: str, parsed: dict[str, _Parsed]) -> FoundSkill:
        path = folder.place(name, _FILE)
        try:
            parts = _parts(folder, name)
            path = path if len(parts) == 1 else folder.place(name, _MANIFEST)
            parsed[path] = self._known(path, parts)
            outcome = parsed[path][1]
        except SkillError as error:
            outcome = str(error)
        if isinstance(outcome, str):
            return FoundSkill(folder.where, path, printable(name), None, outcome)
        return FoundSkill(folder.where, path, outcome.name, outcome)

    def _known(self, path: str, parts: tuple[bytes, ...]) -> _Parsed:
        digest = b"".join(hashlib.sha256(part).digest() for part in parts)
        known = self._parsed.get(path)
        return known if known is not None and known[0] == digest else (digest, _parse(path, parts))


def _parts(folder: SkillFolder, name: str) -> tuple[bytes, ...]:
    """The bytes of a SKILL.md, or of an older skill's two files."""
    limit = MAX_BYTES + 1
    data = folder.read(name, _FILE, limit)
    if data is not None:
        return (data,)
    manifest, prompt = folder.read(name, _MANIFEST, limit), folder.read(name, _PROMPT, limit)
    if manifest is None:
        raise SkillError(folder.place(name, _FILE), None, "there is no such file. Write one, or remove the folder")
    if prompt is None:
        raise SkillError(folder.place(name, _PROMPT), None, f"there is no such file beside {_MANIFEST}. Write one")
    return manifest, prompt


def _parse(path: str, parts: tuple[bytes, ...]) -> Skill | str:
    try:
        return parse_skill(parts[0], path) if len(parts) == 1 else parse_legacy(parts[0], parts[1], path)
    except SkillError as error:
        return str(error)
