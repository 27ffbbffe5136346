"""Whatever is sent: it is read, or every fault is told at a place that is there."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from handspan.wire.graph import reading as graph
from handspan.wire.graph.faults import BodyError

WORDS = st.sampled_from(
    [
        "role",
        "content",
        "messages",
        "tools",
        "config",
        "type",
        "text",
        "tool_result",
        "call_id",
        "media",
        "kind",
        "name",
    ]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 101),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["user", "tool", "system", "text", "image", "tool_result", "url", "low", "fresh", "function", "", "x"]
    ),
)
JSON = st.recursive(
    VALUES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
READERS = (graph.read_run_request, graph.read_setup, graph.read_stop, graph.read_added, graph.read_state, graph.read_ws)

MEDIA = {"kind": "url", "url": "u", "mime_type": "image/png"}
PERSON = {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "media": MEDIA}]}
TOOL = {"node_name": "n", "name": "a", "description": "", "parameters": {}, "permissions": ["camera"], "timeout": 3}
FUNCTION = {"type": "function", "function": {"name": "a", "description": "", "parameters": {}}}
PART = {"kind": "image", "media_type": "image/png", "data": "aGk="}
RESULT = {"role": "tool", "content": [{"type": "tool_result", "call_id": "c", "output": {"a": [1]}, "parts": [PART]}]}
RIGHT: list[Any] = [
    {"messages": [PERSON, PERSON], "config": {"thread_id": "t"}, "recursion_limit": 3, "tools": [TOOL, FUNCTION]},
    {"messages": [RESULT], "response_granularity": "full", "invoke_type": "fresh"},
    {"tool_result": [RESULT], "invoke_type": "resume", "thread_id": "t"},
    {"tools": [TOOL, FUNCTION], "state": {"context": [PERSON]}, "messages": [PERSON]},
]


@st.composite
def nearly_right(draw: st.DrawFn) -> Any:
    """A body that would be right, but for one or two values."""
    body = msgspec.json.decode(msgspec.json.encode(draw(st.sampled_from(RIGHT))))
    for _ in range(draw(st.integers(0, 2))):
        here = body
        while isinstance(here, dict | list) and here:
            key = draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if not isinstance(here[key], dict | list) or draw(st.booleans()):
                here[key] = draw(JSON)
                break
            here = here[key]
    return body


@given(st.one_of(JSON, nearly_right()), st.sampled_from(READERS))
def test_a_body_is_read_or_its_faults_are_told_where_they_are(body: Any, read: Any) -> None:
    try:
        read(msgspec.json.encode(body))
    except BodyError as error:
        assert error.details
        for detail in error.details:
            assert detail.loc[0] == "body" and detail.msg.endswith(".") and len(detail.msg) < 400
            assert _is_there(detail.loc[1:-1], body), detail


@given(nearly_right())
def test_null_in_a_field_that_nobody_needs_changes_nothing(body: Any) -> None:
    try:
        read = graph.read_run_request(msgspec.json.encode(body))
    except BodyError:
        return
    more = {"config": None, "recursion_limit": None, "response_granularity": None, "tools": None, **body}
    assert graph.read_run_request(msgspec.json.encode(more)) == read


@given(st.binary(max_size=60), st.sampled_from(READERS))
def test_bytes_are_refused_or_read(data: bytes, read: Any) -> None:
    try:
        read(data)
    except BodyError as error:
        assert error.details


def _is_there(place: list[str], value: Any) -> bool:
    for step in place:
        if isinstance(value, list):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return False
    return True
