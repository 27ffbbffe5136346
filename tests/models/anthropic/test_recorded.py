"""Recorded exchanges with the real API: read to the same calls, and sent again."""

import json
from base64 import b64decode
from itertools import pairwise
from typing import cast

import msgspec
import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallResult,
    Media,
    Message,
    ResultsMessage,
    Text,
    UserMessage,
    check_all,
)
from handspan.core.results import Attachment
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.anthropic.codec import AnthropicCodec
from handspan.models.model import LoweredTool, ModelError, Prompt
from tests.models.anthropic import oracle as anthropic_oracle
from tests.recorded import conversations, events_of

CASES = conversations("anthropic")
CODEC = AnthropicCodec()
EXTRA = {"caller", "citations", "is_error"}
"""What the API sent and the recording client left out when it answered; is_error is false where it is missing."""

every_case = pytest.mark.parametrize("exchanges", CASES.values(), ids=CASES)


def objects(value: Json) -> list[JsonObject]:
    return cast("list[JsonObject]", value)


def blocks_of(holder: JsonObject) -> list[JsonObject]:
    content = holder["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def read(response: JsonObject) -> AssistantMessage:
    """The answer as our codec reads it."""
    if "json" in response:
        return CODEC.decode(cast("JsonObject", response["json"]), {}, "claude-x")
    decoder = CODEC.decoder({}, "claude-x")
    for name, data in events_of(response):
        decoder.feed(name, data)
    return decoder.finish()


def plainly(response: JsonObject) -> list[Json]:
    """The content blocks: as they stand in a whole answer, as the SDK puts them together from a stream."""
    if "json" in response:
        return cast("list[Json]", cast("JsonObject", response["json"])["content"])
    return anthropic_oracle.content_by_sdk(json.loads(data) for _, data in events_of(response))


def conversation(messages: list[JsonObject], answers: dict[str, AssistantMessage]) -> list[Message]:
    """A recorded request as our messages, with the answers that we read ourselves."""
    ours: list[Message] = []
    for message in messages:
        blocks = blocks_of(message)
        if message["role"] == "assistant":
            known = next((answers[key] for block in blocks if (key := str(block.get("id"))) in answers), None)
            ours.append(known or CODEC.decode({"content": [*blocks], "stop_reason": "end_turn"}, {}, "claude-x"))
        elif message["role"] == "user":  # others are of a beta that we do not take part in
            ours += user_messages(blocks, ours)
    return ours


def user_messages(blocks: list[JsonObject], before: list[Message]) -> list[Message]:
    found: list[Message] = []
    last = before[-1] if before else None
    if type(last) is AssistantMessage and last.calls:
        by_wire_id = {str(block["tool_use_id"]): block for block in blocks if block["type"] == "tool_result"}
        results = [result_of(call.id, by_wire_id[call.wire_id]) for call in last.calls]
        found.append(ResultsMessage(tuple(results)))
    rest = [block for block in blocks if block["type"] != "tool_result" and not by_address(block)]
    parts = [Text(str(block["text"])) if block["type"] == "text" else Media(attachment(block)) for block in rest]
    return [*found, UserMessage(tuple(parts))] if parts else found


def result_of(call_id: str, block: JsonObject) -> CallResult:
    blocks = blocks_of(block)
    text = "".join(str(inner["text"]) for inner in blocks if inner["type"] == "text")
    media = [attachment(inner) for inner in blocks if inner["type"] != "text" and not by_address(inner)]
    return CallResult(call_id, "", text, bool(block.get("is_error")), tuple(media))


def attachment(block: JsonObject) -> Attachment:
    source = cast("JsonObject", block["source"])
    data = str(source["data"])
    raw = data.encode() if source["type"] == "text" else b64decode(data)
    return Attachment("image" if block["type"] == "image" else "file", str(source["media_type"]), raw)


def by_address(block: JsonObject) -> bool:
    """Whether a block only points to its content; our attachments carry theirs. Tool references are of a beta."""
    source = block.get("source")
    return block["type"] == "tool_reference" or (isinstance(source, dict) and source["type"] in ("url", "file"))


def comparable(messages: list[JsonObject]) -> list[Json]:
    """The messages without what may differ: texts as blocks, no system messages."""
    turns: list[Json] = []
    for message in messages:
        blocks = blocks_of(message)
        kept = [comparable_block(block) for block in blocks if not by_address(block)]
        if message["role"] != "system":
            turns.append({"role": message["role"], "content": [*kept]})
    return turns


def comparable_block(block: JsonObject) -> JsonObject:
    plain: JsonObject = {key: value for key, value in block.items() if key not in EXTRA}
    if block["type"] == "tool_result":
        kept = [item for item in blocks_of(block) if not by_address(item)]
        plain["content"] = [item for item in kept if item != {"type": "text", "text": ""}]
        plain["failed"] = bool(block.get("is_error"))
    return plain


def lowered_tool(tool: JsonObject) -> LoweredTool:
    name, schema = str(tool["name"]), cast("JsonObject", tool["input_schema"])
    return LoweredTool(name, ToolSpec(name, str(tool.get("description", "")), schema), schema, bool(tool.get("strict")))


@every_case
@pytest.mark.outside
def test_a_recorded_answer_is_read_to_the_same_calls(exchanges: list[JsonObject]) -> None:
    for exchange in exchanges:
        response = cast("JsonObject", exchange["response"])
        if response["status"] != 200:
            continue
        answer, blocks = read(response), objects(plainly(response))
        calls = [block for block in blocks if block["type"] == "tool_use"]
        assert len(answer.calls) == exchange["tool_calls_in_response"] == len(calls)
        assert [call.name for call in answer.calls] == [block["name"] for block in calls]
        assert [msgspec.json.decode(call.arguments) for call in answer.calls] == [block["input"] for block in calls]
        assert [call.wire_id for call in answer.calls] == [block["id"] for block in calls]
        assert answer.text == "".join(str(block["text"]) for block in blocks if block["type"] == "text")
        assert answer.native is not None
        assert answer.native.content == blocks
        assert answer.usage is not None
        assert None not in (answer.usage.input, answer.usage.output, answer.usage.cached)


@every_case
def test_a_recorded_error_is_a_model_error(exchanges: list[JsonObject]) -> None:
    for exchange in exchanges:
        response = cast("JsonObject", exchange["response"])
        if response["status"] == 200:
            assert isinstance(read(response), AssistantMessage)
        else:
            error = CODEC.fault(int(str(response["status"])), json.dumps(response["json"]).encode())
            assert isinstance(error, ModelError)
            assert (error.fault, error.status) == ("unknown_model", 404)


@every_case
def test_a_recorded_conversation_is_sent_again_as_it_was(exchanges: list[JsonObject]) -> None:
    answers: dict[str, AssistantMessage] = {}
    for exchange in exchanges:
        recorded = cast("JsonObject", cast("JsonObject", exchange["request"])["json"])
        messages = objects(recorded["messages"])
        ours = conversation(messages, answers)
        check_all(ours)
        items = [item for before, one in pairwise([None, *ours]) if one for item in CODEC.encode(one, before)]
        tools = [lowered_tool(tool) for tool in objects(recorded.get("tools") or []) if "input_schema" in tool]
        options: JsonObject = {"cache_control": None, "max_tokens": recorded["max_tokens"]}
        body = CODEC.request(Prompt(str(recorded["model"]), "", items, tools, stream=False, options=options))
        assert comparable(objects(anthropic_oracle.check(body)["messages"])) == comparable(messages)
        response = cast("JsonObject", exchange["response"])
        if response["status"] == 200:
            answer = read(response)
            answers |= {call.wire_id: answer for call in answer.calls}
