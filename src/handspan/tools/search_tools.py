"""Finding tools that were not sent to the model: `search_tools` (SPEC R4)."""

from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.tool import NO_EFFECTS, SEARCH_TOOLS, ToolSpec, integer, parameters, string
from handspan.core.values import Arguments, Json, JsonObject

_HITS: Final = 8
_MAX_HITS: Final = 20
_MAX_DESCRIPTION: Final = 240


class SearchTools:
    """Finds tools in the caller's toolbox by words."""

    spec: Final = ToolSpec(
        name=SEARCH_TOOLS,
        description=(
            "Find more of your tools. You have many, and are shown only some of them. Search before you say that "
            "something can't be done. What is found is shown to you in the next step and can be called then."
        ),
        parameters=parameters(
            "query",
            query=string(
                "Words for what the tool does, or a part of its name, such as 'create issue'.",
                minLength=1,
                maxLength=400,
            ),
            limit=integer(f"How many tools to find; {_HITS} by default.", minimum=1, maximum=_MAX_HITS),
        ),
        timeout=10.0,
        annotations=NO_EFFECTS,
    )

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Return the best tools for the query, each with its name and the beginning of its description."""
        limit = cast(int, arguments.get("limit", _HITS))
        found = await ctx.tools.search(str(arguments["query"]), limit)
        if not found:
            return {"tools": [], "note": "No tool has these words. Try others: what it does, or whose tool it is."}
        return {"tools": [_describe(spec) for spec in found]}


def _describe(spec: ToolSpec) -> Json:
    text = " ".join(spec.description.split())
    clipped = text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 1]}…"
    return {"name": spec.name, "description": clipped}
