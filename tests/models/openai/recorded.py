"""The recorded exchanges of the OpenAI formats, and our reading of them."""

from typing import Any

import msgspec
import pytest

from handspan.core.messages import AssistantMessage, CallResult, Message, ResultsMessage
from handspan.core.results import Attachment
from handspan.core.tool import ToolSpec
from handspan.models.chat.codec import ChatCodec
from handspan.models.chat.servers import DEEPSEEK, MISTRAL, OPENAI, ChatServer
from handspan.models.model import Codec, LoweredTool, ModelEvent
from handspan.models.responses.codec import ResponsesCodec
from tests.recorded import conversations, events_of

Exchange = dict[str, Any]

SERVERS: dict[str, ChatServer] = {"openai-chat": OPENAI, "mistral-chat": MISTRAL, "deepseek-chat": DEEPSEEK}
CHATS = (
    "openai-chat",
    "cerebras-chat",
    "deepseek-chat",
    "groq-chat",
    "huggingface-chat",
    "mistral-chat",
    "openrouter-chat",
)


def is_error(exchange: Exchange) -> bool:
    response = exchange["response"]
    unfinished = response.get("json", {}).get("status") in ("queued", "in_progress")
    return response["status"] != 200 or any(name == "error" for name, _ in response.get("events", ())) or unfinished


def exchanges(*providers: str) -> list[Exchange]:
    """Every recorded exchange with these APIs, with its conversation and its place there."""
    return [
        {**exchange, "case": f"{provider}/{name}#{number}"}
        for provider in providers
        for name, conversation in conversations(provider).items()
        for number, exchange in enumerate(conversation)
    ]


def answers(*providers: str) -> list[Exchange]:
    return [exchange for exchange in exchanges(*providers) if not is_error(exchange)]


def errors(*providers: str) -> list[Exchange]:
    return [exchange for exchange in exchanges(*providers) if is_error(exchange)]


def requests(*providers: str) -> list[Exchange]:
    return [exchange for exchange in exchanges(*providers) if exchange["request"]["json"]]


def cases(exchanges: list[Exchange]) -> list[Any]:
    return [pytest.param(exchange, id=str(exchange["case"])) for exchange in exchanges]


def codec_of(exchange: Exchange) -> Codec:
    provider = exchange["case"].partition("/")[0]
    return ResponsesCodec() if provider == "openai-responses" else ChatCodec(SERVERS.get(provider, ChatServer()))


def names_of(exchange: Exchange) -> dict[str, str]:
    tools = (exchange["request"]["json"] or {}).get("tools", ())
    names = [tool.get("function", tool).get("name") for tool in tools]
    return {name: f"our_{name}" for name in names if name}


def answer_of(exchange: Exchange, events: list[ModelEvent] | None = None) -> AssistantMessage:
    """Our reading of the recorded response; `ModelError` for an error."""
    codec, names, response = codec_of(exchange), names_of(exchange), exchange["response"]
    if response["status"] != 200:
        raise codec.fault(response["status"], msgspec.json.encode(response["json"]))
    if "json" in response:
        return codec.decode(response["json"], names, "m")
    decoder = codec.decoder(names, "m")
    for name, data in events_of(response):
        told = decoder.feed(name, data)
        if events is not None:
            events.extend(told)
    return decoder.finish()


def add_result(messages: list[Message], wire_id: str, text: str, *shown: Attachment) -> None:
    before = messages[-1] if type(messages[-1]) is AssistantMessage else messages[-2]
    assert type(before) is AssistantMessage
    call = next(call for call in before.calls if call.wire_id == wire_id)
    earlier = messages.pop().results if type(messages[-1]) is ResultsMessage else ()  # type: ignore[union-attr] # it is one
    messages.append(ResultsMessage((*earlier, CallResult(call.id, call.name, text, attachments=shown))))


def encoded_all(codec: ChatCodec | ResponsesCodec, messages: list[Message], *, with_before: bool) -> list[bytes]:
    items: list[bytes] = []
    before: Message | None = None
    for message in messages:
        items += codec.encode(message, before) if with_before else codec.encode(message)
        before = message
    return items


def tools_of(exchange: Exchange) -> list[LoweredTool]:
    tools = [tool.get("function", tool) for tool in exchange["request"]["json"].get("tools", ()) if "name" in str(tool)]
    return [
        LoweredTool(
            tool["name"], ToolSpec(tool["name"], tool.get("description") or "", tool["parameters"]), tool["parameters"]
        )
        for tool in tools
        if "parameters" in tool and "name" in tool
    ]
