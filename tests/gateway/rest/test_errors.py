"""Errors as HTTP responses of REST."""

from typing import get_args

import msgspec
import pytest

from handspan.agent.refusals import IdTaken, NoUserMessage, RefusalCode, TurnRefused
from handspan.core.errors import ConfigError, StoreError, ToolError
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import as_response, not_found_refusal, refusal_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ToolError("file_not_found", "x"), 404, "not_found"),
        (ToolError("busy", "x"), 409, "busy"),
        (ToolError("network_error", "x"), 500, "network_error"),
        (StoreError("x"), 503, "store_failed"),
        (ConfigError("x"), 409, "settings"),
        (NoUserMessage(), 409, "no_user_message"),
        (IdTaken("m1"), 422, "invalid_frame"),
        (Refusal(429, "too_many_tries", "x", 7), 429, "too_many_tries"),
        (ValueError("secret"), 500, "internal_error"),
    ],
)
def test_every_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    told = refusal_of(error)
    assert (told.status, told.code) == (status, code)
    assert b"secret" not in as_response(told).body


def test_who_has_to_wait_is_told_how_long() -> None:
    assert as_response(refusal_of(Refusal(429, "too_many_tries", "x", 6.2))).headers["retry-after"] == "7"


def test_a_long_name_is_not_repeated_whole() -> None:
    assert len(not_found_refusal("agent", "x" * 1000).message) < 150


@pytest.mark.parametrize("code", get_args(RefusalCode))
def test_every_refusal_of_a_turn_has_a_status(code: RefusalCode) -> None:
    assert 400 <= refusal_of(TurnRefused(code, "x")).status < 500


def test_who_has_to_wait_is_told_for_how_long_in_header_and_body() -> None:
    response = as_response(refusal_of(Refusal(429, "too_many_tries", "x", 6.2)))
    assert response.headers["retry-after"] == "7"
    assert msgspec.json.decode(response.body) == {"error": "x", "code": "too_many_tries", "retry_after": 7}
    assert as_response(refusal_of(Refusal(401, "unauthorized", "x"))).headers["www-authenticate"] == "Bearer"
