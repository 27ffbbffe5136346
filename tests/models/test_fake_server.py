"""The fake model server: the vendors' own clients read it, and it refuses what the real APIs refuse.

The clients are oracles for the test bed: if they read the fake rightly, then an adapter of ours that reads it rightly
is right about the real thing too.
"""

from typing import Any

import msgspec
import pytest

from tests.models.fake_server import KEY, Call, FakeModelServer, Turn
from tests.thoroughness import IS_DEEP

pytestmark = [pytest.mark.anyio, pytest.mark.outside]  # every test has a client of a vendor

PARALLEL = Turn(
    text="Grüße, 世界 🌍: one moment.",
    thinking="Two cities, so two calls.",
    calls=(Call("weather", '{"city":"Tōkyō"}'), Call("weather", '{"city":"Zürich"}')),
    input=40,
    output=25,
    cached=10,
)
BYTE_BY_BYTE = msgspec.structs.replace(PARALLEL, chunk=1, delta=1 if IS_DEEP else 1000)
LETTER_BY_LETTER = msgspec.structs.replace(PARALLEL, chunk=0, delta=1)
SHAPES = [
    pytest.param(PARALLEL, id="event by event"),
    pytest.param(BYTE_BY_BYTE, id="byte by byte", marks=pytest.mark.flood),
    pytest.param(LETTER_BY_LETTER, id="letter by letter"),
]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Tell the weather.", "parameters": SCHEMA}


@pytest.mark.parametrize("turn", SHAPES)
@pytest.mark.parametrize("streamed", [True, False])
async def test_openais_client_reads_chat_completions(turn: Turn, streamed: bool) -> None:
    openai = pytest.importorskip("openai")
    request = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    request["tools"] = [{"type": "function", "function": FUNCTION}]
    async with (
        FakeModelServer([turn]) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.url("openai-chat")) as client,
    ):
        if streamed:
            async with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
                answer = await stream.get_final_completion()
        else:
            answer = await client.chat.completions.create(**request)
    message = answer.choices[0].message
    assert message.content == turn.text
    assert message.model_extra["reasoning_content"] == turn.thinking
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == _calls(turn)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (40, 25)


@pytest.mark.parametrize("turn", SHAPES)
@pytest.mark.parametrize("streamed", [True, False])
async def test_openais_client_reads_responses(turn: Turn, streamed: bool) -> None:
    openai = pytest.importorskip("openai")
    request = {"model": "m", "input": "?", "tools": [{"type": "function", "strict": False, **FUNCTION}]}
    async with (
        FakeModelServer([turn]) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.url("openai-responses")) as client,
    ):
        if streamed:
            async with client.responses.stream(**request) as stream:
                answer = await stream.get_final_response()
        else:
            answer = await client.responses.create(**request)
    assert answer.output_text == turn.text
    assert answer.output[0].summary[0].text == turn.thinking
    calls = [(item.name, item.arguments) for item in answer.output if item.type == "function_call"]
    assert calls == _calls(turn)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (40, 25)


@pytest.mark.parametrize("turn", SHAPES)
@pytest.mark.parametrize("streamed", [True, False])
async def test_anthropics_client_reads_messages(turn: Turn, streamed: bool) -> None:
    anthropic = pytest.importorskip("anthropic")
    tool = {"name": "weather", "description": "Tell the weather.", "input_schema": SCHEMA}
    request = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "?"}], "tools": [tool]}
    async with FakeModelServer([turn]) as server, anthropic.AsyncAnthropic(api_key=KEY, base_url=server.root) as client:
        if streamed:
            async with client.messages.stream(**request) as stream:
                answer = await stream.get_final_message()
        else:
            answer = await client.messages.create(**request)
    thinking, text, *calls = answer.content
    assert (thinking.thinking, text.text) == (turn.thinking, turn.text)
    assert thinking.signature in server.issued.signatures
    assert [(call.name, msgspec.json.encode(call.input).decode()) for call in calls] == _calls(turn)
    assert answer.stop_reason == "tool_use"
    assert (answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (10, 25)


@pytest.mark.parametrize("turn", SHAPES)
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_googles_client_reads_generate_content(turn: Turn, streamed: bool) -> None:
    genai = pytest.importorskip("google.genai")
    config = {"tools": [{"function_declarations": [FUNCTION]}]}
    request = {"model": "gemini-3-flash", "contents": "?", "config": config}
    async with FakeModelServer([turn]) as server:
        client = genai.Client(api_key=KEY, http_options={"base_url": server.root})
        async with client.aio as google:
            if streamed:
                chunks = [chunk async for chunk in await google.models.generate_content_stream(**request)]
            else:
                chunks = [await google.models.generate_content(**request)]
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert "".join(part.text for part in parts if part.text and not part.thought) == turn.text
    assert "".join(part.text for part in parts if part.text and part.thought) == turn.thinking
    calls = [part for part in parts if part.function_call]
    assert [
        (call.function_call.name, msgspec.json.encode(call.function_call.args).decode()) for call in calls
    ] == _calls(turn)
    assert [call.thought_signature is not None for call in calls] == [True, False]
    assert chunks[-1].candidates[0].finish_reason.value == "STOP"
    assert chunks[-1].usage_metadata.prompt_token_count == 40


async def test_what_the_api_would_refuse_is_answered_with_400_and_uses_up_no_turn() -> None:
    openai = pytest.importorskip("openai")
    async with (
        FakeModelServer([Turn(text="hi")]) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.url("openai-chat")) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="must be a response to a preceding message"):
            await client.chat.completions.create(
                model="m", messages=[{"role": "tool", "tool_call_id": "x", "content": ""}]
            )
        assert len(server.script) == 1
        assert "preceding message" in server.asked[0].refused


async def test_a_wrong_key_is_refused() -> None:
    anthropic = pytest.importorskip("anthropic")
    async with (
        FakeModelServer([Turn()]) as server,
        anthropic.AsyncAnthropic(api_key="other", base_url=server.root) as client,
    ):
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}])


async def test_an_error_in_the_stream_is_one_for_the_vendors_client() -> None:
    anthropic = pytest.importorskip("anthropic")
    async with (
        FakeModelServer([Turn(fault="error_event")]) as server,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.root) as client,
    ):
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            async with client.messages.stream(
                model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]
            ) as stream:
                await stream.get_final_message()


def _calls(turn: Turn) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in turn.calls]
