"""Skills: which exist, which may be used, and the instructions and tools of an agent while some are on (SPEC A3).

There are three folders, in order of priority: workspace, person, package. A skill of the workspace is off until a
person enables it, because a model can write there. It is off again when its file changes. A skill that is off hides no
other skill: so a model can't remove a person's skill by writing another one with the same name.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from handspan.core.agents import SkillTools
from handspan.core.errors import ConfigError, ErrorCode, ToolError
from handspan.core.names import did_you_mean
from handspan.core.store import SkillSwitches
from handspan.skills.file import Skill
from handspan.skills.folders import FoundSkill, SkillFolder, SkillReader, Where
from handspan.skills.text import clean_text

_CACHE_SECONDS: Final = 1.0
_ALWAYS_THERE: Final = ("use_skill", "read_artifact")
"""The tools that no skill takes away: those to switch on another skill, and to read the rest of a long result."""
_MAX_DESCRIPTION: Final = 300
"""The most characters of a description in the model's list."""


class ListedSkill(Struct, frozen=True):
    """A skill for a list, usable or not."""

    name: str
    """The folder's name when the file can't be used."""
    description: str
    version: str
    where: Where
    path: str
    enabled: bool
    """Whether the skill can be switched on."""
    problems: tuple[str, ...]
    """The reasons why the skill can't be used."""
    fingerprint: str
    """Identifies the content that a person agrees to by enabling it."""
    allowed_tools: tuple[str, ...] | None = None
    """As in `Skill`."""


class _CheckedSkill(Struct, frozen=True):
    """A found skill, with the reasons why it can't be used and the error code for a call that wants it."""

    found: FoundSkill
    problems: tuple[str, ...] = ()
    code: ErrorCode = "execution_failed"

    @property
    def usable(self) -> Skill | None:
        return None if self.problems else self.found.skill


class Skills:
    """All skills of the folders. Each method reads the folders again, unless it says otherwise."""

    def __init__(self, folders: Sequence[SkillFolder], switches: SkillSwitches) -> None:
        """`folders`: in order of priority. Before the first `refresh` no skill of the workspace is enabled."""
        self._reader = SkillReader(folders)
        self._switches = switches
        self._agreed: Mapping[str, str] = {}
        """The fingerprint of each skill of the workspace that a person has enabled, by name."""
        self._switch_problems: tuple[str, ...] = ()
        self._cached: tuple[Skill, ...] = ()
        self._cached_at: float | None = None

    async def refresh(self) -> None:
        """Read which skills a person has enabled, perhaps in another process. If that fails, none counts as enabled."""
        try:
            self._agreed, self._switch_problems = await self._switches.enabled_skills(), ()
        except ConfigError as error:
            self._agreed, self._switch_problems = {}, (str(error),)

    def listing(self) -> tuple[ListedSkill, ...]:
        """Return every skill in order of priority, with the reasons why it can't be used."""
        return tuple(_list_skill(checked) for checked in self._check_all())

    def usable(self) -> tuple[Skill, ...]:
        """Return the skills that can be switched on, sorted by name."""
        found = (checked.usable for checked in self._check_all())
        return tuple(sorted((skill for skill in found if skill is not None), key=lambda skill: skill.name))

    def usable_cached(self) -> tuple[Skill, ...]:
        """Return what `usable` returns, from a cache of one second: reading the files takes longer than most turns."""
        now = time.monotonic()
        if self._cached_at is None or now - self._cached_at > _CACHE_SECONDS:
            self._cached, self._cached_at = self.usable(), now
        return self._cached

    def find(self, name: str) -> Skill:
        """Return the skill of this name. Raises `ToolError` with the reason when it can't be switched on."""
        return _pick_usable(name, self._check_all())

    def select(self, names: Iterable[str]) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
        """Return the skills of these names, and the reasons why some of them can't be on."""
        checked = self._check_all()
        skills: list[Skill] = []
        problems: list[str] = []
        for name in dict.fromkeys(names):
            try:
                skills.append(_pick_usable(name, checked))
            except ToolError as error:
                problems.append(error.message)
        return tuple(skills), tuple(problems)

    def find_any(self, name: str) -> Skill:
        """Return the first skill of this name, usable or not, for a person. Raises `ToolError` when there is none."""
        checked = self._check_all()
        nearest = (each.found.skill for each in checked if each.found.skill is not None and each.found.name == name)
        return next(nearest, None) or _pick_usable(name, checked)

    async def enable(self, name: str, fingerprint: str) -> bool:
        """Enable a skill of the workspace with the content that a person saw. Return False if it already was enabled.

        Only a person may decide this. Raises `ToolError` when there is no such skill, or its content is different.
        """
        there = [
            found.skill for found in self._reader.find_all() if found.where == "workspace" and found.skill is not None
        ]
        seen = [skill.fingerprint for skill in there if skill.name == name]
        if not seen:
            hint = did_you_mean(name, (skill.name for skill in there))
            raise ToolError("invalid_arguments", f"There is no skill {name!r} in the workspace to be enabled.{hint}")
        if fingerprint not in seen:
            text = f"Skill {name!r} is not what was shown. Read it again, then enable it."
            raise ToolError("invalid_arguments", text)
        changed = await self._switches.enable(name, fingerprint)
        await self.refresh()
        return changed

    async def disable(self, name: str) -> bool:
        """Disable a skill of the workspace. Return False when it was not enabled."""
        changed = await self._switches.disable(name)
        await self.refresh()
        return changed

    def _check_all(self) -> list[_CheckedSkill]:
        """Return all skills, each with the reasons why it can't be used."""
        found = self._reader.find_all()
        nearest: dict[str, FoundSkill] = {}
        checked: list[_CheckedSkill] = []
        for each in found:
            agreed = self._agreed.get(each.name)
            checked.append(_check_skill(each, agreed, self._switch_problems, nearest.get(each.name)))
            if checked[-1].usable is not None:
                nearest[each.name] = each
        return checked


def tools_of_skills(skills: Iterable[Skill]) -> SkillTools | None:
    """Return the tools of these skills, for `Registry.toolbox`; None when no skill has a list of tools."""
    limiting = {skill.name: skill.allowed_tools for skill in skills if skill.allowed_tools is not None}
    if not limiting:
        return None
    globs = dict.fromkeys(glob for tools in (*limiting.values(), _ALWAYS_THERE) for glob in tools)
    return SkillTools(tuple(limiting), tuple(globs))


def build_instructions(own: str, skills: Iterable[Skill], offered: Iterable[Skill] = ()) -> str:
    """Return the system prompt, in this order: the agent's own instructions, active skills, skills to switch on."""
    on = {skill.name: skill for skill in skills}
    parts = [own.strip(), *map(_skill_section, on.values())]
    lines = [_offer_line(skill) for skill in offered if skill.name not in on and not skill.disable_model_invocation]
    if lines:
        parts.append("\n".join(["# Skills that you can switch on with use_skill", "", *lines]))
    return "\n\n".join(part for part in parts if part)


def _skill_section(skill: Skill) -> str:
    open_variables = ", ".join(f"{{{{{name}}}}}" for name in skill.variables)
    note = f"\n\nTake these from the conversation: {open_variables}." if open_variables else ""
    return f"# Skill: {skill.name}\n\n{skill.instructions}{note}".strip()


def _offer_line(skill: Skill) -> str:
    takes = f" (arguments: {', '.join(skill.variables)})" if skill.variables else ""
    description = clean_text(" ".join(skill.description.split()))
    clipped = description if len(description) <= _MAX_DESCRIPTION else f"{description[: _MAX_DESCRIPTION - 1]}…"
    return f"- {skill.name}{takes}: {clipped}" if clipped else f"- {skill.name}{takes}"


def _check_skill(
    found: FoundSkill, agreed: str | None, switch_problems: tuple[str, ...], nearer: FoundSkill | None
) -> _CheckedSkill:
    """Return a skill with the reasons why it can't be used, if there are any.

    `agreed`: the fingerprint that a person has enabled. `nearer`: a skill of the same name that goes before it.
    """
    if found.skill is None:
        return _CheckedSkill(found, (found.problem,))
    if found.where == "workspace" and agreed != found.skill.fingerprint:
        reason = (
            "it lies in the workspace, where models can write, and is off until a person enables it"
            if agreed is None
            else "it is not what a person has enabled and is off until a person enables it again"
        )
        return _CheckedSkill(found, (reason, *switch_problems), "policy_denied")
    if nearer is not None:
        return _CheckedSkill(found, (f"the one in {nearer.path} has the same name and goes before it",))
    return _CheckedSkill(found)


def _pick_usable(name: str, checked: Sequence[_CheckedSkill]) -> Skill:
    """Return the usable skill of this name. Raises `ToolError` with the reason when there is none."""
    named = [each for each in checked if each.found.name == name]
    usable = next((each.usable for each in named if each.usable is not None), None)
    if usable is not None:
        return usable
    if named:
        raise ToolError(named[0].code, f"Skill {name!r} can't be used: {'; '.join(named[0].problems).rstrip('.')}.")
    names = [each.usable.name for each in checked if each.usable is not None]
    listed = f" There are: {', '.join(names)}." if names else ""
    raise ToolError("invalid_arguments", f"There is no skill {name!r}.{did_you_mean(name, names)}{listed}")


def _list_skill(checked: _CheckedSkill) -> ListedSkill:
    found = checked.found
    skill = found.skill or Skill(found.name)
    is_enabled = checked.usable is not None
    head = found.name, skill.description, skill.version, found.where, found.path
    return ListedSkill(*head, is_enabled, checked.problems, skill.fingerprint, skill.allowed_tools)
