"""Bodies of the graph API: what is refused, at which place, and what is taken as it comes (graph.md 2 to 8)."""

from typing import Any

import msgspec
import pytest

from handspan.wire import strict_json
from handspan.wire.graph import reading as graph
from handspan.wire.graph.answers import GraphMessage, InvokeAnswer, Meta, encode_failure, encode_success
from handspan.wire.graph.blocks import (
    DataBlock,
    DocumentBlock,
    ImageBlock,
    MediaLocation,
    TextBlock,
    ToolResultBlock,
)
from handspan.wire.graph.faults import MAX_DETAILS, BodyError, Detail, error_code
from handspan.wire.graph.reading import read_run_request, read_ws
from handspan.wire.graph.requests import MAX_ENTRIES, AddedMessage, Fresh, Resume, RunConfig, Stop
from handspan.wire.json_size import MAX_VALUES
from handspan.wire.ws_frames import MediaPart

HELLO = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
RESULT = {"role": "tool", "content": [{"type": "tool_result", "call_id": "c1", "output": {"a": 1}}]}


def said(*blocks: Any, **more: Any) -> bytes:
    """A person's message with these blocks."""
    return body({"role": "user", "content": list(blocks)}, **more)


def body(*messages: Any, **more: Any) -> bytes:
    return msgspec.json.encode({"messages": list(messages), **more})


def places(data: bytes, read: Any = read_run_request) -> dict[str, str]:
    """The place of each fault, and its kind."""
    with pytest.raises(BodyError) as refused:
        read(data)
    return {".".join(detail.loc): detail.type for detail in refused.value.details}


def words(data: bytes, read: Any = read_run_request) -> str:
    with pytest.raises(BodyError) as refused:
        read(data)
    return str(refused.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "Not JSON"),
        (b'{"messages": [}', "Not JSON"),
        (b'{"messages": [], "messages": []}', "stands twice"),
        (b'{"messages": ' + b"[" * 70 + b"]" * 70 + b"}", "more than 64 levels"),
        (b'{"messages": "\xff"}', "Not UTF-8"),
    ],
)
def test_a_body_that_is_no_json_is_refused_as_a_whole(data: bytes, said: str) -> None:
    assert places(data) == {"body": "json_invalid"}
    assert said in words(data)


@pytest.mark.parametrize("data", [b"[]", b'"hello"', b"3", b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(data: bytes) -> None:
    assert places(data) == {"body": "type_error"}


@pytest.mark.parametrize(
    ("data", "place", "kind"),
    [
        (b"{}", "body.messages", "missing"),
        (b'{"messages": null}', "body.messages", "missing"),
        (b'{"messages": "hello"}', "body.messages", "type_error"),
        (b'{"messages": []}', "body.messages", "value_error"),
        (body("hello"), "body.messages.0", "type_error"),
        (body({"content": []}), "body.messages.0.role", "missing"),
        (body({**HELLO, "role": "king"}), "body.messages.0.role", "value_error"),
        (body({**HELLO, "role": 3}), "body.messages.0.role", "value_error"),
        (body({**HELLO, "role": "system"}), "body.messages.0.role", "value_error"),
        (body(HELLO, {**HELLO, "role": "assistant"}), "body.messages.1.role", "value_error"),
        (
            body({**HELLO, "role": "assistant"}, {"role": "user", "content": [{"type": "text", "text": " "}]}),
            "body.messages.1.content",
            "value_error",
        ),
        (body({"role": "user"}), "body.messages.0.content", "missing"),
        (body({"role": "user", "content": "hello"}), "body.messages.0.content", "type_error"),
        (said(), "body.messages.0.content", "value_error"),
        (said("hello"), "body.messages.0.content.0", "type_error"),
        (said({"text": "hello"}), "body.messages.0.content.0.type", "missing"),
        (said({"type": "smell"}), "body.messages.0.content.0.type", "value_error"),
        (said({"type": 3}), "body.messages.0.content.0.type", "value_error"),
        (said({"type": "text"}), "body.messages.0.content.0.text", "missing"),
        (said({"type": "text", "text": 3}), "body.messages.0.content.0.text", "type_error"),
        (said({"type": "text", "text": " \n"}), "body.messages.0.content", "value_error"),
        (said({"type": "image"}), "body.messages.0.content.0.media", "missing"),
        (said({"type": "image", "media": {"kind": "smell"}}), "body.messages.0.content.0.media.kind", "value_error"),
        (said({"type": "image", "media": {"kind": "url"}}), "body.messages.0.content.0.media.url", "missing"),
        (said({"type": "video", "media": {"kind": "data"}}), "body.messages.0.content.0.media.data_base64", "missing"),
        (said({"type": "audio", "media": {"kind": "file_id"}}), "body.messages.0.content.0.media.file_id", "missing"),
        (said({"type": "document"}), "body.messages.0.content.0.media", "missing"),
        (
            said({"type": "document", "media": {"kind": "url"}}),
            "body.messages.0.content.0.media.url",
            "missing",
        ),
        (said({"type": "data", "mime_type": "a/b"}), "body.messages.0.content.0.data_base64", "missing"),
        (body({"role": "tool", "content": []}), "body.messages.0.content", "value_error"),
        (body({**HELLO, "role": "tool"}), "body.messages.0.content.0", "value_error"),
        (body({**RESULT, "role": "user"}), "body.messages.0.content.0", "value_error"),
        (body(HELLO, RESULT), "body.messages", "value_error"),
        (body({"role": "tool", "content": [{"type": "tool_result"}]}), "body.messages.0.content.0.call_id", "missing"),
        (body(HELLO, recursion_limit=0), "body.recursion_limit", "value_error"),
        (body(HELLO, recursion_limit=101), "body.recursion_limit", "value_error"),
        (body(HELLO, recursion_limit="9"), "body.recursion_limit", "type_error"),
        (body(HELLO, recursion_limit=True), "body.recursion_limit", "type_error"),
        (body(HELLO, response_granularity="high"), "body.response_granularity", "value_error"),
        (body(HELLO, response_granularity=["low"]), "body.response_granularity", "value_error"),
        (body(HELLO, config="c"), "body.config", "type_error"),
        (body(HELLO, config={"thread_id": True}), "body.config.thread_id", "type_error"),
        (body(HELLO, config={"agent": {}}), "body.config.agent", "type_error"),
        (body(HELLO, tools={}), "body.tools", "type_error"),
    ],
)
def test_what_can_not_be_taken_is_refused_with_its_place(data: bytes, place: str, kind: str) -> None:
    assert places(data) == {place: kind}


@pytest.mark.parametrize("kind", ["tool_call", "remote_tool_call"])
def test_a_call_from_outside_is_refused(kind: str) -> None:
    call = {"type": kind, "id": "c1", "name": "camera", "args": {}}
    assert places(said({"type": "text", "text": "hello"}, call)) == {"body.messages.0.content.1": "value_error"}
    assert "only the model calls tools" in words(said(call))


@pytest.mark.parametrize(
    "block", [{"type": "reasoning", "summary": "hm"}, {"type": "error", "message": "no"}, {"type": "annotation"}]
)
def test_a_block_that_no_person_says_is_refused(block: Any) -> None:
    assert "not part of what a person says" in words(said(block))


def test_plain_text_as_content_is_refused_with_what_to_send() -> None:
    assert '[{"type": "text", "text": "hello"}]' in words(body({"role": "user", "content": "hello"}))


def test_all_faults_of_a_body_are_told_at_once() -> None:
    data = body(
        {"role": "king", "content": [{"type": "text", "text": 3}, {"type": "text"}]},
        7,
        config=3,
        recursion_limit=0,
        response_granularity="x",
        tools=[{"name": "x", "parameters": []}, 3],
    )
    assert places(data) == {
        "body.messages.0.role": "value_error",
        "body.messages.0.content.0.text": "type_error",
        "body.messages.0.content.1.text": "missing",
        "body.messages.1": "type_error",
        "body.config": "type_error",
        "body.recursion_limit": "value_error",
        "body.response_granularity": "value_error",
        "body.tools.0.node_name": "missing",
        "body.tools.0.description": "missing",
        "body.tools.0.parameters": "type_error",
        "body.tools.1": "type_error",
    }
    assert words(data).endswith("(and 10 more, see details)")


@pytest.mark.parametrize(
    "data",
    [
        body(*range(1000)),
        body(*([{"role": "user", "content": []}] * 1000)),
        body(HELLO, tools=list(range(1000))),
        said(*range(1000)),
        said(*([{"type": "annotation"}] * 1000)),
        said(*([{"type": "document"}] * 1000)),
    ],
)
def test_no_more_details_than_anybody_reads(data: bytes) -> None:
    assert len(places(data)) == MAX_DETAILS


def test_faults_of_messages_and_of_the_rest_are_told_together() -> None:
    data = said({"type": "image", "media": {"kind": "url"}}, config={"thread_id": []}, tools=[{}])
    assert {place.split(".")[1] for place in places(data)} == {"messages", "config", "tools"}


def test_a_long_value_is_told_in_short() -> None:
    assert len(words(body(HELLO, response_granularity="x" * 10_000))) < 200


def test_a_message_is_taken_whatever_else_it_says_of_itself() -> None:
    beside = {"tools_calls": None, "metadata": None, "timestamp": 1794767188370, "delta": False, "x": 1}
    for message_id in ("0", 7, None):
        asked = read_run_request(body({**HELLO, **beside, "message_id": message_id}, x=1, initial_state={"a": 1}))
        assert asked.messages[0].content == [TextBlock("hello")]
        assert (asked.recursion_limit, asked.response_granularity, asked.tools) == (25, "low", None)


def test_null_is_as_good_as_a_missing_field() -> None:
    block = {"type": "image", "media": {"kind": "url", "url": "u", "file_id": None}, "alt_text": None, "bbox": None}
    text = {"type": "text", "text": "hello", "annotations": None}
    asked = read_run_request(
        said(block, text, config=None, recursion_limit=None, response_granularity=None, tools=None, initial_state=None)
    )
    assert asked.user_content == [ImageBlock(MediaLocation("url", "u")), TextBlock("hello")]
    assert (asked.config, asked.recursion_limit, asked.response_granularity) == (RunConfig(), 25, "low")
    asked = read_run_request(said(block, config=None, recursion_limit=7, response_granularity="full", tools=[]))
    assert (asked.recursion_limit, asked.response_granularity, asked.tools) == (7, "full", [])
    result = {"type": "tool_result", "call_id": "c1", "output": None, "is_error": None, "status": None}
    assert read_run_request(body({"role": "tool", "content": [result]})).results == [ToolResultBlock("c1")]


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"thread_id": "t"}, RunConfig("t")),
        ({"thread_id": 12, "user": {"a": 1}, "authz": []}, RunConfig("12")),
        ({"thread_id": 1.5}, RunConfig("1.5")),
        ({"thread_id": None, "agent": None}, RunConfig()),
        ({"agent": "writer"}, RunConfig("", "writer")),
        ({}, RunConfig()),
    ],
)
def test_a_config_is_read_by_the_keys_that_are_known(config: Any, read: RunConfig) -> None:
    assert read_run_request(body(HELLO, config=config)).config == read
    assert read_run_request(body(HELLO, config=config, recursion_limit=None)).config == read


def test_every_block_of_a_person_is_taken() -> None:
    media = {"kind": "data", "data_base64": "aGk=", "mime_type": "image/png", "sha256": "x"}
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "image", "media": media},
        {"type": "audio", "media": media, "transcript": "hi"},
        {"type": "video", "media": media},
        {"type": "document", "text": "t"},
        {"type": "document", "media": media},
        {"type": "data", "mime_type": "a/b", "data_base64": "aGk="},
        {"type": "data", "mime_type": "a/b", "media": media},
    ]
    asked = read_run_request(said(*blocks, recursion_limit=1))
    assert len(asked.user_content) == len(blocks) and asked.results == []
    assert asked.user_content[4] == DocumentBlock(text="t")
    assert asked.user_content[6] == DataBlock("a/b", "aGk=")
    assert asked.recursion_limit == 1


def test_several_messages_of_a_person_are_read_as_one() -> None:
    assert read_run_request(body(HELLO, HELLO, recursion_limit=100)).user_content == [
        TextBlock("hello"),
        TextBlock("hello"),
    ]


@pytest.mark.parametrize("output", [None, False, 0, "", "text", [], {"a": {"b": [1, 2.5]}}])
def test_a_result_may_be_any_value(output: Any) -> None:
    block = {"type": "tool_result", "call_id": "c1", "output": output}
    (result,) = read_run_request(body({"role": "tool", "content": [block]})).results
    assert result == ToolResultBlock("c1", output) and not result.is_failure


def test_results_come_in_order_from_one_message_or_several() -> None:
    blocks = [{"type": "tool_result", "call_id": f"c{number}"} for number in range(4)]
    apart = body(*({"role": "tool", "content": [block]} for block in blocks))
    together = body({"role": "tool", "content": blocks})
    for data in (apart, together):
        assert [result.call_id for result in read_run_request(data).results] == ["c0", "c1", "c2", "c3"]
        assert read_run_request(data).user_content == []


def test_each_result_has_its_place_for_a_refusal() -> None:
    two = {"role": "tool", "content": [*RESULT["content"], *RESULT["content"]]}
    assert read_run_request(body(RESULT, two)).result_places == [
        ["body", "messages", "0", "content", "0"],
        ["body", "messages", "1", "content", "0"],
        ["body", "messages", "1", "content", "1"],
    ]
    resume = read_ws(msgspec.json.encode({"invoke_type": "resume", "tool_result": [RESULT]}))
    assert isinstance(resume, Resume) and resume.request.result_places == [["body", "tool_result", "0", "content", "0"]]


def test_a_result_that_failed_says_so_in_one_of_two_ways() -> None:
    assert ToolResultBlock("c1", is_error=True).is_failure
    assert ToolResultBlock("c1", status="failed").is_failure
    assert not ToolResultBlock("c1", status="completed").is_failure


def test_a_result_may_bring_parts() -> None:
    part = {"kind": "image", "media_type": "image/png", "data": "aGk="}
    block = {"type": "tool_result", "call_id": "c1", "parts": [part]}
    assert read_run_request(body({"role": "tool", "content": [block]})).results[0].parts == [
        MediaPart("image", "image/png", "aGk=")
    ]
    wrong = {**block, "parts": [{"kind": "smell", "media_type": "a/b"}]}
    assert places(body({"role": "tool", "content": [wrong]})) == {
        "body.messages.0.content.0.parts.0.kind": "value_error"
    }


@pytest.mark.parametrize(
    ("data", "place", "kind"),
    [
        (b"{}", "body.thread_id", "missing"),
        (b'{"thread_id": null}', "body.thread_id", "missing"),
        (b'{"thread_id": ""}', "body.thread_id", "missing"),
        (b'{"thread_id": []}', "body.thread_id", "type_error"),
    ],
)
def test_a_stop_without_a_thread_is_refused(data: bytes, place: str, kind: str) -> None:
    assert places(data, graph.read_stop) == {place: kind}


def test_a_stop_names_its_thread() -> None:
    assert graph.read_stop(b'{"thread_id": "t", "config": {}}') == "t"
    assert graph.read_stop(b'{"thread_id": 7}') == "7"


@pytest.mark.parametrize(
    ("data", "place", "kind"),
    [
        (b"{}", "body.invoke_type", "missing"),
        (b'{"invoke_type": "begin"}', "body.invoke_type", "value_error"),
        (b'{"invoke_type": "fresh"}', "body.messages", "missing"),
        (b'{"invoke_type": "resume"}', "body.tool_result", "missing"),
        (b'{"invoke_type": "resume", "messages": []}', "body.tool_result", "missing"),
        (b'{"invoke_type": "resume", "tool_result": [{"role": "tool"}]}', "body.tool_result.0.content", "missing"),
        (b"hello", "body", "json_invalid"),
    ],
)
def test_a_message_of_the_socket_that_can_not_be_read_is_refused(data: bytes, place: str, kind: str) -> None:
    assert places(data, read_ws) == {place: kind}
    assert places(data.decode(), read_ws) == {place: kind}  # type: ignore[arg-type]  # text frames come as str too


def test_messages_of_the_socket_are_told_apart() -> None:
    fresh = read_ws(msgspec.json.encode({"invoke_type": "fresh", "messages": [HELLO], "config": {"thread_id": "t"}}))
    assert isinstance(fresh, Fresh) and fresh.request.user_content and fresh.request.config.thread_id == "t"
    resume = read_ws(msgspec.json.encode({"invoke_type": "resume", "tool_result": [RESULT], "recursion_limit": 3}))
    assert isinstance(resume, Resume) and resume.request.results == [ToolResultBlock("c1", {"a": 1})]
    assert resume.request.recursion_limit == 3
    assert read_ws('{"invoke_type": "stop"}') == Stop()


@pytest.mark.parametrize(
    ("data", "place", "kind"),
    [
        (b"{}", "body.messages", "missing"),
        (b'{"messages": []}', "body.messages", "value_error"),
        (body({**HELLO, "role": "tool"}), "body.messages.0.role", "value_error"),
        (body({**HELLO, "role": "system"}), "body.messages.0.role", "value_error"),
        (body({**RESULT, "role": "assistant"}), "body.messages.0.content.0", "value_error"),
        (body({"role": "user", "content": []}), "body.messages.0.content", "value_error"),
    ],
)
def test_only_what_a_person_or_an_assistant_said_is_put_into_a_thread(data: bytes, place: str, kind: str) -> None:
    assert places(data, graph.read_added) == {place: kind}


def test_messages_are_put_into_a_thread_as_they_are() -> None:
    raw: dict[str, Any] = {"message_id": None, "timestamp": 1794767188370, "metadata": {}, "delta": False}
    found = graph.read_added(body({**HELLO, **raw}, {**HELLO, "role": "assistant"}, metadata={"a": 1}))
    assert found == [AddedMessage("user", [TextBlock("hello")]), AddedMessage("assistant", [TextBlock("hello")])]


def test_a_state_brings_messages_or_none() -> None:
    assert graph.read_state(msgspec.json.encode({"state": {"context": [HELLO]}})) == [
        AddedMessage("user", [TextBlock("hello")])
    ]
    without: list[dict[str, Any]] = [{}, {"context": None}, {"context": []}, {"mood": "good"}]
    for state in without:
        assert graph.read_state(msgspec.json.encode({"state": state, "config": {}})) == []
    assert places(b"{}", graph.read_state) == {"body.state": "type_error"}
    assert places(b'{"state": {"context": [3]}}', graph.read_state) == {"body.state.context.0": "type_error"}


def test_a_success_has_data_and_metadata() -> None:
    assert msgspec.json.decode(encode_success("pong", "r1", "2026-11-16T00:00:00Z")) == {
        "data": "pong",
        "metadata": {"request_id": "r1", "timestamp": "2026-11-16T00:00:00Z", "message": "OK"},
    }


def test_a_failure_has_its_error_and_metadata() -> None:
    detail = Detail(["body", "messages", "0"], "Send a message.", "type_error")
    assert msgspec.json.decode(encode_failure("VALIDATION_ERROR", "No.", [detail], "r1", "now")) == {
        "error": {
            "code": "VALIDATION_ERROR",
            "message": "No.",
            "details": [{"loc": ["body", "messages", "0"], "msg": "Send a message.", "type": "type_error"}],
        },
        "metadata": {"request_id": "r1", "timestamp": "now", "message": "No."},
    }


def test_a_status_has_its_code() -> None:
    assert [error_code(status) for status in (401, 404, 422, 500)] == [
        "AUTHENTICATION_ERROR",
        "RESOURCE_NOT_FOUND",
        "VALIDATION_ERROR",
        "GRAPH_ERROR",
    ]


def test_every_field_of_a_message_is_sent() -> None:
    message = GraphMessage(message_id="m1", role="assistant", content=[TextBlock("hi")], timestamp=1.5)
    meta = Meta(is_new_thread=True, thread_id="t", run_id="r", status="completed")
    sent = msgspec.json.decode(encode_success(InvokeAnswer(messages=[message], meta=meta), "r1", "now"))["data"]
    assert sent == {
        "messages": [
            {
                "message_id": "m1",
                "role": "assistant",
                "content": [{"type": "text", "text": "hi", "annotations": []}],
                "delta": False,
                "tools_calls": None,
                "reasoning": None,
                "timestamp": 1.5,
                "metadata": {},
                "usages": None,
                "raw": None,
                "parsed_content": None,
            }
        ],
        "state": None,
        "context": None,
        "summary": None,
        "meta": {
            "is_new_thread": True,
            "thread_id": "t",
            "thread_name": None,
            "run_id": "r",
            "status": "completed",
            "open_calls": [],
        },
    }


PART = {"kind": "file", "media_type": "a/b", "data": ""}
ANSWERED: dict[str, Any] = RESULT["content"][0]  # type: ignore[assignment]  # it has one block


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        ([{}] * (MAX_ENTRIES + 1), "messages"),
        ([{"role": "user", "content": [1] * (MAX_ENTRIES + 1)}], "blocks"),
        ([{"role": "user", "content": [{"type": "text"}] * 501}] * 10, "blocks"),
        ([{"role": "tool", "content": [ANSWERED] * (MAX_ENTRIES + 1)}], "blocks"),
        ([{"role": "tool", "content": [{**ANSWERED, "parts": [PART] * (MAX_ENTRIES + 1)}]}], "parts"),
        ([{"role": "tool", "content": [{**ANSWERED, "parts": [1] * 501}] * 10}], "parts"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_more_than_a_request_may_bring_is_refused_and_none_of_it_is_read(
    messages: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reads in ("check_request", "check_blocks", "read_messages", "Messages"):
        monkeypatch.delattr(graph, reads)
    for place, data, read in (
        ("body.messages", body(*messages), graph.read_run_request),
        ("body.messages", body(*messages), graph.read_added),
        ("body.state.context", msgspec.json.encode({"state": {"context": messages}}), graph.read_state),
        ("body.messages", body(*messages, invoke_type="fresh"), graph.read_ws),
        ("body.tool_result", msgspec.json.encode({"tool_result": messages, "invoke_type": "resume"}), graph.read_ws),
    ):
        assert places(data, read) == {place: "value_error"}
        assert f" {what}, and 5,000 is the most: send fewer in one request." in words(data, read)


def test_thousands_of_blocks_are_taken() -> None:
    blocks = [{"type": "text", "text": f"word {number}, and more"} for number in range(MAX_ENTRIES)]
    assert len(read_run_request(said(*blocks)).user_content) == MAX_ENTRIES
    assert len(read_run_request(body(*[HELLO] * 4000)).user_content) == 4000


@pytest.mark.parametrize(
    "read",
    [
        graph.read_run_request,
        graph.read_setup,
        graph.read_stop,
        graph.read_added,
        graph.read_state,
        graph.read_ws,
        lambda data: graph.read_body(data, RunConfig),
    ],
)
def test_a_body_of_very_many_values_is_refused_by_all_who_read_one(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(strict_json, "read_if_sure")
    monkeypatch.delattr(strict_json, "parse_slowly")
    data = said({"type": "text", "text": "hello"}, initial_state=[[]] * MAX_VALUES)
    assert places(data, read) == {"body": "value_error"}
    assert "more than 50,000 values and keys" in words(data, read)


def test_a_picture_is_one_value_however_large_it_is() -> None:
    data = "iVBORw0KGgo9" * 700_000
    picture = {"type": "image", "media": {"kind": "data", "data_base64": data, "mime_type": "image/png"}}
    assert read_run_request(said(picture)).user_content == [
        ImageBlock(MediaLocation("data", data_base64=data, mime_type="image/png"))
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [("x" * 61, "'" + "x" * 59 + "…"), ([[]] * 1000, "[…]"), ({"a": [1]}, "{…}"), ("\x00" * 60, "'" + "\\x00" * 14)],
)
def test_of_a_large_value_that_is_wrong_only_a_little_is_told(given: Any, told: str) -> None:
    assert f"There is no role {told}" in words(body({**HELLO, "role": given}))
    assert f"There is no {told}" in words(body(HELLO, response_granularity=given))
    media = {"kind": "data" + "`" * 100_000}
    assert len(words(said({"type": "image", "media": media}))) < 400
