"""Error answers of the OpenAI formats, in words for a person."""

import msgspec
import pytest

from handspan.core.values import Json
from handspan.models.chat.codec import ChatCodec
from handspan.models.openai.faults import fault_in_stream, fault_of_answer


def body(message: str, code: Json = None, kind: str = "invalid_request_error") -> bytes:
    return msgspec.json.encode({"error": {"message": message, "code": code, "type": kind, "param": None}})


@pytest.mark.parametrize(
    ("status", "raw", "fault"),
    [
        (401, body("Incorrect API key provided: sk-abc", "invalid_api_key"), "auth"),
        (403, body("You are not allowed"), "auth"),
        (402, body("Insufficient Balance"), "quota"),
        (429, body("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "quota"),
        (429, body("Rate limit reached for gpt-5", "rate_limit_exceeded", "tokens"), "overloaded"),
        (429, body("Request too large for gpt-4 on tokens per min", "rate_limit_exceeded", "tokens"), "too_long"),
        (404, body("The model `x` does not exist", "model_not_found"), "unknown_model"),
        (404, body('model "x" not found, try pulling it first', None, "api_error"), "unknown_model"),
        (400, body("The requested model 'x' does not exist.", "model_not_found"), "unknown_model"),
        (404, b"<html>nginx</html>", "unknown_model"),
        (400, body("This model's maximum context length is 8192 tokens", "context_length_exceeded"), "too_long"),
        (400, body("request exceeds the available context size", 400, "exceed_context_size_error"), "too_long"),
        (500, b'{"error":{"message":"the request exceeds the available context size"}}', "too_long"),
        (400, b'{"object":"error","message":"Prompt is too long","code":40303}', "too_long"),
        (413, b"", "too_long"),
        (400, body("Your request was rejected by the safety system", "content_policy_violation"), "refused"),
        (400, body("Unknown parameter: 'x'"), "rejected"),
        (422, b'{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}', "rejected"),
        (400, b"[]", "rejected"),
        (400, b'"text"', "rejected"),
        (500, b"oops", "overloaded"),
        (503, b"", "overloaded"),
        (529, b"\xff\xfe", "overloaded"),
        (408, b"{}", "overloaded"),
    ],
)
def test_error_answer_is_sorted_by_what_to_do_about_it(status: int, raw: bytes, fault: str) -> None:
    error = ChatCodec().fault(status, raw)
    assert (error.fault, error.status) == (fault, status)
    assert str(status) in str(error)
    assert "<html>" not in str(error)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (body("Unknown parameter: 'x'"), "Unknown parameter: 'x'"),
        (b'{"error":"it broke"}', "it broke"),
        (b'{"message":"it broke"}', "it broke"),
        (b'{"message":{"detail":"it broke"}}', "it broke"),
        (b'[{"error":{"code":400,"message":"it broke"}}]', "it broke"),
        (b'{"detail":[{"loc":["body","n"],"msg":"Extra inputs"},{"msg":"more"},3]}', "body.n: Extra inputs; : more"),
        (b'{"error":{"message":"Provider returned error","metadata":{"raw":"busy"}}}', "Provider returned error: busy"),
        (b"plain  words\nof a proxy", "plain words of a proxy"),
    ],
)
def test_words_of_the_server_are_quoted_wherever_it_has_put_them(raw: bytes, said: str) -> None:
    assert said in str(fault_of_answer(400, raw))


def test_long_words_are_cut() -> None:
    assert len(str(fault_of_answer(400, body("x" * 9000)))) < 600


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-proj-abcdefghijklmnop. See the docs",
        "bad token hf_abcdefghijklmnopqrst",
        "header Bearer abcdefghijklmnopqrst is wrong",
        "key AIzaabcdefghijklmnopqrst is wrong",
    ],
)
def test_key_is_never_repeated(said: str) -> None:
    assert "abcdefghijklmnop" not in str(fault_of_answer(401, body(said)))


def test_rate_limit_and_trouble_have_different_words() -> None:
    assert "more requests" in str(fault_of_answer(429, b"{}"))
    assert "more requests" not in str(fault_of_answer(503, b"{}"))


@pytest.mark.parametrize(
    ("error", "fault", "status"),
    [
        ({"error": {"code": 429, "message": "x"}}, "overloaded", 429),
        ({"error": {"code": "503", "message": "x"}}, "overloaded", 503),
        ({"error": {"status_code": 400, "code": "tool_use_failed", "message": "x"}}, "rejected", 400),
        ({"error": {"code": "invalid_api_key"}}, "auth", 401),
        ({"error": {"type": "overloaded_error", "message": "x"}}, "overloaded", 503),
        ({"error": {"code": "insufficient_quota", "message": "x"}}, "quota", None),
        ({"code": "rate_limit_exceeded", "message": "x"}, "overloaded", 429),
        ({"error": {"code": 17, "message": "context length"}}, "too_long", None),
        ({}, "rejected", None),
    ],
)
def test_error_without_a_status_is_sorted_by_its_words(error: dict[str, Json], fault: str, status: int | None) -> None:
    found = fault_in_stream(error)
    assert (found.fault, found.status) == (fault, status)
