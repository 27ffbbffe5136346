"""A skill from its file: `SKILL.md` with front matter, or the older `skill.json` with `prompt.md` (SPEC A3).

Functions here get bytes and return a `Skill` or raise `SkillError`; they read no files. They limit size and depth,
execute nothing from the file, and clean its text.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import ToolError, WireError
from handspan.core.values import JsonObject, strip_invisible
from handspan.skills.front_matter import MAX_DEPTH, Fields, SkillError, read_front_matter
from handspan.skills.text import clean_text, fill_variables, find_variables
from handspan.wire import strict_json

MAX_BYTES: Final = 50 * 1024
MAX_FILLED: Final = 100 * 1024
"""The most characters of instructions with all variables filled in."""

_FENCE: Final = "---"
_FREE_INPUT: Final = "args"
"""The one variable of a skill that declares none: free text of the caller."""


class Skill(Struct, frozen=True):
    """Instructions for one kind of work, and the tools for it."""

    name: str
    description: str = ""
    version: str = ""
    variables: tuple[str, ...] = ()
    """Names of the `{{name}}` in the instructions that are not filled in yet."""
    allowed_tools: tuple[str, ...] | None = None
    """Globs of the tools while the skill is on. None: no change; empty: no tools (as in SPEC R7)."""
    argument_hint: str = ""
    user_invocable: bool = False
    """Whether user interfaces offer the skill to people as a command."""
    disable_model_invocation: bool = False
    """Whether the model is not allowed to switch the skill on."""
    metadata: JsonObject = {}
    """The keys of the file that are not known here, with their values."""
    instructions: str = ""
    fingerprint: str = ""
    """Hash of the file's bytes: a person agrees to exactly these."""


def parse_skill(data: bytes, file: str = "SKILL.md") -> Skill:
    """Return the skill of this file. Raises `SkillError` with the file, the line if known, and the remedy."""
    front, first_line, body = _split_front_matter(_decode_text(data, file), file)
    return _build_skill(read_front_matter(front, first_line, file), body, _fingerprint(data))


def parse_legacy(manifest: bytes, prompt: bytes, file: str = "skill.json") -> Skill:
    """Return the skill of a `skill.json` and the `prompt.md` beside it. Raises `SkillError` like `parse_skill`."""
    _decode_text(manifest, file)
    try:
        values = strict_json.parse(manifest, max_depth=MAX_DEPTH)
    except WireError as error:
        raise SkillError(file, None, str(error).removesuffix(".")) from None
    if not isinstance(values, dict):
        raise SkillError(file, None, f"it must be a JSON object with a 'name', not {type(values).__name__}")
    body = _decode_text(prompt, file.removesuffix("skill.json") + "prompt.md")
    return _build_skill(Fields(file, values.items()), body, _fingerprint(manifest, prompt))


def fill(skill: Skill, values: Mapping[str, str]) -> Skill:
    """Return the skill with its variables filled in. Raises `invalid_arguments` for missing, unknown or long values.

    A skill without variables takes one value, `args`. It replaces `{{args}}`, or is added at the end.
    """
    _check_values(skill, values)
    template = skill.instructions
    if not skill.variables and _FREE_INPUT in values and _FREE_INPUT not in find_variables(template):
        template = f"{template}\n\nArguments: {{{{{_FREE_INPUT}}}}}"
    length = len(template) + sum(len(values.get(name, "")) for name in find_variables(template))
    if length > MAX_FILLED:
        problem = f"with these values it would have {length} characters; at most {MAX_FILLED} are taken. Say less"
        raise ToolError("invalid_arguments", f"Skill {skill.name!r} can't be filled in: {problem}.")
    return msgspec.structs.replace(skill, variables=(), instructions=fill_variables(template, values))


def _check_values(skill: Skill, values: Mapping[str, str]) -> None:
    takes = skill.variables or (_FREE_INPUT,)
    unknown = [f"has no variable {name!r}" for name in values if name not in takes]
    missing = [f"needs a value for {name!r}" for name in skill.variables if name not in values]
    if problems := (unknown + missing)[:5]:
        text = f"Skill {skill.name!r} {', '.join(problems)}. Its arguments are: {', '.join(map(repr, takes))}."
        raise ToolError("invalid_arguments", text)


def _build_skill(fields: Fields, body: str, fingerprint: str) -> Skill:
    """Return the skill of these fields and this text. Raises `SkillError` for a field that is wrong."""
    return Skill(
        name=fields.name(),
        description=fields.text("description"),
        version=fields.text("version"),
        variables=fields.variables(),
        allowed_tools=fields.globs(),
        argument_hint=fields.text("argument_hint"),
        user_invocable=fields.flag("user_invocable"),
        disable_model_invocation=fields.flag("disable_model_invocation"),
        metadata=fields.rest(),
        instructions=clean_text(body).strip(),
        fingerprint=fingerprint,
    )


def _fingerprint(*parts: bytes) -> str:
    lengths = ",".join(str(len(part)) for part in parts)
    return hashlib.sha256(b"".join((f"{lengths}:".encode(), *parts))).hexdigest()


def _decode_text(data: bytes, file: str) -> str:
    """Return the bytes as text with `\\n` as line end. Raises `SkillError` when the file is too large or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise SkillError(file, None, f"it is too large: at most {MAX_BYTES} bytes are taken. Say it shorter")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillError(file, line, f"it is not UTF-8 ({error.reason}). Save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def _split_front_matter(text: str, file: str) -> tuple[str, int, str]:
    """Return the front matter, the number of its first line, and the body."""
    lines = text.split("\n")
    opening = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[opening].rstrip() != _FENCE:
        raise SkillError(
            file, opening + 1, "the front matter is missing. Begin with a line '---', as in '---\\nname: x'"
        )
    for closing in range(opening + 1, len(lines)):
        if lines[closing].rstrip() == _FENCE:
            front = strip_invisible("\n".join(lines[opening + 1 : closing]))
            return front, opening + 2, "\n".join(lines[closing + 1 :])
    raise SkillError(file, opening + 1, "the front matter has no end. Close it with a line '---'")
