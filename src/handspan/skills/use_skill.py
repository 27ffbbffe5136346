"""The tool by which a model switches a skill on: `use_skill` (SPEC A3)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, cast

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, UserMessage
from handspan.core.tool import READ_ONLY, ToolSpec, parameters, string
from handspan.core.values import Arguments, JsonObject
from handspan.skills.file import Skill, fill
from handspan.skills.skills import Skills
from handspan.wire.strict_json import parse

SwitchOn: TypeAlias = Callable[[str, Skill], Awaitable[None]]
"""(session, skill) → switches the skill on, from the next round to the end of the turn. Its variables are filled in."""


class UseSkill:
    """Switches a skill on and returns its instructions."""

    spec: Final = ToolSpec(
        name="use_skill",
        description=(
            "Switch on a skill by its name for this turn and get its instructions. "
            "A skill that lists tools leaves you only those, until the turn ends."
        ),
        parameters=parameters(
            "name",
            name=string("The skill's name.", minLength=1, maxLength=64),
            arguments={
                "type": "object",
                "description": "Values for the skill's variables by name; a skill without variables takes 'args'.",
                "additionalProperties": {"type": "string", "maxLength": 20000},
            },
        ),
        timeout=10.0,
        # It only changes the agent's instructions and toolbox, and a skill never lifts a read-only mode.
        annotations=READ_ONLY,
    )

    def __init__(self, skills: Skills, on: SwitchOn) -> None:
        self._skills = skills
        self._on = on

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Return the instructions with their variables filled in, and the globs of tools while the skill is on."""
        values = cast(dict[str, str], arguments.get("arguments", {}))
        await self._skills.refresh()
        skill = await asyncio.to_thread(self._fill_skill, str(arguments["name"]), values)
        await self._on(ctx.session, skill)
        answer: JsonObject = {"skill": skill.name, "instructions": skill.instructions}
        return answer if skill.allowed_tools is None else answer | {"tools": list(skill.allowed_tools)}

    def _fill_skill(self, name: str, values: dict[str, str]) -> Skill:
        skill = self._skills.find(name)
        if skill.disable_model_invocation:
            text = f"Skill {name!r} is not for a model to switch on. Ask the person to do it, or go on without it."
            raise ToolError("policy_denied", text)
        return fill(skill, values)


def skills_switched_on(messages: Sequence[Message]) -> list[str]:
    """Return the names of the skills that the model switched on since the last turn began, in order."""
    turn = next((message.turn for message in reversed(messages) if isinstance(message, UserMessage)), "")
    names: list[str] = []
    calls: tuple[CallPart, ...] = ()
    for message in messages:
        if isinstance(message, UserMessage) and (message.turn != turn or not turn):
            names = []
        elif isinstance(message, AssistantMessage):
            calls = message.calls
        elif isinstance(message, ResultsMessage):
            done = zip(calls, message.results, strict=False)
            names += [name for call, result in done if not result.is_error and (name := _skill_of_call(call))]
    return names


def _skill_of_call(call: CallPart) -> str:
    """Return the name of the skill that this call has switched on; empty for a call of another tool."""
    if call.name != UseSkill.spec.name:
        return ""
    arguments = parse(call.arguments)  # the call succeeded, so they can be read
    return str(arguments["name"]) if isinstance(arguments, dict) else ""
