"""What errors of the Anthropic Messages API mean to a person."""

import json

import pytest

from handspan.core.values import Json
from handspan.models.anthropic.codec import AnthropicCodec

KEY = "sk-ant-api03-secret_secret-secret"


def body(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).encode()


@pytest.mark.parametrize(
    ("status", "kind", "message", "fault", "words"),
    [
        (401, "authentication_error", "invalid x-api-key", "auth", "ANTHROPIC_API_KEY"),
        (403, "permission_error", "not allowed", "auth", "may not do this"),
        (404, "not_found_error", "model: claude-sonet-4-5", "unknown_model", "Check the model's name"),
        (404, "not_found_error", "Not Found", "rejected", "base URL"),
        (413, "request_too_large", "Request exceeds the maximum size", "too_long", "new session"),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", "too_long", "210000"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 16000 > 200000",
            "too_long",
            "larger context",
        ),
        (400, "invalid_request_error", "Your credit balance is too low to access the API", "quota", "credit"),
        (400, "invalid_request_error", "You have reached your specified API usage limits.", "quota", "limit"),
        (402, "billing_error", "Payment needed", "quota", "Payment needed"),
        (402, "", "", "quota", "Add credit"),
        (400, "invalid_request_error", "temperature: unknown field", "rejected", "temperature: unknown field"),
        (422, "", "odd", "rejected", "status 422"),
        (429, "rate_limit_error", "Number of requests has exceeded your limit", "overloaded", "Wait"),
        (
            429,
            "rate_limit_error",
            "This would exceed 40,000 input tokens per minute. Please reduce the prompt length or contact sales.",
            "overloaded",
            "40,000",
        ),
        (429, "rate_limit_error", "Your credit balance is too low", "quota", "Add credit"),
        (408, "timeout_error", "", "overloaded", "Try again"),
        (500, "api_error", "Internal server error", "overloaded", "status 500"),
        (502, "", "your credit balance has a context window", "overloaded", "status 502"),
        (529, "overloaded_error", "Overloaded", "overloaded", "Try again later"),
    ],
)
def test_an_error_is_explained(status: int, kind: str, message: str, fault: str, words: str) -> None:
    error = AnthropicCodec().fault(status, body(kind, message))
    assert (error.fault, error.status) == (fault, status)
    assert words in str(error)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "refuses the request (status 400). Check"),
        (b"plain words", "'plain words'"),
        (b"<html><body>Bad Request</body></html>", "(status 400). Check"),
        (b"\xff\xfe", "(status 400): "),
        (b"[1]", "(status 400). Check"),
        (b'{"error": "as text"}', "'as text'"),
        (b'{"message": "at the top"}', "'at the top'"),
        (b'{"detail": "in detail"}', "'in detail'"),
        (b'{"error": {"type": 5, "message": ["no text"]}}', "(status 400). Check"),
        (b'{"error": null}', "(status 400). Check"),
        (b"[" * 100_000, "(status 400): '[["),
    ],
)
def test_any_body_is_understood(answer: bytes, words: str) -> None:
    error = AnthropicCodec().fault(400, answer)
    assert error.fault == "rejected"
    assert words in str(error)
    assert len(str(error)) < 600


@pytest.mark.parametrize("message", [f"bad key {KEY}", f"Bearer {KEY}", f"Authorization: Bearer {'k' * 20}", "x" * 60])
def test_a_key_that_a_server_repeats_is_not_shown(message: str) -> None:
    shown = str(AnthropicCodec().fault(401, body("authentication_error", message)))
    assert KEY not in shown
    assert "secret" not in shown
    assert "k" * 20 not in shown
    assert "x" * 60 not in shown


def test_a_long_story_is_cut() -> None:
    answer: Json = {"error": {"message": "very long " * 500}}
    assert len(str(AnthropicCodec().fault(400, json.dumps(answer).encode()))) < 600
