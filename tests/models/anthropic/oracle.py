"""What the vendor's own SDK makes of our requests and of streamed answers.

It is slow to import: that is done inside functions only, and `make quick` judges no request by it.
"""

import json
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import pytest

from handspan.core.values import Json, JsonObject
from tests.thoroughness import IS_QUICK

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def _read_by_sdk(body: bytes) -> JsonObject:
    """The request as the SDK's types read it; fields that they do not know are missing, so compare with the body."""
    request = msgspec.json.decode(body)
    adapter = _adapter("MessageCreateParamsStreaming" if request["stream"] else "MessageCreateParamsNonStreaming")
    read = _plain(adapter.validate_python(request))
    assert isinstance(read, dict)
    return read


def check(body: bytes) -> JsonObject:
    """The request, after the SDK's types have taken it without losing anything."""
    request: JsonObject = msgspec.json.decode(body)
    assert IS_QUICK or _read_by_sdk(body) == request
    return request


def content_by_sdk(events: Iterable[JsonObject]) -> list[Json]:
    """The content blocks that the SDK puts together from these events."""
    pytest.importorskip("anthropic")
    streaming = pytest.importorskip("anthropic.lib.streaming._messages")
    types = pytest.importorskip("anthropic.types")
    models = pytest.importorskip("anthropic._models")
    snapshot, buffers = None, dict[int, bytes]()
    for event in events:
        if event["type"] != "ping":
            read = models.construct_type(type_=types.RawMessageStreamEvent, value=event)
            snapshot = streaming.accumulate_event(event=read, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    content: list[Json] = json.loads(json.dumps([_plain(block) for block in snapshot.content]))
    return content


@cache
def _adapter(kind: str) -> "TypeAdapter[object]":
    """A reader for the SDK's type. Kept: its lazy lists must not outlive it."""
    pydantic = pytest.importorskip("pydantic")
    params = pytest.importorskip("anthropic.types.message_create_params")
    adapter: TypeAdapter[object] = pydantic.TypeAdapter(getattr(params, kind))
    return adapter


def _plain(value: object) -> Json:
    """The value with the SDK's lazy lists and objects read to the end."""
    if isinstance(value, str | int | float | None):
        return value
    if hasattr(value, "model_dump"):
        dumped: Json = value.model_dump(mode="json", exclude_unset=True)
        return dumped
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    assert isinstance(value, Iterable)
    return [_plain(item) for item in value]
