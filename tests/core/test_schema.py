"""SPEC T1, E1, M3: which schemas are taken, and what a model is told about wrong arguments.

Nothing here looks at a clock: what must not take for ever would run into the time limit of the test.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import DefinitionError, ToolError
from handspan.core.schema import MAX_BYTES, MAX_DEPTH, Validator
from handspan.core.values import Json, JsonObject
from tests.recorded import mcp_tools


def an_object(**properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties}


def nested(levels: int, leaf: Json) -> Json:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def doubling(keyword: str, different: JsonObject, levels: int = 40) -> JsonObject:
    """Each definition names the next one twice, the second time with this difference."""
    definitions: JsonObject = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}", **different}]}
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"properties": {"x": {"type": "integer"}}}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


def refused(schema: Any) -> str:
    with pytest.raises(DefinitionError) as reason:
        Validator(schema)
    assert len(str(reason.value)) < 500
    return str(reason.value)


def told(schema: JsonObject, arguments: Json) -> list[str]:
    """The problems, after a look that the fast answer and the long one agree."""
    validator = Validator(schema)
    problems = validator.problems(arguments)
    assert isinstance(arguments, dict)
    assert validator.is_valid(arguments) == (not problems)
    return problems


# Schemas that are refused.


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A real server that must never get a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
@pytest.mark.parametrize("place", ["root", "property", "unused"])
def test_nothing_is_fetched_from_the_network(listener: socket.socket, keyword: str, place: str) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    inner: JsonObject = {keyword: url}
    schemas: dict[str, JsonObject] = {
        "root": inner,
        "property": an_object(a=inner),
        "unused": {"$defs": {"unused": inner}},
    }
    schema = schemas[place]
    try:
        Validator(schema).check({})
    except DefinitionError as error:
        assert url in str(error)
    else:
        assert keyword != "$ref" and (keyword, place) != ("$schema", "root")
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_no_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    url = (tmp_path / "schema.json").as_uri()
    reason = refused({"$ref": url})
    assert "a $ref may only point into the schema itself" in reason and url in reason


@pytest.mark.parametrize(
    "ref",
    [
        "other.json",
        "other.json#/a",
        "#/$defs/none",
        "#nowhere",
        "#/properties/a/0",
        "urn:x",
        "//host/x",
        "#/$defs/list/7",
    ],
)
def test_a_reference_that_leads_out_or_nowhere_is_refused_by_name(ref: str) -> None:
    schema: JsonObject = {"$defs": {"list": [{}]}, "properties": {"a": {"$ref": ref}}}
    assert repr(ref) in refused(schema)


def test_a_reference_out_of_a_part_that_nothing_names_is_refused_too() -> None:
    reason = refused({"$defs": {"unused": {"$ref": "http://example.com/x"}}})
    assert "a $ref may only point into the schema itself, not to 'http://example.com/x'" in reason


@pytest.mark.parametrize("schema", [None, True, [], "x", 1])
def test_what_is_not_an_object_is_no_schema_for_arguments(schema: object) -> None:
    assert "must be a JSON object" in refused(schema)


@pytest.mark.parametrize("kind", ["string", ["string", "null"], "array", "blub", 5])
def test_a_schema_for_something_else_than_an_object_is_refused(kind: Json) -> None:
    assert "arguments are always an object" in refused({"type": kind})


def test_a_schema_that_is_too_large_is_refused_with_both_sizes() -> None:
    reason = refused({"description": "x" * MAX_BYTES})
    assert str(MAX_BYTES) in reason and str(MAX_BYTES + len('{"description":""}')) in reason


def test_a_schema_that_is_too_deep_is_refused_and_one_that_just_is_not_is_taken() -> None:
    def deep(levels: int) -> JsonObject:
        schema: JsonObject = {}
        for _ in range(levels - 1):
            schema = {"not": schema}
        return schema

    Validator(deep(MAX_DEPTH))
    assert f"deeper than {MAX_DEPTH} levels" in refused(deep(MAX_DEPTH + 1))
    assert f"deeper than {MAX_DEPTH} levels" in refused(deep(100_000))


def test_a_schema_that_contains_itself_as_an_object_is_refused() -> None:
    schema: JsonObject = {}
    schema["not"] = schema
    assert "deeper" in refused(schema)


@pytest.mark.parametrize("schema", [{"a": object()}, {1: 2}, {"a": "\ud800"}, {"\ud800": 1}, {"a": {1, 2}}])
def test_what_is_not_json_is_refused(schema: object) -> None:
    assert refused(schema)


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<n", "\\", "((a{1000}){1000}){1000}"])
def test_a_pattern_that_does_not_compile_is_refused_with_its_place(pattern: str) -> None:
    reason = refused(an_object(name={"pattern": pattern}))
    assert "regex" in reason and "properties.name.pattern" in reason


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": 5}, "properties"),
        (an_object(a={"type": "int"}), "properties.a.type"),
        (an_object(a={"minimum": "3"}), "properties.a.minimum"),
        ({"required": "a"}, "required"),
        (an_object(a={"enum": 3}), "properties.a.enum"),
    ],
)
def test_a_schema_that_breaks_the_rules_of_schemas_is_refused_with_the_place(schema: JsonObject, where: str) -> None:
    assert f"(at '{where}')" in refused(schema)


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-03/schema#", "https://example.com/mine", 5])
def test_an_unknown_dialect_is_refused(dialect: Json) -> None:
    assert "schema" in refused({"$schema": dialect})


# Schemas that are taken.


def test_the_schemas_of_real_mcp_servers_are_all_taken_and_refuse_nonsense() -> None:
    for item in mcp_tools():
        schema = item["tool"]["inputSchema"]
        validator = Validator(schema)
        for name in schema.get("required", []):
            assert f"missing required parameter {name!r}" in validator.problems({})


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_every_dialect_since_draft_four_works(dialect: str) -> None:
    schema: JsonObject = {"$schema": dialect, **an_object(a={"type": "integer"}), "required": ["a"]}
    assert told(schema, {"a": 1}) == []
    assert told(schema, {}) == ["missing required parameter 'a'"]


def test_draft_seven_reads_its_own_words() -> None:
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"pair": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}},
        "properties": {"pair": {"$ref": "#/definitions/pair"}},
        "dependencies": {"pair": ["unit"]},
    }
    assert told(schema, {"pair": [1, "a"], "unit": "m"}) == []
    assert told(schema, {"pair": [1, "a"]}) == ["missing required parameter 'unit'"]
    assert told(schema, {"pair": [1, 2], "unit": "m"}) == ["parameter 'pair[1]' must be of type string, not integer 2"]
    assert "pair" in told(schema, {"pair": [1, "a", 3], "unit": "m"})[0]


def test_a_tree_of_any_depth_is_described_by_itself() -> None:
    schema: JsonObject = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "children": {"items": {"$ref": "#/$defs/node"}}},
                "required": ["value"],
                "additionalProperties": False,
            }
        },
        "properties": {"tree": {"$ref": "#/$defs/node"}},
    }
    assert told(schema, {"tree": {"value": 1, "children": [{"value": 2, "children": []}]}}) == []
    assert told(schema, {"tree": {"value": 1, "children": [{"value": 2}, {"vlaue": 3}]}}) == [
        "unknown parameter 'tree.children[1].vlaue'. Did you mean 'value'?",
        "missing required parameter 'tree.children[1].value'",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$dynamicAnchor": "node", "properties": {"a": {"$dynamicRef": "#node"}}},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"a": {"$recursiveRef": "#"}}},
    ],
)
def test_a_schema_that_goes_in_circles_ends(schema: JsonObject) -> None:
    assert told({**schema, "required": ["a"]}, {"a": {"a": {}}}) in ([], ["missing required parameter 'a.a.a'"])
    assert Validator({**schema, "required": ["z"]}).problems({})[0] == "missing required parameter 'z'"


def test_the_anchors_of_draft_seven_and_of_draft_four_are_followed() -> None:
    for draft, word in (("07", "$id"), ("06", "$id"), ("04", "id")):
        schema: JsonObject = {
            "$schema": f"http://json-schema.org/draft-{draft}/schema#",
            "properties": {"a": {"$ref": "#here"}},
            "definitions": {"x": {word: "#here", "type": "integer"}},
        }
        assert told(schema, {"a": 1}) == []
        assert told(schema, {"a": "x"}) == ["parameter 'a' must be of type integer, not string 'x'"]


def test_the_ways_through_an_anchor_of_draft_seven_are_counted() -> None:
    definitions: JsonObject = {
        f"d{n}": {"$id": f"#d{n}", "anyOf": [{"$ref": f"#d{n + 1}"}, {"$ref": f"#d{n + 1}"}]} for n in range(40)
    }
    definitions["d40"] = {"$id": "#d40", "type": "integer"}
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#d0"}},
        "definitions": definitions,
    }
    assert told(schema, {}) == []
    assert told(schema, {"a": "x"}) != []  # and not in two to the fortieth steps


def test_references_by_id_anchor_and_escaped_pointer_stay_in_the_schema() -> None:
    schema: JsonObject = {
        "$id": "https://example.com/root.json",
        "$defs": {
            "with/slash ~": {"type": "integer"},
            "anchored": {"$anchor": "here", "type": "integer"},
            "embedded": {"$id": "part.json", "$defs": {"deep": {"type": "integer"}}, "$ref": "#/$defs/deep"},
            "list": {"prefixItems": [{"type": "integer"}]},
        },
        "properties": {
            "a": {"$ref": "#/$defs/with~1slash%20~0"},
            "b": {"$ref": "#here"},
            "c": {"$ref": "root.json#/$defs/anchored"},
            "d": {"$ref": "part.json"},
            "e": {"$ref": "https://example.com/part.json#/$defs/deep"},
            "f": {"$ref": "#/$defs/list/prefixItems/0"},
        },
    }
    assert told(schema, dict.fromkeys("abcdef", 1)) == []
    assert len(told(schema, dict.fromkeys("abcdef", "x"))) == 6


def test_a_property_named_like_a_keyword_is_just_a_property() -> None:
    properties: JsonObject = {"$ref": {"type": "string"}, "allOf": {"type": "string"}, "$id": {"type": "string"}}
    schema: JsonObject = {"properties": properties}
    schema["default"] = {"$ref": "http://example.com/data", "allOf": [1, 1]}
    assert told(schema, {"$ref": "x", "allOf": "y", "$id": "z"}) == []
    assert len(told(schema, {"$ref": 1, "allOf": 2, "$id": 3})) == 3


@pytest.mark.parametrize("extra", [{}, {"title": "the same again"}])
def test_a_schema_whose_all_of_doubles_at_every_step_is_taken_and_enforced(extra: JsonObject) -> None:
    schema = doubling("allOf", extra)
    assert told(schema, {"x": 1}) == []
    assert told(schema, {"x": "s"}) == ["parameter 'x' must be of type integer, not string 's'"]


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_with_too_many_ways_for_its_arguments_refuses_them_instead_of_walking_for_ever(keyword: str) -> None:
    validator = Validator(doubling(keyword, {"minProperties": 0}))
    assert not validator.is_valid({"x": "s"})
    with pytest.raises(ToolError, match="too large to be checked") as invalid:
        validator.check({"x": "s"})
    assert invalid.value.code == "invalid_arguments"


def test_in_a_schema_with_too_many_ways_arguments_that_take_few_are_checked() -> None:
    schema = an_object(easy={"type": "integer"}, hard={"$ref": "#/$defs/d0"})
    schema["$defs"] = doubling("anyOf", {"minProperties": 0})["$defs"]
    assert told(schema, {"easy": 1}) == []
    assert told(schema, {"easy": "x"}) == ["parameter 'easy' must be of type integer, not string 'x'"]
    assert not Validator(schema).is_valid({"hard": {"x": "s"}})


def test_all_of_parts_that_a_reference_names_by_place_stay_where_they_are() -> None:
    schema = doubling("allOf", {})
    schema["properties"] = {"y": {"$ref": "#/$defs/d39/allOf/1"}}
    assert Validator(schema).problems({"y": {"x": "s"}})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_recursive_schema_that_doubles_with_the_depth_of_the_value_ends(keyword: str) -> None:
    schema = an_object(a={keyword: [{"$ref": "#"}, {"$ref": "#"}]}, b={"type": "integer"})
    validator = Validator(schema)
    assert validator.problems(nested(50, {"b": "s"}))
    assert "a.a.b" in validator.problems(nested(2, {"b": "s"}))[0]


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(?=a)(a+)+$", "^(a+)+\\1$", "(?!x)(a|aa)+$", "(.*)*=.*"])
def test_a_pattern_that_backtracks_ends(pattern: str) -> None:
    assert isinstance(Validator(an_object(a={"pattern": pattern})).problems({"a": "a" * 5000 + "!"}), list)


def test_a_pattern_goes_back_so_often_as_a_long_path_needs_and_not_much_more() -> None:
    """The steps add up over all texts of a list, and the event loop waits for them."""
    validator = Validator(an_object(a={"type": "array", "items": {"pattern": r"^(?:(?!\.\.).)+$"}}))
    assert validator.problems({"a": ["p" * 4096] * 3}) == []
    assert validator.problems({"a": ["p" * 10_000]}) == [
        "parameter 'a[0]' takes too long to be compared with its pattern: send a shorter text"
    ]


# What a model is told.


def test_every_error_is_told_at_once_with_its_path() -> None:
    schema = an_object(
        path={"type": "string"},
        files={"type": "array", "items": an_object(name={"type": "string"}, size={"type": "integer"})},
        mode={"enum": ["overwrite", "append"]},
    )
    schema |= {"required": ["path"], "additionalProperties": False}
    problems = told(schema, {"pth": "x", "mode": "apend", "files": [{}, {"size": "big"}, {"name": None}]})
    assert sorted(problems) == sorted(
        [
            "missing required parameter 'path'",
            "unknown parameter 'pth'. Did you mean 'path'?",
            "parameter 'mode' must be one of [\"overwrite\",\"append\"], not 'apend'",
            "parameter 'files[1].size' must be of type integer, not string 'big'",
            "parameter 'files[2].name' must be of type string, not null",
        ]
    )
    with pytest.raises(ToolError) as invalid:
        Validator(schema).check({"pth": "x"})
    assert invalid.value.code == "invalid_arguments"
    assert invalid.value.message == (
        "Invalid arguments: unknown parameter 'pth'. Did you mean 'path'?; missing required parameter 'path'."
    )


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"minLength": 3}, "ab", "parameter 'a': 'ab' is shorter than 3 characters"),
        ({"maxLength": 1}, "ab", "parameter 'a': 'ab' is longer than 1 character"),
        ({"pattern": "^a+$"}, "b", "parameter 'a': 'b' does not match \"^a+$\""),
        ({"minimum": 3}, 1, "parameter 'a': 1 is less than the minimum of 3"),
        ({"maximum": 3}, 4.5, "parameter 'a': 4.5 is greater than the maximum of 3"),
        ({"multipleOf": 2}, 3, "parameter 'a': 3 is not a multiple of 2"),
        ({"minItems": 2}, [1], "parameter 'a': [1] has less than 2 items"),
        ({"uniqueItems": True}, [1, 1], "parameter 'a': [1,1] has non-unique elements"),
        ({"const": "x"}, "y", "parameter 'a': \"x\" was expected"),
        (False, 1, "parameter 'a' is not allowed"),
        ({"type": ["integer", "null"]}, "x", "parameter 'a' must be of type integer or null, not string 'x'"),
        ({"type": "string"}, True, "parameter 'a' must be of type string, not boolean true"),
        ({"type": "string"}, {"b": 1}, "parameter 'a' must be of type string, not object {\"b\":1}"),
        ({"type": "integer"}, 1.5, "parameter 'a' must be of type integer, not number 1.5"),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "x",
            "parameter 'a' must be of type integer or null, not string 'x'",
        ),
        (
            {"anyOf": [{"properties": {"b": {"type": "integer"}}, "type": "object"}, {"type": "null"}]},
            {"b": "x"},
            "parameter 'a' fits none of its 2 forms: parameter 'a.b' must be of type integer, not string 'x' / "
            'parameter \'a\' must be of type null, not object {"b":"x"}',
        ),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, "is valid under more than one"),
        ({"properties": {"b": {}}, "unevaluatedProperties": False}, {"c": 1}, "unknown parameter 'a.c'"),
        ({"type": "object", "additionalProperties": False}, {"c": 1}, "parameter 'a' must be empty"),
    ],
)
def test_each_kind_of_problem_is_told_in_words(schema: Json, value: Json, text: str) -> None:
    problems = told(an_object(a=schema), {"a": value})
    assert len(problems) == 1 and text in problems[0]


def test_a_tool_without_parameters_says_so() -> None:
    assert told({"type": "object", "additionalProperties": False}, {"x": 1}) == ["the arguments object must be empty"]
    assert told({**an_object(), "additionalProperties": False}, {"x": 1}) == ["unknown parameter 'x'"]


def test_an_unknown_parameter_that_resembles_none_lists_those_that_there_are() -> None:
    schema = {**an_object(timezone={}, format={}), "additionalProperties": False}
    assert told(schema, {"tz": 1}) == ["unknown parameter 'tz'. There are: 'timezone', 'format'"]
    assert told(schema, {"tz": 1, "x": 1}) == [
        "unknown parameter 'tz'; unknown parameter 'x'. There are: 'timezone', 'format'"
    ]
    assert told(schema, {"timezon": 1, "x": 1}) == [
        "unknown parameter 'timezon'. Did you mean 'timezone'?; unknown parameter 'x'"
    ]


def test_arguments_that_are_no_object_are_told_so() -> None:
    validator = Validator(an_object())
    for value, kind in (([], "array []"), ("x", "string 'x'"), (None, "null"), (3, "integer 3")):
        assert validator.problems(value) == [f"the arguments object must be of type object, not {kind}"]


def test_a_hint_is_given_for_nested_and_referenced_objects_too() -> None:
    schema: JsonObject = {
        "$defs": {"address": {**an_object(street={}, city={}), "additionalProperties": False}},
        "properties": {"homes": {"items": {"$ref": "#/$defs/address"}}},
        "allOf": [{"properties": {"work": {**an_object(phone={}), "additionalProperties": False}}}],
    }
    assert told(schema, {"homes": [{"stret": 1}]}) == ["unknown parameter 'homes[0].stret'. Did you mean 'street'?"]
    assert told(schema, {"work": {"phon": 1}}) == ["unknown parameter 'work.phon'. Did you mean 'phone'?"]


def test_null_for_a_parameter_that_may_be_left_out_is_told_apart_from_leaving_it_out() -> None:
    schema = an_object(a={"type": "string"})
    assert told(schema, {}) == []
    assert told(schema, {"a": None}) == ["parameter 'a' must be of type string, not null"]


# Huge and hostile arguments.

HUGE = "x" * 5_000_000


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, HUGE),
        ({"pattern": "^a"}, HUGE),
        ({"maxLength": 3}, HUGE),
        ({"enum": ["a", HUGE[:100_000]]}, HUGE),
        ({"const": HUGE[:100_000]}, HUGE),
        ({"type": "integer"}, {HUGE: HUGE}),
        ({"type": "integer"}, [HUGE]),
        ({"type": "string"}, 10**4000),
        ({"items": {"type": "integer"}}, ["x"] * 300_000),
        ({"anyOf": [{"items": {"type": "integer"}}, {"items": {"type": "boolean"}}]}, ["x"] * 300_000),
        ({"items": {"type": "integer"}}, [1] * 300_000 + ["x"]),
        ({"items": {"items": {"type": "integer"}}}, [["x"] * 1000] * 300),
        ({"properties": {"b": {}}, "additionalProperties": False}, {f"{n}{'k' * 50}": 1 for n in range(50_000)}),
        ({"additionalProperties": {"type": "integer"}}, {str(number): "x" for number in range(50_000)}),
        ({"properties": {"b": {}}, "additionalProperties": False}, {HUGE: 1}),
        ({"uniqueItems": True}, [1] * 3000),
        ({"minItems": 400_000, "items": {"type": "integer"}}, [1] * 300_000),
    ],
)
def test_however_large_the_arguments_are_the_message_is_short(schema: JsonObject, value: Json) -> None:
    validator = Validator(an_object(a=schema))
    with pytest.raises(ToolError) as invalid:
        validator.check({"a": value})
    assert invalid.value.code == "invalid_arguments"
    assert len(invalid.value.message) < 4100


def test_of_very_many_problems_the_first_are_told_and_that_there_are_more() -> None:
    problems = told(an_object(a={"items": {"type": "integer"}}), {"a": ["x"] * 100})
    assert len(problems) == 21
    assert problems[0] == "parameter 'a[0]' must be of type integer, not string 'x'"
    assert problems[-1] == "and more"


def test_what_else_is_wrong_is_told_even_beside_a_very_long_list() -> None:
    schema = an_object(rows={"items": {"type": "integer"}, "minItems": 30}, path={"type": "string"})
    schema["required"] = ["path"]
    assert told(schema, {"rows": [1] * 100_000}) == ["missing required parameter 'path'"]


def test_the_same_problem_is_told_once() -> None:
    schema: JsonObject = {"allOf": [an_object(a={"type": "integer"}), an_object(a={"type": "integer"})]}
    assert told(schema, {"a": "x"}) == ["parameter 'a' must be of type integer, not string 'x'"]


def test_arguments_that_are_nested_without_end_are_a_problem_and_no_crash() -> None:
    deep: Json = 1
    for _ in range(20_000):
        deep = [deep]
    (problem,) = Validator(an_object(a={"items": {"type": "integer"}})).problems({"a": deep})
    assert len(problem) < 200
    assert len(Validator({"properties": {"b": {"type": "string"}}}).problems({"a": deep, "b": 1})) == 1


def test_a_number_that_python_would_not_even_print_is_told_by_its_type() -> None:
    problems = Validator(an_object(a={"type": "string"})).problems({"a": 10**5000})
    assert len(problems) == 1 and len(problems[0]) < 200


def test_arguments_that_are_not_json_are_a_problem_and_no_crash() -> None:
    problems = Validator(an_object(a={"type": "string"})).problems({"a": object()})  # type: ignore[dict-item] # on purpose
    assert len(problems) == 1 and "object" in problems[0]


@given(
    st.dictionaries(st.sampled_from("abc"), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=3)
)
def test_there_are_problems_exactly_when_the_arguments_are_not_valid(arguments: dict[str, Any]) -> None:
    schema = an_object(
        a={"type": "integer"},
        b={"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/properties/b"}}]},
    )
    schema |= {"required": ["a"], "additionalProperties": False}
    validator = Validator(schema)
    assert validator.is_valid(arguments) == (validator.problems(arguments) == [])
