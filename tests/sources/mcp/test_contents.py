"""The text and the structured value of one answer: both reach the model, unless they say the same (SPEC X4, C4)."""

import json

import mcp_types as types
import pytest

from handspan.core.values import Json
from handspan.sources.mcp.contents import read_result


def value_of(*texts: str, structured: Json) -> Json:
    blocks: list[types.ContentBlock] = [types.TextContent(type="text", text=text) for text in texts]
    return read_result(types.CallToolResult(content=blocks, structured_content=structured)).value


def test_a_text_that_says_something_else_stands_beside_the_value() -> None:
    assert value_of("Rain until noon.", structured={"degrees": 7}) == {
        "result": {"degrees": 7},
        "text": "Rain until noon.",
    }
    assert value_of('{"degrees": 7}', "And rain.", structured={"degrees": 7}) == {
        "result": {"degrees": 7},
        "text": "And rain.",
    }
    assert value_of('{"degrees": 8}', structured={"degrees": 7}) == {"result": {"degrees": 7}, "text": '{"degrees": 8}'}


@pytest.mark.parametrize(
    ("structured", "texts"),
    [
        ({"degrees": 7, "sky": "grey"}, [json.dumps({"sky": "grey", "degrees": 7}, indent=2)]),
        ({"result": 5}, ["5"]),
        ({"result": "five"}, ["five"]),
        ({"result": ["a", {"b": 1}]}, ["a", '{"b": 1}']),
        ({"degrees": 7}, []),
        ({"degrees": 7}, [" "]),
        ([1, 2], ["[1, 2]"]),
    ],
)
def test_a_text_that_is_the_same_json_is_left_out(structured: Json, texts: list[str]) -> None:
    assert value_of(*texts, structured=structured) == structured


def test_a_text_that_nests_too_deeply_is_kept_as_text() -> None:
    deep = "[" * 5000 + "]" * 5000
    assert value_of(deep, structured={"a": 1}) == {"result": {"a": 1}, "text": deep}
