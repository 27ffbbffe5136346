"""Parameters of a request reach the API of the agent's model (SPEC F2)."""

import json
from pathlib import Path
from typing import Any

import pytest

from handspan.testing.gateway import running_gateway
from tests.gateway.openai.kit import WEATHER, Front, user
from tests.models.fake_server import KEY, Call, FakeModelServer, Turn

pytestmark = pytest.mark.anyio


async def test_they_are_said_in_the_words_of_the_models_api(tmp_path: Path) -> None:
    script = [Turn(text="yes"), Turn(calls=(Call("get_weather", "{}"),)), Turn(text="sunny"), Turn(text="plain")]
    async with FakeModelServer(script) as server:
        models = {"far": {"api": "openai-chat", "base_url": server.url("openai-chat"), "key": KEY, "model": "m-1"}}
        async with running_gateway(tmp_path, model="far", models=models) as gateway:
            there = Front(gateway)
            wished: Any = {"temperature": 0.25, "max_completion_tokens": 99, "stop": "END", "seed": 3}
            assert await there.text("hi", **wished) == "yes"
            forced: Any = {"type": "function", "function": {"name": "get_weather"}}
            first = (await there.ask("weather?", tools=[WEATHER], tool_choice=forced)).choices[0].message
            answer = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sun"}
            text = await there.text(user("weather?"), first.model_dump(exclude_none=True), answer, tools=[WEATHER])
            assert text == "sunny"
            assert await there.text("hi") == "plain"
            await there.close()
        plain, called, resumed, last = (asked.body for asked in server.asked)
        assert (plain["temperature"], plain["max_tokens"], plain["stop"], plain["seed"]) == (0.25, 99, ["END"], 3)
        assert called["tool_choice"] == forced
        assert "tool_choice" not in resumed
        assert "temperature" not in last
        assert json.dumps(resumed["messages"]).count("get_weather") == 1
