"""Estimates of tokens before an API has counted, and what refusals say of a model's limit (SPEC L1)."""

import struct

import msgspec
import pytest

from handspan.core.artifacts import ArtifactRef
from handspan.core.messages import Api
from handspan.core.results import Attachment
from handspan.models.choice import codec_for
from handspan.models.estimate import count_attachment, count_json, count_words, limit_in
from handspan.models.prices import window_of
from tests.models.fake_server import _TOO_LONG


def png(width: int, height: int) -> Attachment:
    return Attachment("image", "image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height))


def jpeg(width: int, height: int) -> Attachment:
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" * 12
    return Attachment("image", "image/jpeg", b"\xff\xd8\xff\xe0\x00\x04ab" + frame)


@pytest.mark.parametrize(
    ("api", "image", "tokens"),
    [
        ("anthropic", png(750, 500), 501),
        ("anthropic", png(8000, 8000), 1600),
        ("openai-chat", png(1024, 1024), 85 + 170 * 4),
        ("openai-responses", png(512, 512), 85 + 170),
        ("openai-chat", jpeg(2048, 4096), 85 + 170 * 6),
        ("gemini", png(300, 300), 258),
        ("gemini", jpeg(1500, 700), 2 * 258),
    ],
)
def test_an_image_counts_by_the_rule_of_its_api(api: Api, image: Attachment, tokens: int) -> None:
    assert count_attachment(image, api) == tokens


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\xff\xff"])
def test_an_image_that_can_not_be_read_counts_as_a_large_one(data: bytes) -> None:
    assert count_attachment(Attachment("image", "image/png", data), "anthropic") == 1600


def test_other_files_count_by_their_bytes() -> None:
    stored = Attachment("file", "application/pdf", artifact=ArtifactRef("a", 120_000))
    assert count_attachment(stored, "gemini") == 10_001
    assert count_attachment(Attachment("file", "text/plain", b"x" * 400), None) == 101


def test_words_of_any_language_count() -> None:
    assert count_words("hello there, world!!") == 6
    assert count_words("世界") == 3
    assert count_json('{"a":1,"b":"\ud800"}') > 3


@pytest.mark.parametrize(
    ("refusal", "limit"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("input is longer than the 32,768-token limit", 32_768),
        ("Your input exceeds the context window of this model. It said 400: please adjust", None),
        ("Too many tokens (maximum 12)", None),
        ("", None),
    ],
)
def test_the_limit_is_read_from_what_apis_say(refusal: str, limit: int | None) -> None:
    assert limit_in(refusal) == limit


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_the_limit_is_still_there_in_our_words_for_the_error(api: Api) -> None:
    said = {"message": _TOO_LONG[api], "type": "invalid_request_error", "code": "context_length_exceeded"}
    error = codec_for(api).fault(400, msgspec.json.encode({"error": said}))
    assert error.fault == "too_long"
    assert limit_in(str(error)) == limit_in(_TOO_LONG[api])


def test_known_models_have_their_window() -> None:
    assert window_of("claude-sonnet-4-5-20250929") in (200_000, 1_000_000)
    assert window_of("my-own-model") is None
