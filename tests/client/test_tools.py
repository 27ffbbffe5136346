"""The tools that a client offers."""

import asyncio
import functools
from typing import Annotated, Any

import pytest

from handspan.client.context import CallContext
from handspan.client.tools import ClientTools
from handspan.core.context import ToolContext, no_progress
from handspan.core.errors import DefinitionError, ToolError
from handspan.core.function_tool import tool
from handspan.core.tool import READ_ONLY, Annotations, ToolSpec
from handspan.core.values import Arguments, Json

EMPTY: dict[str, Json] = {"type": "object", "properties": {}}


def context(arguments: Arguments | None = None) -> CallContext:
    return CallContext("c1", "a_tool", arguments or {}, no_progress, lambda: None)


def call(tools: ClientTools, name: str, arguments: Arguments) -> Any:
    """What its code gives."""
    found = tools.find(name)
    assert found is not None
    code = tools.code(found)
    assert code is not None
    given = code.run(arguments, context(arguments))
    return asyncio.run(given) if code.is_async else given


def test_a_function_without_words_or_types_is_no_tool() -> None:
    tools = ClientTools()

    def silent(text: str) -> str:
        return text

    def untyped(text) -> str:  # type: ignore[no-untyped-def] # that is what is tried
        """Has no type."""
        return str(text)

    with pytest.raises(DefinitionError, match="has no description"):
        tools.tool(silent)
    with pytest.raises(DefinitionError, match="has no type"):
        tools.tool(untyped)
    with pytest.raises(DefinitionError, match="snake_case"):
        tools.tool(name="Shout!", description="Shouts.")(silent)
    assert list(tools) == []


def test_a_spec_that_can_not_be_used_is_refused() -> None:
    tools = ClientTools()
    with pytest.raises(DefinitionError, match="name, description and parameters"):
        tools.register({"name": "camera", "description": "Take a photo."})
    with pytest.raises(DefinitionError, match="but the schema asks for type"):
        tools.register({"name": "camera", "description": "Take a photo.", "parameters": {"type": "no such type"}})
    with pytest.raises(DefinitionError, match="the schema can't be used: Not JSON"):
        tools.register({"name": "camera", "description": "Take a photo.", "parameters": "{"})
    with pytest.raises(DefinitionError, match="name, description and parameters"):
        tools.register(
            {"name": "camera", "description": "Take a photo.", "parameters": EMPTY, "annotations": {"read_only": 7}}
        )


def test_a_function_is_described_by_its_signature_and_stays_what_it_is() -> None:
    tools = ClientTools()

    @tools.tool
    def shout(text: Annotated[str, "what to shout"], times: int = 1) -> str:
        """Say it louder."""
        return text.upper() * times

    assert shout("a", 2) == "AA"
    found = tools.find("shout")
    assert found is not None
    assert found.offer() == {
        "name": "shout",
        "description": "Say it louder.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "what to shout"},
                "times": {"type": "integer", "default": 1},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    }
    assert call(tools, "shout", {"text": "hi", "times": 2}) == "HIHI"


def test_a_function_gets_the_context_that_it_asks_for_and_the_model_does_not_see_it() -> None:
    tools = ClientTools()

    @tools.tool
    async def whose(word: str, ctx: CallContext) -> list[str]:
        """Whose call it is."""
        return [word, ctx.call_id]

    @tools.tool
    def which(ctx: ToolContext, word: str) -> list[str]:
        """Which call it is: written for the gateway, and used here."""
        return [word, ctx.call_id]

    for name in ("whose", "which"):
        found = tools.find(name)
        assert found is not None
        assert found.spec.parameters["properties"] == {"word": {"type": "string"}}
        assert call(tools, name, {"word": "w"}) == ["w", "c1"]


def test_what_a_signature_can_not_say_is_given_besides() -> None:
    tools = ClientTools()

    @tools.tool(
        name="photo",
        permissions=("camera",),
        timeout=60.0,
        version="2.0.0",
        annotations=READ_ONLY,
        description="A photo.",
    )
    def take(quality: str = "low") -> str:
        return quality

    found = tools.find("photo")
    assert found is not None
    assert found.may_repeat
    offer = found.offer()
    assert (offer["permissions"], offer["timeout"], offer["version"]) == (["camera"], 60.0, "2.0.0")
    assert offer["annotations"] == {
        "read_only": True,
        "destructive": False,
        "idempotent": True,
        "open_world": False,
        "serial": False,
    }


def test_claims_are_sent_only_where_they_were_made() -> None:
    tools = ClientTools()
    tools.register(ToolSpec("silent", "Says nothing of itself.", EMPTY))
    tools.register({"name": "honest", "description": "Hurts nobody.", "parameters": EMPTY, "annotations": {}})

    @tools.tool(annotations=Annotations())
    def harmless() -> None:
        """Hurts nobody."""

    @tools.tool
    def plain() -> None:
        """Says nothing of itself."""

    offers = {one.spec.name: one.offer() for one in tools}
    assert "annotations" not in offers["silent"] | offers["plain"]
    assert offers["honest"]["annotations"] == offers["harmless"]["annotations"]


def test_code_gets_the_arguments_or_the_arguments_and_the_context() -> None:
    tools = ClientTools()

    async def on_loop(arguments: Arguments) -> Json:
        return arguments["x"]

    class Callable:
        async def __call__(self, arguments: Arguments, ctx: CallContext) -> list[Json]:
            return [arguments["x"], ctx.call_id]

    codes: dict[str, Any] = {
        "one": lambda arguments: arguments["x"],
        "two": lambda arguments, ctx: [arguments["x"], ctx.call_id],
        "three": on_loop,
        "four": Callable(),
        "five": functools.partial(lambda key, arguments: arguments[key], "x"),
        "six": dict,
    }
    for name, code in codes.items():
        tools.register({"name": name, "description": "A tool.", "parameters": '{"type": "object"}'}, code)
    assert [call(tools, name, {"x": 1}) for name in codes] == [1, [1, "c1"], 1, [1, "c1"], 1, {"x": 1}]


def test_a_built_in_tool_can_be_offered_as_it_is() -> None:
    @tool(annotations=READ_ONLY)
    def double(number: int) -> int:
        """Twice as much."""
        return number * 2

    tools = ClientTools()
    tools.register(double)
    tools.tool(name="twice")(double)
    assert call(tools, "double", {"number": 4}) == 8
    assert call(tools, "twice", {"number": 5}) == 10
    assert [one.may_repeat for one in tools] == [True, False]


def test_parameters_may_be_json_text_as_in_the_seed() -> None:
    tools = ClientTools()
    text: Any = '{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}'
    tools.register(ToolSpec("contacts", "Query phone contacts", text), lambda arguments: arguments["query"])
    found = tools.find("contacts")
    assert found is not None
    assert found.spec.parameters["required"] == ["query"]
    assert "missing required parameter 'query'" in found.argument_error({})
    assert found.argument_error({"query": "Ada"}) == ""


def test_a_listener_gets_every_change() -> None:
    tools, heard = ClientTools(), list[str]()
    tools.listeners.append(heard.append)
    tools.register({"name": "camera", "description": "Take a photo.", "parameters": EMPTY})
    assert tools.unregister("camera")
    assert not tools.unregister("camera")
    assert heard == ["camera", "camera"]


def test_a_copy_has_the_same_tools_and_goes_its_own_way() -> None:
    tools = ClientTools()
    tools.register({"name": "camera", "description": "Take a photo.", "parameters": EMPTY})
    copied = tools.copy()
    copied.unregister("camera")
    assert tools.find("camera") is not None
    assert tools.hint("camra") == " Did you mean 'camera'?"


def test_a_function_whose_types_can_not_be_read_says_so() -> None:
    def strange(thing: "NoSuchType") -> None:  # type: ignore[name-defined] # noqa: F821 - that is what is tried
        """Strange."""

    with pytest.raises(DefinitionError, match="can't be read"):
        ClientTools().tool(strange)


def test_wrong_arguments_of_a_functions_own_types_are_a_tool_error() -> None:
    from datetime import date  # noqa: PLC0415 - beside the function that needs it

    tools = ClientTools()

    @tools.tool
    def weekday(day: date) -> int:
        """Which day of the week it is."""
        return day.weekday()

    assert call(tools, "weekday", {"day": "2024-02-29"}) == 3
    with pytest.raises(ToolError, match="day"):
        call(tools, "weekday", {"day": "2023-02-30"})
