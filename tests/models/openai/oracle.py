"""What OpenAI's own SDK makes of our requests. Slow to import: only inside functions, and not in `make quick`."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import pytest

from handspan.core.values import Json, JsonObject
from tests.thoroughness import IS_QUICK

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def chat_request(body: bytes) -> JsonObject:
    """The request as the SDK's types for chat completions read it."""
    return _read_by_sdk("openai.types.chat.completion_create_params", "CompletionCreateParams", body)


def responses_request(body: bytes) -> JsonObject:
    """The request as the SDK's types for responses read it."""
    return _read_by_sdk("openai.types.responses.response_create_params", "ResponseCreateParams", body)


def _read_by_sdk(module: str, kind: str, body: bytes) -> JsonObject:
    request: JsonObject = msgspec.json.decode(body)
    if IS_QUICK:
        return request
    read = _plain(
        _adapter(module, f"{kind}{'Streaming' if request['stream'] else 'NonStreaming'}").validate_python(request)
    )
    assert isinstance(read, dict)
    return read


@cache
def _adapter(module: str, kind: str) -> "TypeAdapter[object]":
    """A reader for the SDK's type. Kept: its lazy lists must not outlive it."""
    pydantic = pytest.importorskip("pydantic")
    adapter: TypeAdapter[object] = pydantic.TypeAdapter(getattr(pytest.importorskip(module), kind))
    return adapter


def _plain(value: object) -> Json:
    """The value with the SDK's lazy lists and objects read to the end."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    assert isinstance(value, Iterable)
    return [_plain(item) for item in value]
