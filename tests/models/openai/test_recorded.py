"""Every recorded exchange of the OpenAI formats is read as it was, and sent again in a form that the SDK takes."""

from typing import Any

import msgspec
import pytest

from handspan.core.messages import (
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    Thinking,
    UserMessage,
)
from handspan.core.values import JsonObject
from handspan.models.chat.codec import ChatCodec
from handspan.models.model import CallDelta, Codec, ModelError, ModelEvent, Prompt, TextDelta, ThinkingDelta
from handspan.models.responses.codec import ResponsesCodec
from tests.models.openai import oracle as openai_oracle
from tests.models.openai.recorded import (
    CHATS,
    Exchange,
    add_result,
    answer_of,
    answers,
    cases,
    codec_of,
    encoded_all,
    errors,
    names_of,
    requests,
    tools_of,
)
from tests.recorded import events_of

Call = tuple[str, Any]


def plainly_read_chat(exchange: Exchange) -> tuple[str, list[Call]]:
    """Text and calls by the shortest code that can read these recordings."""
    response = exchange["response"]
    if "json" in response:
        message = response["json"]["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        return message.get("content") or "", [(call["name"], call["arguments"]) for call in calls]
    text, pieces = "", dict[int, list[str]]()
    for _, data in events_of(response):
        for choice in [] if data == "[DONE]" else msgspec.json.decode(data)["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                name_and_arguments = pieces.setdefault(call["index"], ["", ""])
                name_and_arguments[0] += call["function"].get("name") or ""
                name_and_arguments[1] += call["function"].get("arguments") or ""
    return text, [(name, arguments) for name, arguments in pieces.values()]


def plainly_read_response(exchange: Exchange) -> tuple[str, list[Call]]:
    response = exchange["response"]
    if "events" in response:
        *_, (_, data) = events_of(response)
        output = msgspec.json.decode(data)["response"]["output"]
    else:
        output = response["json"]["output"]
    contents = [content for item in output if item["type"] == "message" for content in item["content"]]
    calls = [(item["name"], item["arguments"]) for item in output if item["type"] == "function_call"]
    return "".join(content["text"] for content in contents), calls


@pytest.mark.parametrize("exchange", cases(errors(*CHATS, "openai-responses")))
def test_recorded_error_is_an_error_that_names_a_remedy(exchange: Exchange) -> None:
    with pytest.raises(ModelError, match=r"Try again|Wait|Check|Leave out") as error:
        answer_of(exchange)
    assert error.value.fault in ("rejected", "unknown_model", "overloaded", "unreadable")


@pytest.mark.parametrize("exchange", cases(answers(*CHATS, "openai-responses")))
def test_recorded_answer_is_read_to_the_calls_and_words_that_stand_in_it(exchange: Exchange) -> None:
    events: list[ModelEvent] = []
    message = answer_of(exchange, events)
    plainly = plainly_read_response if "responses" in exchange["case"] else plainly_read_chat
    text, calls = plainly(exchange)
    names = names_of(exchange)
    assert len(message.calls) == exchange["tool_calls_in_response"]
    assert [(call.name, call.arguments) for call in message.calls] == [
        (names.get(name, name), args) for name, args in calls
    ]
    assert message.text == text
    assert message.stop == ("calls" if calls else "end")
    assert message.usage is not None
    assert message.usage.input is not None
    assert message.usage.output is not None
    assert len({call.id for call in message.calls} - {call.wire_id for call in message.calls}) == len(calls)
    if "events" in exchange["response"]:
        assert "".join(event.text for event in events if type(event) is TextDelta) == text
        told: dict[int, list[str]] = {}
        for event in events:
            if type(event) is CallDelta:
                name_and_arguments = told.setdefault(event.index, ["", ""])
                name_and_arguments[0] += event.name
                name_and_arguments[1] += event.arguments
        assert list(told.values()) == [[call.name, call.arguments] for call in message.calls]


@pytest.mark.parametrize("exchange", cases(answers("deepseek-chat", "groq-chat")))
def test_recorded_reasoning_is_thinking_and_never_words(exchange: Exchange) -> None:
    events: list[ModelEvent] = []
    message = answer_of(exchange, events)
    thoughts = [part.text for part in message.parts if type(part) is Thinking]
    raw = msgspec.json.encode(exchange["response"]).decode()
    assert bool(thoughts) == ("reasoning_content" in raw or '"reasoning":"' in raw)
    if "events" in exchange["response"]:
        assert "".join(event.text for event in events if type(event) is ThinkingDelta) == "".join(thoughts)


def conversation(codec: Codec, sent: list[dict[str, Any]]) -> list[Message]:
    """A recorded chat request in our words."""
    messages: list[Message] = []
    for item in sent:
        if item["role"] == "user":
            content = item["content"]
            texts = (
                [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
            )
            messages.append(UserMessage(tuple(Text(text) for text in texts)))
        elif item["role"] == "assistant":
            body: JsonObject = {"choices": [{"message": item, "finish_reason": "stop"}]}
            messages.append(codec.decode(body, {}, "m"))
        elif item["role"] == "tool":
            add_result(messages, item["tool_call_id"], item["content"])
    return messages


@pytest.mark.parametrize("with_before", [True, False], ids=["ids as they came", "ids of ours"])
@pytest.mark.parametrize("exchange", cases(requests(*CHATS)))
def test_recorded_chat_is_sent_again_in_a_form_that_the_sdk_takes(exchange: Exchange, with_before: bool) -> None:
    request = exchange["request"]["json"]
    codec = codec_of(exchange)
    assert isinstance(codec, ChatCodec)
    items = encoded_all(codec, conversation(codec, request["messages"]), with_before=with_before)
    body = codec.request(Prompt(request["model"], "Be brief.", items, tools_of(exchange), stream=with_before))
    read = openai_oracle.chat_request(body)
    sent: Any = msgspec.json.decode(body)
    assert read["tools" if tools_of(exchange) else "model"] == sent["tools" if tools_of(exchange) else "model"]
    assert len(read["messages"]) == len(sent["messages"])  # type: ignore[arg-type] # a list
    calls = [call for item in sent["messages"] for call in item.get("tool_calls", ())]
    recorded = [call for item in request["messages"] for call in item.get("tool_calls") or ()]
    assert [call["function"] for call in calls] == [call["function"] for call in recorded]
    answered = [item["tool_call_id"] for item in sent["messages"] if item["role"] == "tool"]
    assert answered == [call["id"] for call in calls]
    results = [item["content"] for item in sent["messages"] if item["role"] == "tool"]
    assert results == [item["content"] for item in request["messages"] if item["role"] == "tool"]
    if with_before:
        assert [call["id"] for call in calls] == [call["id"] for call in recorded]
    for mine, theirs in zip(
        (item for item in sent["messages"] if "tool_calls" in item),
        (item for item in request["messages"] if "tool_calls" in item),
        strict=True,
    ):
        assert mine.get("reasoning_content") == theirs.get("reasoning_content")


@pytest.mark.parametrize("with_before", [True, False], ids=["ids as they came", "ids of ours"])
@pytest.mark.parametrize("exchange", cases(answers("openai-responses")))
def test_recorded_response_goes_back_verbatim_with_its_results(exchange: Exchange, with_before: bool) -> None:
    codec = codec_of(exchange)
    assert isinstance(codec, ResponsesCodec)
    answer = answer_of(exchange)
    messages: list[Message] = [UserMessage((Text("hi"),)), answer]
    if answer.calls:
        messages.append(ResultsMessage(tuple(CallResult(call.id, call.name, "{}") for call in answer.calls)))
    items = encoded_all(codec, messages, with_before=with_before)
    request = exchange["request"]["json"] or {"model": "m"}
    tools = tools_of(exchange) if exchange["request"]["json"] else []
    body = codec.request(Prompt(request["model"], "", items, tools, stream=True))
    sent: Any = msgspec.json.decode(body)
    assert openai_oracle.responses_request(body)["model"] == request["model"]
    output = [item for item in sent["input"][1:] if item["type"] != "function_call_output"]
    ids = [item["call_id"] for item in output if item["type"] == "function_call"]
    assert ids == [item["call_id"] for item in sent["input"] if item["type"] == "function_call_output"]
    assert answer.native is not None
    for call in filter(lambda item: item["type"] == "function_call", output if not with_before else []):
        call["call_id"] = next(
            part.wire_id for part in answer.calls if part.wire_id not in ids and part.arguments == call["arguments"]
        )
    assert output == answer.native.content


def test_the_recordings_hold_what_these_tests_are_for() -> None:
    found = answers(*CHATS, "openai-responses")
    parts = [part for exchange in found for part in answer_of(exchange).parts]
    assert sum(type(part) is CallPart for part in parts) > 60
    assert sum("events" in exchange["response"] for exchange in found) > 10


@pytest.mark.outside
def test_the_oracle_refuses_what_the_types_do_not_allow() -> None:
    with pytest.raises(ValueError, match="tool_call_id"):
        openai_oracle.chat_request(b'{"model":"m","stream":false,"messages":[{"role":"tool","content":"x"}]}')
    with pytest.raises(ValueError, match="arguments"):
        openai_oracle.responses_request(
            b'{"model":"m","stream":false,"input":[{"type":"function_call","name":"x","call_id":"y"}]}'
        )
    odd = b'{"model":"m","stream":false,"input":[{"type":"reasoning","id":"x","summary":[],"odd":1}]}'
    assert openai_oracle.responses_request(odd) != msgspec.json.decode(odd)
