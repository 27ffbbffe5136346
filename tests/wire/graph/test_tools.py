"""Tools that a client offers: two forms come, one leaves; what can't be taken is named (graph.md 3)."""

from typing import Any

import msgspec
import pytest

from handspan.wire.graph import reading
from handspan.wire.graph.faults import BodyError
from handspan.wire.graph.reading import read_run_request, read_setup
from handspan.wire.graph.requests import MAX_ENTRIES, OfferedTool

FEW = {"function": {"name": "echo"}}
HELLO = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
TOOL = {"node_name": "TOOL", "name": "echo", "description": "Echo", "parameters": {"type": "object"}}


def setup(*tools: Any) -> bytes:
    return msgspec.json.encode({"tools": list(tools)})


def places(data: bytes) -> dict[str, str]:
    with pytest.raises(BodyError) as refused:
        read_setup(data)
    return {".".join(detail.loc): detail.type for detail in refused.value.details}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in TOOL.items() if name != key}


@pytest.mark.parametrize("key", TOOL)
def test_a_tool_needs_each_of_its_fields(key: str) -> None:
    assert places(setup(TOOL, without(key))) == {f"body.tools.1.{key}": "missing"}
    assert places(setup({**TOOL, key: None})) == {f"body.tools.0.{key}": "missing"}


@pytest.mark.parametrize(
    ("tool", "place", "kind"),
    [
        (3, "body.tools.0", "type_error"),
        (None, "body.tools.0", "type_error"),
        ({**TOOL, "parameters": []}, "body.tools.0.parameters", "type_error"),
        ({**TOOL, "parameters": "{}"}, "body.tools.0.parameters", "type_error"),
        ({**TOOL, "name": ""}, "body.tools.0.name", "value_error"),
        ({**TOOL, "name": " "}, "body.tools.0.name", "value_error"),
        ({**TOOL, "name": 3}, "body.tools.0.name", "type_error"),
        ({**TOOL, "node_name": 3}, "body.tools.0.node_name", "type_error"),
        ({**TOOL, "timeout": 0}, "body.tools.0.timeout", "value_error"),
        ({**TOOL, "timeout": "9"}, "body.tools.0.timeout", "type_error"),
        ({**TOOL, "permissions": "camera"}, "body.tools.0.permissions", "type_error"),
        ({**TOOL, "permissions": ["camera", 3]}, "body.tools.0.permissions.1", "type_error"),
        ({**TOOL, "annotations": 3}, "body.tools.0.annotations", "type_error"),
        ({"type": "function", "function": 3}, "body.tools.0.function", "type_error"),
        ({"type": "function", "function": {}}, "body.tools.0.function.name", "missing"),
        ({"type": "function", "function": {"name": ""}}, "body.tools.0.function.name", "value_error"),
        ({"type": "custom", "function": {"name": "x"}}, "body.tools.0.type", "value_error"),
        (
            {"type": "function", "function": {"name": "x", "parameters": []}},
            "body.tools.0.function.parameters",
            "type_error",
        ),
    ],
)
def test_a_tool_that_can_not_be_taken_is_named(tool: Any, place: str, kind: str) -> None:
    assert places(setup(tool)) == {place: kind}


@pytest.mark.parametrize(("data", "kind"), [(b"{}", "missing"), (b'{"tools": {}}', "type_error")])
def test_a_setup_needs_a_list(data: bytes, kind: str) -> None:
    assert places(data) == {"body.tools": kind}


def test_every_tool_that_can_not_be_taken_is_named_with_all_that_is_wrong() -> None:
    found = places(setup({"name": 3}, TOOL, {"function": {"name": ""}}))
    assert found == {
        "body.tools.0.node_name": "missing",
        "body.tools.0.name": "type_error",
        "body.tools.0.description": "missing",
        "body.tools.0.parameters": "missing",
        "body.tools.2.function.name": "value_error",
    }


def test_an_empty_list_is_a_setup() -> None:
    assert read_setup(b'{"tools": []}') == []


def test_a_tool_needs_no_words_and_no_schema() -> None:
    (tool,) = read_setup(setup({**TOOL, "description": "", "parameters": {}}))
    assert tool == OfferedTool("TOOL", "echo", "", {})


def test_tools_keep_their_order_and_their_doubles() -> None:
    other = {**TOOL, "description": "again"}
    assert [tool.description for tool in read_setup(setup(TOOL, other, TOOL))] == ["Echo", "again", "Echo"]


def test_what_is_beside_the_four_fields_is_read_or_ignored() -> None:
    more = {"permissions": ["camera"], "timeout": 5, "annotations": {"read_only": True}, "version": "2", "x": 1}
    (tool,) = read_setup(setup({**TOOL, **more}))
    assert tool == OfferedTool("TOOL", "echo", "Echo", {"type": "object"}, ("camera",), 5.0, "2", {"read_only": True})


def test_both_forms_end_as_one() -> None:
    function = {"name": "echo", "description": "Echo", "parameters": {"type": "object"}}
    more = {"permissions": ["camera"], "timeout": 5, "version": "2", "annotations": {}}
    ours, theirs = read_setup(
        setup({**TOOL, **more}, {"type": "function", "function": function, "node_name": "TOOL", **more})
    )
    assert ours == theirs


@pytest.mark.parametrize("function", [{"name": "echo"}, {"name": "echo", "description": None, "parameters": None}])
def test_a_function_without_a_node_belongs_to_the_node_tools(function: Any) -> None:
    assert read_setup(setup({"type": "function", "function": function})) == [OfferedTool("tools", "echo", "", {})]
    assert read_setup(setup({"function": function, "node_name": ""})) == [OfferedTool("tools", "echo", "", {})]


def test_a_request_may_carry_tools_of_its_own() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    asked = read_run_request(msgspec.json.encode({"messages": [message], "tools": [TOOL]}))
    assert asked.tools == [OfferedTool("TOOL", "echo", "Echo", {"type": "object"})]
    assert read_run_request(msgspec.json.encode({"messages": [message], "tools": []})).tools == []


def test_more_tools_than_a_request_may_bring_are_refused_and_none_of_them_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(read_setup(setup(*[FEW] * MAX_ENTRIES))) == MAX_ENTRIES
    monkeypatch.delattr(reading, "_read_tool")
    too_many = [FEW] * (MAX_ENTRIES + 1)
    assert places(setup(*too_many)) == {"body.tools": "value_error"}
    with pytest.raises(BodyError, match=r"It has 5,001 tools, and 5,000 is the most: send fewer in one request"):
        read_run_request(msgspec.json.encode({"messages": [HELLO], "tools": too_many}))
