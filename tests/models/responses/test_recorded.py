"""Every recorded conversation of the Responses format is sent again: the SDK takes it, item by item as it was."""

import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from handspan.core.messages import AssistantMessage, Media, Message, ResultsMessage, Text, UserMessage, check_next
from handspan.core.results import Attachment
from handspan.models.json_values import json_objects
from handspan.models.model import Prompt
from handspan.models.responses.codec import ResponsesCodec
from tests.models.openai import oracle as openai_oracle
from tests.models.openai.recorded import (
    Exchange,
    add_result,
    answer_of,
    answers,
    cases,
    codec_of,
    encoded_all,
    requests,
    tools_of,
)

CALLING = ("reasoning", "function_call", "function_call_output")
PICTURE = Attachment("image", "image/png", b"\x89PNG")
DOCUMENT = Attachment("file", "application/pdf", b"%PDF-1.4", name="a.pdf")
SHOWN = {"input_image": PICTURE, "input_file": DOCUMENT}
"""What stands for a file that the recorder had uploaded, or linked: we send the bytes themselves."""
ENVELOPE = '{"status":"success"}'


def talks() -> list[Exchange]:
    """The recorded requests that carry on a conversation: their input holds more than what a person said."""
    return [
        exchange
        for exchange in requests("openai-responses")
        if any("type" in item for item in exchange["request"]["json"]["input"] if isinstance(item, dict))
    ]


def rebuilt(codec: ResponsesCodec, sent: list[Exchange]) -> list[Message]:
    """The recorded input as our messages. Every item that is neither a person's nor a result is part of a reply."""
    messages: list[Message] = []
    for is_reply, items in itertools.groupby(sent, key=is_of_model):
        if is_reply:
            messages.append(codec.decode({"output": [*items]}, {}, "m"))
            continue
        for item in items:
            if item.get("role") == "user":
                messages.append(UserMessage(tuple(user_part(part) for part in content_parts(item["content"]))))
            elif item.get("type") == "function_call_output":
                shown = [SHOWN[part["type"]] for part in item["output"] if isinstance(part, dict)]
                add_result(messages, item["call_id"], ENVELOPE if shown else item["output"], *shown)
    return messages


def is_of_model(item: Exchange) -> bool:
    return item.get("role") not in ("user", "system") and item.get("type") != "function_call_output"


def content_parts(content: Any) -> list[Exchange]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def user_part(part: Exchange) -> Text | Media:
    return Text(part["text"]) if part["type"] == "input_text" else Media(SHOWN[part["type"]])


def instructions_of(request: Exchange) -> str:
    """What the recorder said to the model beforehand, there or in the conversation."""
    said = [item["content"] for item in request["input"] if item.get("role") == "system"]
    return "\n\n".join([request.get("instructions") or "", *said]).strip()


def canonical(item: Exchange) -> Exchange:
    """The item in the one of its equivalent forms that can be compared."""
    if item.get("role") == "user":
        return {"type": "message", "role": "user", "content": [*map(without_file, content_parts(item["content"]))]}
    if item.get("type") == "function_call_output" and isinstance(item["output"], list):
        parts = [part for part in item["output"] if part != {"type": "input_text", "text": ENVELOPE}]
        return {**item, "output": [*map(without_file, parts)]}
    return item


def without_file(part: Exchange) -> Exchange:
    """The part without the file itself, which the recorder had sent before, and we send now."""
    return {key: value for key, value in part.items() if key not in ("file_id", "file_data", "filename", "image_url")}


def with_ids_of(recorded: list[Exchange], sent: list[Exchange]) -> list[Exchange]:
    """Our request with the recorded ids of calls instead of ours. Each of our ids stands for one recorded id."""
    called = [[item["call_id"] for item in items if item.get("type") == "function_call"] for items in (sent, recorded)]
    ids = dict(zip(*called, strict=True))
    assert len(set(ids.values())) == len(ids) == len(called[1])
    has_id = ("function_call", "function_call_output")
    return [{**item, "call_id": ids[item["call_id"]]} if item.get("type") in has_id else item for item in sent]


def build_request(codec: ResponsesCodec, exchange: Exchange, items: list[bytes], *, stream: bool) -> Exchange:
    """Our request with these items. The SDK's types take it, and know every field of it."""
    request = exchange["request"]["json"]
    body = codec.request(Prompt(request["model"], instructions_of(request), items, tools_of(exchange), stream=stream))
    sent: Exchange = msgspec.json.decode(body)
    assert openai_oracle.responses_request(body) == sent
    assert sent.get("instructions", "") == instructions_of(request)
    return sent


@pytest.mark.parametrize("with_before", [True, False], ids=["ids as they came", "ids of ours"])
@pytest.mark.parametrize("exchange", cases(talks()))
def test_recorded_conversation_is_sent_again_item_by_item(exchange: Exchange, with_before: bool) -> None:
    codec = codec_of(exchange)
    assert isinstance(codec, ResponsesCodec)
    recorded = [item for item in exchange["request"]["json"]["input"] if item.get("role") != "system"]
    messages = rebuilt(codec, recorded)
    for last, coming in itertools.pairwise(messages):
        check_next(last, coming)
    sent = build_request(codec, exchange, encoded_all(codec, messages, with_before=with_before), stream=with_before)[
        "input"
    ]
    matched = sent if with_before else with_ids_of(recorded, sent)
    assert [canonical(item) for item in matched] == [canonical(item) for item in recorded]


@pytest.mark.parametrize("exchange", cases(talks()))
def test_recorded_conversation_goes_to_another_model_without_what_is_the_first_ones_own(exchange: Exchange) -> None:
    codec = ResponsesCodec("another")
    recorded = [item for item in exchange["request"]["json"]["input"] if item.get("role") != "system"]
    messages = rebuilt(codec, recorded)
    sent = build_request(codec, exchange, encoded_all(codec, messages, with_before=True), stream=True)["input"]
    shared = [
        {key: value for key, value in item.items() if key not in ("id", "namespace")}
        for item in map(canonical, recorded)
        if item.get("type") in ("function_call", "function_call_output") or item.get("role") == "user"
    ]
    assert [canonical(item) for item in sent] == shared


def answered_before(exchange: Exchange) -> list[AssistantMessage]:
    """The recorded answers of the same conversation that came before this request, as we read them."""
    name, _, number = exchange["case"].partition("#")
    before = [each for each in answers("openai-responses") if each["case"].partition("#")[0] == name]
    return [answer_of(each) for each in before if int(each["case"].partition("#")[2]) < int(number)]


def with_true_ids(recorded: list[Exchange], heard: list[AssistantMessage]) -> list[Exchange]:
    """The recorded items; one recorder took the id of the item for the id of the call, in the call and its result."""
    items = [item for answer in heard if answer.native is not None for item in json_objects(answer.native.content)]
    ids = {item["id"]: item["call_id"] for item in items if item["type"] == "function_call"}
    return [
        {**item, "call_id": ids.get(item["call_id"], item["call_id"])} if "call_id" in item else item
        for item in recorded
    ]


def with_answers(messages: list[Message], heard: list[AssistantMessage]) -> list[Message]:
    """The conversation with the model's calls as our decoder reads them."""
    by_calls = {tuple(call.wire_id for call in answer.calls): answer for answer in heard if answer.calls}
    told: list[Message] = []
    for message in messages:
        if type(message) is AssistantMessage and message.calls:
            told.append(by_calls[tuple(call.wire_id for call in message.calls)])
        elif type(message) is ResultsMessage:
            calls = told[-1].calls if type(told[-1]) is AssistantMessage else ()
            results = zip(calls, message.results, strict=True)
            told.append(ResultsMessage(tuple(replace(result, call_id=call.id) for call, result in results)))
        else:
            told.append(message)
    return told


@pytest.mark.parametrize("exchange", cases(talks()))
def test_what_we_send_after_recorded_answers_is_what_the_recorder_sent(exchange: Exchange) -> None:
    """Here our own reading of the answers goes back, and not what the recorder made of them."""
    codec = codec_of(exchange)
    assert isinstance(codec, ResponsesCodec)
    heard = answered_before(exchange)
    recorded = with_true_ids(exchange["request"]["json"]["input"], heard)
    messages = with_answers(rebuilt(codec, recorded), heard)
    sent = build_request(codec, exchange, encoded_all(codec, messages, with_before=True), stream=True)["input"]
    mine = [canonical(item) for item in sent if item["type"] in CALLING]
    # The recorder leaves fields out, and adds a namespace of its own.
    theirs = [
        {key: value for key, value in canonical(item).items() if key != "namespace"}
        for item in recorded
        if item.get("type") in CALLING
    ]
    assert [{key: item.get(key) for key in like} for item, like in zip(mine, theirs, strict=True)] == theirs


def test_the_recorded_conversations_hold_what_these_tests_are_for() -> None:
    items = [item for exchange in talks() for item in exchange["request"]["json"]["input"]]
    kinds = Counter(item.get("type", item.get("role")) for item in items)
    assert len(talks()) > 15
    assert len([exchange for exchange in talks() if answered_before(exchange)]) == len(talks())
    assert min(kinds[kind] for kind in (*CALLING, "user", "tool_search_call")) > 5
    assert sum(len(item.get("encrypted_content", "")) > 100 for item in items) > 5
    assert {part["type"] for item in items for part in item.get("output", ()) if isinstance(part, dict)} == {*SHOWN}
