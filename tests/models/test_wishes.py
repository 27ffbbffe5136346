"""What a client wishes of replies, in the words of each API (SPEC F2)."""

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from handspan.config.settings import ModelPrice, ModelSettings, Settings
from handspan.core.messages import Api, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.models.budgeted import Budget, BudgetedModel
from handspan.models.chain import ModelChain, RestingModels
from handspan.models.choice import choose
from handspan.models.model import LoweredTool
from handspan.models.scripted import Scripted
from handspan.models.wishes import ANY_TOOL, NO_WISHES, ReplyWishes, wished_options, with_wishes
from handspan.net.guard import NetGuard
from tests.models.fake_server import KEY, FakeModelServer, Turn

ALL = ReplyWishes(
    temperature=0.5, top_p=0.9, seed=7, stop=("END",), max_tokens=50, effort="low", tool="look", parallel=False
)
SPEC = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
TOOLS = [LoweredTool("look_1", SPEC, dict(SPEC.parameters))]


class NoLimits:
    """A budget without a limit."""

    limits_now = False


def said(api: Api, wishes: ReplyWishes, given: dict[str, Any] | None = None, *, tools: bool = True) -> Any:
    return wished_options(api, wishes, TOOLS if tools else [], given or {}, is_vendor=True)


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (
            "openai-chat",
            {
                "temperature": 0.5,
                "top_p": 0.9,
                "seed": 7,
                "stop": ["END"],
                "max_completion_tokens": 50,
                "reasoning_effort": "low",
                "tool_choice": {"type": "function", "function": {"name": "look_1"}},
                "parallel_tool_calls": False,
            },
        ),
        (
            "openai-responses",
            {
                "temperature": 0.5,
                "top_p": 0.9,
                "max_output_tokens": 50,
                "reasoning": {"effort": "low"},
                "tool_choice": {"type": "function", "name": "look_1"},
                "parallel_tool_calls": False,
            },
        ),
        (
            "anthropic",
            {
                "temperature": 0.5,
                "top_p": 0.9,
                "stop_sequences": ["END"],
                "max_tokens": 50,
                "tool_choice": {"type": "tool", "name": "look_1", "disable_parallel_tool_use": True},
            },
        ),
        (
            "gemini",
            {
                "temperature": 0.5,
                "topP": 0.9,
                "seed": 7,
                "stopSequences": ["END"],
                "maxOutputTokens": 50,
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look_1"]}},
            },
        ),
    ],
)
def test_each_api_has_its_words(api: Api, expected: dict[str, Any]) -> None:
    assert said(api, ALL) == expected


def test_without_tools_nothing_is_said_of_them() -> None:
    for api in ("openai-chat", "openai-responses", "anthropic", "gemini"):
        options = said(api, structs.replace(ALL, tool=ANY_TOOL), tools=False)
        assert not {"tool_choice", "parallel_tool_calls", "toolConfig"} & set(options)


def test_some_tool_is_a_word_of_each_api() -> None:
    any_tool = ReplyWishes(tool=ANY_TOOL)
    assert said("openai-chat", any_tool) == said("openai-responses", any_tool) == {"tool_choice": "required"}
    assert said("anthropic", any_tool) == {"tool_choice": {"type": "any"}}
    assert said("gemini", any_tool) == {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}


def test_wishes_win_over_the_settings_and_what_is_not_wished_stays() -> None:
    given = {"temperature": 1.0, "max_tokens": 9, "reasoning": {"summary": "auto"}}
    assert said("openai-chat", ReplyWishes(temperature=0.1), given) == {**given, "temperature": 0.1}
    assert said("openai-chat", ReplyWishes(max_tokens=5), given)["max_tokens"] == 5
    assert said("openai-responses", ReplyWishes(effort="high"), given)["reasoning"] == {
        "summary": "auto",
        "effort": "high",
    }


@pytest.mark.anyio
async def test_they_pass_through_a_list_of_models_and_a_budget(tmp_path: Path) -> None:
    async with FakeModelServer([Turn(text="yes")]) as server:
        given = ModelSettings("openai-chat", server.url("openai-chat"), KEY, "m-1")
        far = choose(Settings(tmp_path, tmp_path, models={"far": given}), NetGuard(), {}, "far").model
        paid = BudgetedModel(far, cast(Budget, NoLimits()), ModelPrice(), model_id="m-1", options={})
        model = with_wishes(ModelChain([paid], RestingModels()), ReplyWishes(temperature=0.5))
        projection = model.projection()
        projection.append(UserMessage((Text("hi"),)))
        async for _ in model.reply(projection, ()):
            pass
        assert server.asked[0].body["temperature"] == 0.5


def test_a_model_without_words_for_wishes_stays_as_it_is() -> None:
    model = Scripted(["yes"])
    assert with_wishes(model, ALL) is model
    assert with_wishes(model, NO_WISHES) is model
