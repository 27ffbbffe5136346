"""What OpenAI's own SDK makes of our requests and of streamed answers. Slow to import: only inside functions."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from handspan.core.values import Json, JsonObject

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RECORDED = Path(__file__).parents[2].parent / "shared" / "recorded"
needs_recordings = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded exchanges are not beside the checkout"
)


def chat_request(body: bytes) -> JsonObject:
    """The request as the SDK's types for chat completions read it."""
    return _accepted("openai.types.chat.completion_create_params", "CompletionCreateParams", body)


def responses_request(body: bytes) -> JsonObject:
    """The request as the SDK's types for responses read it."""
    return _accepted("openai.types.responses.response_create_params", "ResponseCreateParams", body)


def chunks(body: str) -> Iterator[tuple[str, str]]:
    """The events of a recorded stream: name and data."""
    for block in body.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":")]
        data = "\n".join(value for name, value in lines if name == "data")
        if data:
            yield next((value for name, value in lines if name == "event"), ""), data


def exchanges(*folders: str) -> list[JsonObject]:
    """Every recorded exchange of these folders, with the name of its file."""
    return [
        {**exchange, "file": f"{path.parent.name}/{path.stem}#{number}"}
        for folder in folders
        for path in sorted((RECORDED / folder).glob("*.json"))
        for number, exchange in enumerate(msgspec.json.decode(path.read_bytes())["exchanges"])
    ]


def _accepted(module: str, kind: str, body: bytes) -> JsonObject:
    request = msgspec.json.decode(body)
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
