"""Whatever the other side sends is read as something, and nothing of it is without bounds (cetp.md 2.5, 2.8)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.core.names import check_namespace
from handspan.core.values import Json, encode
from handspan.wire.cetp import (
    CETP_CODES,
    MAX_TOOLS,
    CetpError,
    CetpSuccess,
    ProviderError,
    execute_request,
    label_of,
    no_response_error,
    read_bundle,
    read_data,
    read_extras,
    read_info,
    read_request,
    read_response,
    read_tools,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    (
        *("status", "data", "error_code", "error_message", "resolution_hint", "authorize_intent"),
        *("tools", "name", "description", "parameters", "annotations", "read_only", "scopes", "provider_name"),
    )
)
WORDS = st.sampled_from(("success", "error", "{}", '{"tools": []}', *sorted(CETP_CODES)))
BUNDLES = st.dictionaries(FIELDS, VALUES | WORDS | st.dictionaries(FIELDS, VALUES, max_size=4), max_size=6)


@given(BUNDLES | VALUES)
def test_every_value_is_a_response(value: Any) -> None:
    response = read_bundle(value)
    if isinstance(response, CetpSuccess):
        read_data(response.data)
    else:
        assert response.error_code in CETP_CODES
        assert response.text.startswith(f"[{response.error_code}]")


@given(st.binary(max_size=60) | BUNDLES.map(lambda value: json.dumps(value).encode()))
def test_all_bytes_are_a_response(data: bytes) -> None:
    assert isinstance(read_response(data), CetpSuccess | CetpError)


@given(BUNDLES | st.fixed_dictionaries({"tools": st.lists(BUNDLES | VALUES, max_size=4)}))
def test_tools_and_info_are_read_or_refused(value: Any) -> None:
    text = json.dumps(value)
    for read in (read_tools, read_info):
        try:
            read(text)
        except WireError as error:
            assert str(error)


@given(
    st.text(min_size=1, max_size=20), st.dictionaries(st.text(max_size=5), VALUES, max_size=3), st.text(max_size=128)
)
def test_a_call_is_read_as_it_was_written(tool: str, arguments: Any, request_id: str) -> None:
    request = read_request(encode(execute_request(tool, arguments, request_id)))
    call = read_extras(request.extras)
    assert (call.tool_name, call.arguments, call.request_id) == (tool, arguments, request_id)


@given(st.dictionaries(st.sampled_from(("tool_name", "args", "request_id")), VALUES))
def test_extras_are_read_or_refused_with_a_code(extras: Any) -> None:
    try:
        read_extras(extras)
    except ProviderError as error:
        assert error.answer.error_code == "INVALID_ARGS"


@given(st.text(max_size=60))
def test_every_label_is_a_namespace_and_stays_the_same(name: str) -> None:
    label = label_of(name)
    check_namespace(label)
    assert label_of(label) == label


def test_texts_of_a_provider_are_cut() -> None:
    long = "x" * 100_000
    error = read_bundle(
        {
            "status": "error",
            "error_code": "AUTH_REQUIRED",
            "error_message": long,
            "resolution_hint": long,
            "authorize_intent": long,
        }
    )
    assert isinstance(error, CetpError)
    assert (len(error.error_message), len(error.resolution_hint), error.authorize_intent) == (4000, 4000, "")
    wrong: list[Json] = [{"status": long}, {"status": "error", "error_code": long}]
    for value in wrong:
        cut = read_bundle(value)
        assert isinstance(cut, CetpError) and len(cut.error_message) < 200
    assert len(no_response_error("a", long).error_message) == 4000


def test_tools_beyond_the_limit_are_left_out_and_counted() -> None:
    found = read_tools(json.dumps({"tools": [{"name": f"t{number}"} for number in range(3 * MAX_TOOLS)]}))
    assert len(found.tools) == MAX_TOOLS
    assert found.left_out[-1].reason == f"{MAX_TOOLS} more entries were not read"
    assert read_tools(json.dumps({"tools": [{"name": "x" * 129}]})).left_out[0].reason.endswith("characters")


@pytest.mark.parametrize("data", ["[" * 100_000, '{"a":' * 100_000, "[" + "1," * 100_000 + "1]"])
def test_data_that_is_too_deep_or_holds_too_much_is_a_text(data: str) -> None:
    assert read_data(data) == data
    refused = read_response(data)
    assert isinstance(refused, CetpError) and refused.error_code == "INTERNAL_ERROR"
    with pytest.raises(WireError):
        read_request(data.encode())
