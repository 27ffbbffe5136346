"""Edit and approve: a person changes the arguments of a call before it runs (SPEC P5)."""

import sys
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from handspan.cli import late
from handspan.cli.requests import Requests
from handspan.cli.terminal_questions import EditArguments, is_simple_terminal
from handspan.core.errors import InvalidAnswer, WireError
from handspan.core.questions import Question
from handspan.core.schema import Validator, join_problems
from handspan.core.values import JsonObject, strip_invisible
from handspan.wire import strict_json
from handspan.wire.rest.tools import ToolList

_TYPE_IT: Final = "  The arguments as JSON, on one line (empty: go back)? "


def argument_editor(requests: Requests) -> EditArguments:
    """Return a function that lets the person at this terminal edit arguments: in an editor, or by typing them anew."""

    async def edit(question: Question, prompt: Callable[[str], Awaitable[str]]) -> JsonObject | None:
        """Let the person edit the arguments until they are valid. Return None if the person gives up."""
        check = await argument_check(requests, question.tool)
        if not is_simple_terminal():
            text = msgspec.json.format(msgspec.json.encode(question.arguments), indent=2).decode()
            return await late.json_editor.edit_json(text, check)
        while typed := (await prompt(_TYPE_IT)).strip():
            try:
                return check(typed)
            except InvalidAnswer as error:
                print(f"  {strip_invisible(str(error))}", file=sys.stderr)
        return None

    return edit


async def argument_check(requests: Requests, tool: str) -> Callable[[str], JsonObject]:
    """Return a function that reads and checks the text that a person typed as arguments for this tool.

    The function raises `InvalidAnswer` when the arguments don't fit. If the tool is gone meanwhile, there is no
    schema to check against: the gateway then says what becomes of the call.
    """
    tools = (await requests.get("/api/tools", ToolList)).tools
    schema = next((one.parameters for one in tools if one.name == tool), None)
    validator = None if schema is None else Validator(schema)

    def check(typed: str) -> JsonObject:
        """Return the arguments in this text. Raises `InvalidAnswer` when they do not fit the tool."""
        try:
            given = strict_json.parse(typed)
        except WireError as error:
            raise InvalidAnswer(f"{error}") from None
        if not isinstance(given, dict):
            raise InvalidAnswer("The arguments are a JSON object: {…}.")
        if validator is not None and (problems := validator.problems(given)):
            raise InvalidAnswer(f"{tool} does not take this: {join_problems(problems)}")
        return given

    return check
