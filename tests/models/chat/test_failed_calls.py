"""Calls that the server refused because the model wrote them wrongly (Groq's `tool_use_failed`)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from handspan.config.settings import ModelSettings
from handspan.models.chat.calls import read_failed_call
from handspan.models.chat.codec import ChatCodec
from handspan.models.http import HttpModel
from handspan.models.model import ModelError
from handspan.net.guard import NetGuard
from tests.gateway.raw_clients import running
from tests.net.site import Site, response

pytestmark = pytest.mark.anyio

NAMES = {"read_file": "read_file", "wire__web": "web.fetch"}
WORDS = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."


def failed(generation: str | None, message: str = WORDS) -> dict[str, object]:
    more = {} if generation is None else {"failed_generation": generation}
    error = {"message": message, "type": "invalid_request_error", "code": "tool_use_failed", **more}
    return {"error": {**error, "status_code": 400}}


@pytest.mark.parametrize(
    ("generation", "message", "name"),
    [
        ('<function=read_file{"path": "a.txt"}</function>', WORDS, "read_file"),
        ('{"name": "wire__web", "parameters": {"url": 1}}', WORDS, "web.fetch"),
        (None, "tool call validation failed: parameters for tool read_file did not match schema", "read_file"),
    ],
)
def test_the_call_is_one_that_no_engine_runs_and_says_what_the_server_said(
    generation: str | None, message: str, name: str
) -> None:
    call = read_failed_call(msgspec.json.decode(msgspec.json.encode(failed(generation, message))), NAMES)
    assert call is not None and call.name == name
    assert message in call.arguments and (generation or "") in call.arguments
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)


@pytest.mark.parametrize(
    "answer",
    [failed("I would rather not."), failed("no_such_tool{}"), {"error": {"code": "other", "message": "read_file"}}, {}],
)
def test_an_error_about_something_else_stays_an_error(answer: dict[str, object]) -> None:
    assert read_failed_call(msgspec.json.decode(msgspec.json.encode(answer)), NAMES) is None


def test_in_a_stream_what_came_before_is_kept() -> None:
    decoder = ChatCodec().decoder(NAMES, "m")
    decoder.feed("", '{"choices": [{"index": 0, "delta": {"content": "I look."}}]}')
    decoder.feed("error", json.dumps(failed('read_file{"path": 1')))
    message = decoder.finish()
    assert message.text == "I look." and [call.name for call in message.calls] == ["read_file"]
    assert message.stop == "calls"
    with pytest.raises(ModelError):
        ChatCodec().decoder(NAMES, "m").feed("error", json.dumps(failed("nothing that we know")))


def _play(*answers: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    left = iter(answers)

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(next(left))
        await writer.drain()

    return answer


async def test_the_model_hears_of_it_and_the_turn_goes_on(tmp_path: Path) -> None:
    kind = {"Content-Type": "application/json"}
    refusal = response(json.dumps(failed('<function=read_file>{"path": a.txt}')).encode(), "400 Bad Request", kind)
    choice = {"index": 0, "message": {"role": "assistant", "content": "Sorry, a typo."}, "finish_reason": "stop"}
    good = response(json.dumps({"choices": [choice]}).encode(), headers=kind)
    async with Site({"/v1/chat/completions": _play(refusal, good)}) as site:
        model = HttpModel(
            ChatCodec(), NetGuard(), ModelSettings(base_url=site.url("/v1"), model="m", stream=False), target="openai"
        )
        async with running(tmp_path, model) as place, place.client() as chat:
            await chat.send("message", content="read it")
            frames = await chat.hears_until("done")
        await model.close()
    assert frames[-1]["full_response"] == "Sorry, a typo."
    (told,) = [frame for frame in frames if frame["type"] == "tool_result"]
    assert told["name"] == "read_file" and "can't be read" in told["output"]
    second = json.loads(site.seen[1].body)["messages"]
    assert WORDS in json.dumps(second[-2]) and "invalid_arguments" in second[-1]["content"]
