"""Skills: which there are, which may be used, and what an agent is while some are on (SPEC A3).

Three folders, the nearest first: workspace, person, package. A skill of the workspace is off until a person enables it,
since a model can write there, and is off again once its file changes. One that is off hides nothing: a model can't
take a person's skill away by writing another one of its name.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, ErrorCode, ToolError
from handspan.core.names import did_you_mean
from handspan.core.store import SkillSwitches
from handspan.skills.file import Skill
from handspan.skills.folders import FoundSkill, SkillFolder, SkillReader, Where
from handspan.skills.text import clean_text

_CACHE_SECONDS: Final = 1.0
_MOST_DESCRIPTION: Final = 300
"""Characters of a description that a model is shown."""


class ListedSkill(Struct, frozen=True):
    """A skill as a list shows it, usable or not."""

    name: str
    """The folder's, when the file can't be used."""
    description: str
    version: str
    where: Where
    path: str
    enabled: bool
    """Whether it can be switched on under its name."""
    problems: tuple[str, ...]
    """Why it can't."""
    fingerprint: str
    """What a person who enables it agrees to."""


class _CheckedSkill(Struct, frozen=True):
    """What was found, and what keeps it from being used: the code for a call that wants it, and the reasons."""

    found: FoundSkill
    problems: tuple[str, ...] = ()
    code: ErrorCode = "execution_failed"

    @property
    def usable(self) -> Skill | None:
        return None if self.problems else self.found.skill


class Skills:
    """All skills there are, as the folders have them at the moment they are asked for."""

    def __init__(self, folders: Sequence[SkillFolder], switches: SkillSwitches) -> None:
        """`folders`: the nearest first. `refresh` tells what a person has enabled; until then nothing is."""
        self._reader = SkillReader(folders)
        self._switches = switches
        self._agreed: Mapping[str, str] = {}
        self._switch_problems: tuple[str, ...] = ()
        self._cached: tuple[Skill, ...] = ()
        self._cached_at: float | None = None

    async def refresh(self) -> None:
        """Learn what a person has enabled meanwhile, perhaps with another process; nothing, when it can't be read."""
        try:
            self._agreed, self._switch_problems = await self._switches.enabled(), ()
        except ConfigError as error:
            self._agreed, self._switch_problems = {}, (str(error),)

    def listing(self) -> tuple[ListedSkill, ...]:
        """Every skill that was found, the nearest folder first, with what keeps it from being used."""
        return tuple(_list_skill(checked) for checked in self._check_all())

    def usable(self) -> tuple[Skill, ...]:
        """The skills that can be switched on, by name."""
        found = (checked.usable for checked in self._check_all())
        return tuple(sorted((skill for skill in found if skill is not None), key=lambda skill: skill.name))

    def usable_cached(self) -> tuple[Skill, ...]:
        """The same, as it was at most a second ago: reading files costs more than most turns."""
        now = time.monotonic()
        if self._cached_at is None or now - self._cached_at > _CACHE_SECONDS:
            self._cached, self._cached_at = self.usable(), now
        return self._cached

    def find(self, name: str) -> Skill:
        """The skill that this name means; `ToolError` says why none can be switched on."""
        return _pick_usable(name, self._check_all())

    def select(self, names: Iterable[str]) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
        """The skills that an agent's settings name, and the reasons why others of them can't be on."""
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
        """The nearest skill of this name, usable or not, for a person to read; `ToolError` when there is none."""
        checked = self._check_all()
        nearest = (each.found.skill for each in checked if each.found.skill is not None and each.found.name == name)
        return next(nearest, None) or _pick_usable(name, checked)

    async def enable(self, name: str, fingerprint: str) -> bool:
        """Let a skill of the workspace be used as a person saw it; False when it already could.

        Only for a person's word. `ToolError` when there is no such skill, or the file is not what was seen.
        """
        there = [
            found.skill for found in self._reader.find_all() if found.where == "workspace" and found.skill is not None
        ]
        seen = [skill.fingerprint for skill in there if skill.name == name]
        if not seen:
            hint = did_you_mean(name, (skill.name for skill in there))
            raise ToolError("invalid_arguments", f"There is no skill {name!r} in the workspace to be enabled.{hint}")
        if fingerprint not in seen:
            raise ToolError(
                "invalid_arguments", f"Skill {name!r} is not what was shown. Read it again, then enable it."
            )
        changed = await self._switches.enable(name, fingerprint)
        await self.refresh()
        return changed

    async def disable(self, name: str) -> bool:
        """Take back an `enable`; False when there was none."""
        changed = await self._switches.disable(name)
        await self.refresh()
        return changed

    def _check_all(self) -> list[_CheckedSkill]:
        """What there is, each with what keeps it from being used."""
        found = self._reader.find_all()
        nearest: dict[str, FoundSkill] = {}
        checked: list[_CheckedSkill] = []
        for each in found:
            agreed = self._agreed.get(each.name)
            checked.append(_check_skill(each, agreed, self._switch_problems, nearest.get(each.name)))
            if checked[-1].usable is not None:
                nearest[each.name] = each
        return checked


def allowed_globs(skills: Iterable[Skill]) -> tuple[str, ...] | None:
    """What the toolbox is while these are on (`Registry.toolbox`): the union of their globs; None: none has any."""
    lists = [skill.allowed_tools for skill in skills if skill.allowed_tools is not None]
    return tuple(dict.fromkeys(glob for globs in lists for glob in globs)) if lists else None


def build_instructions(agent: Agent, skills: Iterable[Skill], offered: Iterable[Skill] = ()) -> str:
    """The agent's instructions, those of the skills that are on, and a list of those the model may switch on."""
    on = {skill.name: skill for skill in skills}
    parts = [agent.instructions.strip(), *map(_skill_section, on.values())]
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
    clipped = description if len(description) <= _MOST_DESCRIPTION else f"{description[: _MOST_DESCRIPTION - 1]}…"
    return f"- {skill.name}{takes}: {clipped}" if clipped else f"- {skill.name}{takes}"


def _check_skill(
    found: FoundSkill, agreed: str | None, switch_problems: tuple[str, ...], nearer: FoundSkill | None
) -> _CheckedSkill:
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
    """The usable skill of this name, or the error that says why there is none."""
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
    return ListedSkill(
        found.name,
        skill.description,
        skill.version,
        found.where,
        found.path,
        checked.usable is not None,
        checked.problems,
        skill.fingerprint,
    )
