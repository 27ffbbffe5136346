"""What code gives back, as frames; large things as uploads, over real HTTP."""

import asyncio
import http.server
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import pytest

from handspan.client.address import Address, GatewayPlace
from handspan.client.fast_results import encode_plain
from handspan.client.results import MAX_INLINE, Image, ResultEncoder, ToolCallResult
from handspan.client.upload import upload
from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import ToolError
from handspan.core.results import Attachment, Failure, Pending, Success
from handspan.core.values import Json
from handspan.wire.ws_frames import FailureFrame, ResultFrame, WireLimits

CAN = frozenset(("resume", "parts"))


class Uploads:
    """Where uploads go."""

    def __init__(self) -> None:
        self.uploads: list[tuple[bytes, str, str]] = []

    async def upload(self, data: bytes, media_type: str, name: str) -> str:
        self.uploads.append((data, media_type, name))
        return f"a{len(self.uploads)}"


def frame(value: Any, can: frozenset[str] = CAN, store: Uploads | None = None) -> ResultFrame | FailureFrame:
    return asyncio.run(ResultEncoder((store or Uploads()).upload).encode("c1", value, can, WireLimits()))


@pytest.mark.parametrize(
    "value", ["x", "\ud800", {"a": [1, {"b": None}]}, {1: 2}, 7, 1.5, float("nan"), True, None, {"a": "[{" * 40}]
)
def test_plain_data_is_encoded_fast_as_it_would_be_otherwise(value: Any) -> None:
    assert encode_plain("c1", value, CAN, WireLimits()) in (None, frame(value))
    assert encode_plain("c1", value, frozenset(), WireLimits()) is None  # such a gateway takes text only


@pytest.mark.parametrize("value", ["x" * 2_000_000, {"a": "[{" * 40}, [1], b"x", Image(b"x"), Failure("busy", "no")])
def test_a_value_that_may_not_fit_or_is_not_plain_is_left_to_the_encoder(value: Any) -> None:
    assert encode_plain("c1", value, CAN, WireLimits()) is None


def test_a_value_that_is_nested_too_deeply_is_left_to_the_encoder() -> None:
    deep: Any = {}
    for _ in range(62):
        deep = {"a": deep}
    assert encode_plain("c1", deep, CAN, WireLimits()) == frame(deep)
    assert encode_plain("c1", {"a": deep}, CAN, WireLimits()) is None


def test_what_has_no_json_form_is_an_error() -> None:
    with pytest.raises(ToolError, match="can't be written as JSON"):
        frame(object())
    with pytest.raises(ToolError, match="can't answer later"):
        frame(Pending())


def test_what_is_nested_too_deeply_is_an_error_here_and_not_silence_there() -> None:
    deep: Any = "x"
    for _ in range(70):
        deep = [deep]
    with pytest.raises(ToolError, match="flatter form"):
        frame(deep)
    assert isinstance(frame([[1]]), ResultFrame)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("x", "x"),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ({1: 2}, {"1": 2}),
        (7, 7),
        (True, True),
        (None, None),
    ],
)
def test_plain_data_is_the_output_as_it_is(value: Any, output: Json) -> None:
    assert frame(value) == ResultFrame(id="c1", output=output)


def test_brackets_in_a_text_are_no_levels() -> None:
    assert frame({"a": "[{" * 40}) == ResultFrame(id="c1", output={"a": "[{" * 40})


def test_a_result_may_be_as_deep_as_a_frame_and_not_deeper() -> None:
    deep: Any = {}
    for _ in range(62):
        deep = {"a": deep}
    assert frame(deep) == ResultFrame(id="c1", output=deep)
    with pytest.raises(ToolError, match="flatter form"):
        frame({"a": deep})


def test_what_is_too_large_without_parts_is_an_error() -> None:
    with pytest.raises(ToolError, match="too large to be sent"):
        frame("x" * 2_000_000, frozenset(("resume",)))


@pytest.mark.parametrize(
    ("value", "output"),
    [("text", "text"), ({"a": [1]}, {"a": [1]}), (None, None), (7, 7), (ToolCallResult.Success({"b": 2}), {"b": 2})],
)
def test_json_is_sent_as_it_is(value: Any, output: Any) -> None:
    assert frame(value) == ResultFrame(id="c1", output=output)


def test_failures_keep_their_words_and_codes() -> None:
    assert frame(Failure("busy", "later")) == FailureFrame(id="c1", error="later", code="busy")
    assert frame(ToolCallResult.Failure("unknown tool")) == FailureFrame(id="c1", error="unknown tool")
    assert frame(ToolCallResult.Failure("no", "auth_required")) == FailureFrame(
        id="c1", error="no", code="auth_required"
    )


def test_images_and_bytes_come_as_parts() -> None:
    image = frame(Image(b"picture", "image/jpeg", "me.jpg"))
    assert isinstance(image, ResultFrame)
    (part,) = image.parts
    assert (part.kind, part.media_type, part.name, b64decode(part.data)) == (
        "image",
        "image/jpeg",
        "me.jpg",
        b"picture",
    )
    file = frame(b"bytes")
    assert isinstance(file, ResultFrame)
    assert [(one.kind, one.media_type) for one in file.parts] == [("file", "application/octet-stream")]


def test_words_and_pictures_may_come_together() -> None:
    one = frame(["a caption", Image(b"picture")])
    assert isinstance(one, ResultFrame)
    assert (one.output, len(one.parts)) == ("a caption", 1)
    several = frame([1, 2, bytearray(b"x")])
    assert isinstance(several, ResultFrame)
    assert (several.output, len(several.parts)) == ([1, 2], 1)
    success = frame(Success({"a": 1}, (Attachment("audio", "audio/wav", b"beep"),)))
    assert isinstance(success, ResultFrame)
    assert (success.output, [part.kind for part in success.parts]) == ({"a": 1}, ["audio"])


def test_what_is_kept_already_is_named() -> None:
    kept = frame(Attachment("file", "text/plain", artifact=ArtifactRef("a7", 3)))
    assert isinstance(kept, ResultFrame)
    assert [part.artifact for part in kept.parts] == ["a7"]


def test_large_ones_are_uploaded_and_small_ones_too_when_they_are_many() -> None:
    store = Uploads()
    large, small = b"x" * (MAX_INLINE + 1), b"y" * (MAX_INLINE // 2)
    sent = frame([Image(large, name="big.png"), small, small, small], store=store)
    assert isinstance(sent, ResultFrame)
    assert [bool(part.artifact) for part in sent.parts] == [True, False, False, True]
    assert store.uploads == [(large, "image/png", "big.png"), (small, "application/octet-stream", "")]


def test_an_output_that_no_message_can_hold_becomes_a_file() -> None:
    store = Uploads()
    text = frame("x" * 2_000_000, store=store)
    data = frame(["y" * 2_000_000], store=store)
    assert isinstance(text, ResultFrame)
    assert isinstance(data, ResultFrame)
    assert text.output == "The result has 2000000 bytes and came as the file 'result.txt'."
    assert [(len(one), media_type, name) for one, media_type, name in store.uploads] == [
        (2_000_000, "text/plain", "result.txt"),
        (2_000_004, "application/json", "result.json"),
    ]
    assert [part.artifact for part in (*text.parts, *data.parts)] == ["a1", "a2"]


def test_a_gateway_that_takes_text_alone_gets_text() -> None:
    nothing: frozenset[str] = frozenset()
    assert frame({"a": 1}, nothing) == ResultFrame(id="c1", output='{"a":1}')
    said = frame(["caption", Image(b"x"), Image(b"y")], nothing)
    assert said == ResultFrame(
        id="c1", output="caption\n(2 attachments could not be sent: this gateway takes text alone.)"
    )
    assert frame(Image(b"x"), nothing) == ResultFrame(
        id="c1", output="(1 attachment could not be sent: this gateway takes text alone.)"
    )


# Uploading.


class _Place(http.server.BaseHTTPRequestHandler):
    """Takes uploads and remembers them."""

    answer: ClassVar[tuple[int, bytes]] = (201, b'{"id": "a1"}')
    taken: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append((self.path, dict(self.headers), body))
        status, text = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""


@contextmanager
def place(status: int, text: bytes) -> Iterator[tuple[Address, list[tuple[str, dict[str, str], bytes]]]]:
    kind = type("Place", (_Place,), {"answer": (status, text), "taken": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Address(f"http://127.0.0.1:{server.server_port}/hands"), kind.taken  # type: ignore[attr-defined] # set above
        finally:
            server.shutdown()
            thread.join(timeout=60)


def test_an_upload_without_a_server_is_a_network_error() -> None:
    with pytest.raises(ToolError, match="could not be uploaded") as caught:
        upload(GatewayPlace(Address("http://127.0.0.1:1"), ""), b"x", "text/plain", "")
    assert caught.value.code == "network_error"


def test_a_refusal_is_told_in_the_gateways_words_without_the_token() -> None:
    with place(413, b'{"error": "too large"}') as (address, _), pytest.raises(ToolError, match="too large") as caught:
        upload(GatewayPlace(address, "secret"), b"x", "text/plain", "")
    assert "secret" not in str(caught.value)
    with place(200, b"<html>") as (address, _), pytest.raises(ToolError, match="is it a gateway"):
        upload(GatewayPlace(address, ""), b"x", "text/plain", "")


def test_bytes_go_to_the_gateway_with_the_token_type_and_name() -> None:
    stored = {"id": "a9", "size": 3, "media_type": "image/png", "name": "a b.png"}
    with place(201, msgspec.json.encode(stored)) as (address, taken):
        assert upload(GatewayPlace(address, "secret"), b"abc", "image/png", "a b.png") == "a9"
    ((path, headers, body),) = taken
    assert (path, body) == ("/hands/api/artifacts?name=a+b.png", b"abc")
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer secret", "image/png")
