"""A question to the person whom the agent works for: `ask_user` (SPEC B, P5, P6)."""

from collections.abc import Mapping
from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.questions import ToolQuestion
from handspan.core.tool import READ_ONLY, Handling, ToolSpec, parameters, string
from handspan.core.values import Arguments, Json, JsonObject

_LONGEST_QUESTION: Final = 4000
_LONGEST_OPTION: Final = 500
_MAX_OPTIONS: Final = 20


def _make_question(arguments: Arguments) -> ToolQuestion:
    """Return the question. Its answer is one of the options or, without options, a text."""
    schema: JsonObject = {"type": "string", "minLength": 1}
    if options := cast("list[Json]", arguments.get("options", [])):
        schema = {"type": "string", "enum": options}
    return ToolQuestion("input", cast(str, arguments["question"]), schema)


class AskUser:
    """Returns the person's answer to a question. The engine asks the person before it runs the tool."""

    spec: Final = ToolSpec(
        name="ask_user",
        description="Ask the person a question and wait for the answer. For what you can't find out yourself.",
        parameters=parameters(
            "question",
            question=string(
                "One clear question, with what the person needs to know to answer it.",
                minLength=1,
                maxLength=_LONGEST_QUESTION,
            ),
            options={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": _LONGEST_OPTION},
                "minItems": 2,
                "maxItems": _MAX_OPTIONS,
                "uniqueItems": True,
                "description": "Answers to choose from; without them the person writes a text.",
            },
        ),
        annotations=READ_ONLY,
    )
    handling: Final = Handling(asks=_make_question)

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> Json:
        """Return the answer of the person."""
        return ctx.answer
