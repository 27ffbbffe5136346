"""Models over the fake server, and what a conversation with one needs."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from handspan.config.settings import ModelSettings
from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    UserMessage,
)
from handspan.core.results import Attachment, Failure, Success, encode_envelope
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.choice import codec_for, target_for
from handspan.models.http import HttpModel
from handspan.models.model import ModelEvent, Replied
from handspan.models.retry import RetryPolicy
from handspan.net.guard import NetGuard
from tests.models.fake_server import KEY, FakeModelServer, Turn

APIS: Final[tuple[Api, ...]] = ("openai-chat", "openai-responses", "anthropic", "gemini")
MODELS: Final[dict[Api, str]] = {
    "openai-chat": "gpt-5.5",
    "openai-responses": "gpt-5.5",
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-3-flash",
}
PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000a49444154789c63000100000500010d0a2db40000000049454e44ae426082"
)


def spec_of(name: str, properties: JsonObject | None = None, required: Sequence[str] = ()) -> ToolSpec:
    schema: JsonObject = {"type": "object", "properties": properties or {}, "additionalProperties": False}
    return ToolSpec(name, f"Do {name}.", {**schema, "required": list(required)} if required else schema)


WEATHER: Final = spec_of("weather", {"city": {"type": "string"}}, ["city"])
CAMERA: Final = spec_of("camera")
TOOLS: Final = (WEATHER, CAMERA)


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def answers(message: AssistantMessage, *results: CallResult) -> ResultsMessage:
    """The results, or a plain success for each call."""
    return ResultsMessage(results or tuple(success(call) for call in message.calls))


def success(call: CallPart, value: Any = "fine", *attachments: Attachment) -> CallResult:
    envelope = encode_envelope(Success(value, attachments)).decode()
    return CallResult(call.id, call.name, envelope, attachments=attachments)


def failure(call: CallPart, message: str = "File not found: x") -> CallResult:
    return CallResult(call.id, call.name, encode_envelope(Failure("file_not_found", message)).decode(), is_error=True)


class Pauses:
    """Replaces waiting: it notes the seconds and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def model_at(
    server: FakeModelServer,
    api: Api,
    *,
    key: str = KEY,
    stream: bool = True,
    strict: bool = False,
    options: JsonObject | None = None,
    silence: float = 20.0,
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    pause: Callable[[float], Awaitable[None]] | None = None,
    requests: int = 100,
) -> HttpModel:
    url = server.url(api)
    return HttpModel(
        codec_for(api, MODELS[api], url),
        NetGuard(),
        ModelSettings(api, url, key, MODELS[api], options or {}, stream=stream),
        target=target_for(api, strict=strict),
        silence=silence,
        retry=retry,
        pause=pause or Pauses(),
        requests=requests,
    )


@asynccontextmanager
async def talking(api: Api, script: Sequence[Turn], **how: Any) -> AsyncIterator[tuple[FakeModelServer, HttpModel]]:
    """A server that plays the script, and a model that asks it."""
    async with FakeModelServer(script) as server:
        model = model_at(server, api, **how)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: HttpModel, messages: Sequence[Message], tools: Sequence[ToolSpec] = TOOLS) -> list[ModelEvent]:
    """All events of one reply to these messages."""
    projection = model.projection("Be brief.")
    for message in messages:
        projection.append(message)
    return [event async for event in model.reply(projection, tools)]


async def reply_of(
    model: HttpModel, messages: Sequence[Message], tools: Sequence[ToolSpec] = TOOLS
) -> AssistantMessage:
    """What the model says to these messages."""
    last = (await ask(model, messages, tools))[-1]
    assert isinstance(last, Replied)
    return last.message
