"""What Gemini's error answers mean, in words for a person."""

import json
from typing import Any

import pytest

from handspan.models.gemini.codec import GeminiCodec
from handspan.models.model import ModelError

KEY = "AIzaSyD-0123456789abcdefghijklmnopqrstu"


def body(message: str, *details: dict[str, Any], status: str = "INVALID_ARGUMENT") -> bytes:
    return json.dumps({"error": {"code": 1, "message": message, "status": status, "details": [*details]}}).encode()


def retry(seconds: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}


def quota(*ids: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name} for name in ids]}


BAD_KEY = body("API key not valid. Please pass a valid API key.", {"reason": "API_KEY_INVALID"})
USED_UP = "You exceeded your current quota, please check your plan and billing details."
MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"


@pytest.mark.parametrize(
    ("status", "raw", "kind"),
    [
        (400, BAD_KEY, "auth"),
        (400, body("API key expired. Please renew the API key."), "auth"),
        (401, body("Request had invalid authentication credentials."), "auth"),
        (403, body("Method doesn't allow unregistered callers.", status="PERMISSION_DENIED"), "auth"),
        (404, body("models/gemini-9 is not found for API version v1beta", status="NOT_FOUND"), "unknown_model"),
        (429, body(USED_UP, quota(MINUTE), retry("38s"), status="RESOURCE_EXHAUSTED"), "overloaded"),
        (429, body("Resource has been exhausted (e.g. check quota)."), "overloaded"),
        (429, body(USED_UP, quota(DAY, MINUTE), retry("38s"), status="RESOURCE_EXHAUSTED"), "quota"),
        (429, body(f"{USED_UP}\n* Quota exceeded for metric: x, limit: 0, model: y", retry("38s")), "quota"),
        (429, body(USED_UP), "quota"),
        (402, body("pay first"), "quota"),
        (
            400,
            body("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
            "too_long",
        ),
        (400, body("Request payload size exceeds the limit: 20971520 bytes."), "too_long"),
        (413, b"<html>too large</html>", "too_long"),
        (503, body("The model is overloaded. Please try again later.", status="UNAVAILABLE"), "overloaded"),
        (500, b"", "overloaded"),
        (504, b"\xff\xfe", "overloaded"),
        (400, body("Please ensure that the number of function response parts is equal to …"), "rejected"),
        (400, body("User location is not supported for the API use.", status="FAILED_PRECONDITION"), "rejected"),
        (418, b"[" * 3000, "rejected"),
    ],
)
def test_error_answer_means(status: int, raw: bytes, kind: str) -> None:
    error = GeminiCodec().fault(status, raw)
    assert isinstance(error, ModelError)
    assert (error.fault, error.status) == (kind, status)
    assert str(error).endswith(f"(HTTP {status})")


@pytest.mark.parametrize(
    "raw", [body(f"bad key {KEY}"), f"https://x/?key=anything&alt=sse {KEY}".encode(), KEY.encode()]
)
def test_key_that_a_server_repeats_is_never_shown(raw: bytes) -> None:
    for status in (400, 401, 500):
        words = str(GeminiCodec().fault(status, raw))
        assert KEY not in words
        assert "anything" not in words
        assert "…" in words


def test_words_say_what_to_do_and_quote_gemini() -> None:
    words = str(GeminiCodec().fault(400, BAD_KEY))
    assert "GEMINI_API_KEY" in words
    assert "'API key not valid. Please pass a valid API key.'" in words
    assert "in 38.5 seconds" in str(GeminiCodec().fault(429, body("slow down", retry("38.5s"))))
    assert "Try again." in str(GeminiCodec().fault(503, body("busy")))


@pytest.mark.parametrize("raw", [b"x" * 5000, body("y" * 5000)])
def test_long_words_of_a_server_are_cut(raw: bytes) -> None:
    assert len(str(GeminiCodec().fault(500, raw))) < 500


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'[{"error": {"message": "in a list"}}]', "'in a list'"),
        (b'{"error": "a word"}', "'a word'"),
        (b'{"error": {"message": 3}}', "message"),
        (b'{"detail": "other"}', "other"),
        (b"[]", "'[]'"),
        (b"<html>\n  bad   gateway</html>", "'<html> bad gateway</html>'"),
    ],
)
def test_words_are_found_in_every_shape_of_answer(raw: bytes, words: str) -> None:
    assert words in str(GeminiCodec().fault(400, raw))


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        (body("x", retry("38s")), 38.0),
        (body("x", retry("0.25s")), 0.25),
        (body("Please retry in 38.804097346s."), 38.804097346),
        (json.dumps({"error": {"message": body("x", retry("7s")).decode()}}).encode(), 7.0),
        (body("x"), None),
        (b"", None),
    ],
)
def test_seconds_to_wait_are_read_from_the_body(raw: bytes, seconds: float | None) -> None:
    assert GeminiCodec().fault(429, raw).wait == seconds
