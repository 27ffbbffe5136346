"""What Android prints of a bundle is read exactly, whatever stands in it; what it takes as extras arrives as it was."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.wire.android_bundle import encode_extras, find_result, read_bundle_text
from handspan.wire.cetp import CETP_CODES, CetpError, CetpSuccess, read_bundle
from tests.bridge.phone import bundle_text, split_binding

NASTY = st.sampled_from(
    (
        *(", status=error", ", status=success", ", data=", ", error_code=X", ", authorize_intent=", "}]", "Bundle[{"),
        *("\n", "\r\n", "Result: ", "null", ", ", "=", '"', "\\", ":", "{", "}", "é", "🙂", "'", "$HOME", "`x`"),
    )
)
TEXTS = st.lists(NASTY | st.text(st.characters(codec="utf-8"), max_size=5), max_size=6).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
INTENTS = st.from_regex(r"[A-Za-z0-9._:/-]{1,40}", fullmatch=True).filter(lambda one: one != "null")


@given(VALUES, st.booleans())
@example({"a": ", status=error, error_code=X"}, True)
@example("}]", False)
def test_the_data_of_a_success_is_read_exactly(value: Json, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii)
    assert read_bundle_text(bundle_text({"status": "success", "data": data})) == {"status": "success", "data": data}


@given(VALUES, st.dictionaries(st.sampled_from(("a", "zzz", "request_id", "v")), st.just("1"), min_size=1))
def test_unknown_keys_around_the_data_are_ignored(value: Json, unknown: dict[str, str]) -> None:
    data = json.dumps(value)
    text = bundle_text({"status": "success", "data": data, **unknown})
    assert read_bundle_text(text) == {"status": "success", "data": data}


@given(st.text(st.characters(codec="utf-8"), max_size=30).filter(lambda text: ", " not in text))
def test_data_that_is_no_json_is_a_text(text: str) -> None:
    assert read_bundle_text(bundle_text({"status": "success", "data": text})) == {"status": "success", "data": text}


@given(
    st.sampled_from(sorted(CETP_CODES)),
    TEXTS.filter(lambda text: text != "null" and ", resolution_hint=" not in text),
    TEXTS.filter(lambda text: text != "null"),
    INTENTS,
)
def test_the_texts_of_an_error_are_read_exactly(code: str, message: str, hint: str, intent: str) -> None:
    bundle = {"status": "error", "error_code": code, "error_message": message}
    if ", authorize_intent=" not in message:
        assert read_bundle_text(bundle_text(bundle)) == bundle
    bundle |= {"resolution_hint": hint, "authorize_intent": intent}
    assert read_bundle_text(bundle_text(bundle)) == bundle


@given(TEXTS | VALUES.map(str))
def test_every_text_is_a_response(text: str) -> None:
    assert isinstance(read_bundle(read_bundle_text(text)), CetpSuccess | CetpError)
    assert isinstance(read_bundle(read_bundle_text(f"Bundle[{{{text}}}]")), CetpSuccess | CetpError)


@pytest.mark.parametrize("text", ["null", "Bundle[{}]", "Bundle[EMPTY_PARCEL]", "Bundle[mParcelledData.dataSize=8]"])
def test_a_bundle_without_a_status_is_no_response(text: str) -> None:
    response = read_bundle(read_bundle_text(text))
    assert isinstance(response, CetpError)
    assert response.text == "[INTERNAL_ERROR] Unexpected status: there is none"


def test_texts_that_are_missing_in_java_are_missing() -> None:
    text = "error_message=no, resolution_hint=null, authorize_intent=null, status=error, error_code=AUTH_REQUIRED"
    assert read_bundle_text(f"Bundle[{{{text}}}]") == {
        "status": "error",
        "error_message": "no",
        "error_code": "AUTH_REQUIRED",
    }


@pytest.mark.parametrize("text", [", status=error" * 20_000 + ",,", ", data=" * 50_000, ", a=" * 100_000])
def test_a_hostile_text_takes_no_more_time_than_its_length(text: str) -> None:
    assert isinstance(read_bundle(read_bundle_text(f"Bundle[{{error_message={text}}}]")), CetpError)


def test_the_result_is_found_behind_what_else_was_printed() -> None:
    assert find_result('WARNING: linker\nResult: Bundle[{data="a\nResult: b"}]\r\n') == 'Bundle[{data="a\nResult: b"}]'
    assert find_result("Error while accessing provider:x\n") is None


@given(
    st.dictionaries(st.sampled_from(("tool_name", "request_id")), TEXTS.filter(lambda text: "\0" not in text)),
    VALUES,
    st.booleans(),
)
def test_extras_arrive_as_they_were_in_both_dialects(texts: dict[str, str], value: Json, escapes: bool) -> None:
    extras: dict[str, Any] = {**texts, "args": json.dumps(value, ensure_ascii=False)}
    options = encode_extras(extras, escapes=escapes)
    assert options[::2] == ["--extra"] * len(extras)
    bindings = [split_binding(one, escapes=escapes) for one in options[1::2]]
    arrived = {key: text for key, _, text in bindings}
    assert {kind for _, kind, _ in bindings} == {"s"}
    assert arrived.pop("args").isascii()
    assert arrived == texts
    sent = [text for key, _, text in bindings if key == "args"]
    assert [json.loads(one) for one in sent] == [value]


@pytest.mark.parametrize("extras", [{"args": 5}, {"tool_name": "a\0b"}])
def test_an_extra_that_no_command_line_carries_is_refused(extras: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="can't be sent through adb"):
        encode_extras(extras, escapes=True)
