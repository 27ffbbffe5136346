"""What a client sends, cut into whole frames however it arrives."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from handspan.testing.proxy_link import ClientStream, frame_size, frame_text

UPGRADE = b"GET /ws/chat HTTP/1.1\r\nHost: proxy:1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


def masked(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    return bytes(Frame(opcode, data, fin).serialize(mask=True))


def upgraded() -> ClientStream:
    stream = ClientStream("gateway:2")
    stream.feed(UPGRADE)
    return stream


def test_the_host_of_a_request_becomes_that_of_the_target() -> None:
    (head,) = ClientStream("gateway:2").feed(UPGRADE)
    assert head.data == UPGRADE.replace(b"proxy:1", b"gateway:2") and head.text is None


def test_a_request_that_is_no_upgrade_has_a_connection_of_its_own() -> None:
    request = b"POST /x HTTP/1.1\r\nHost: proxy:1\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
    head, body = ClientStream("gateway:2").feed(request)
    assert head.data == b"POST /x HTTP/1.1\r\nHost: gateway:2\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    assert body.data == b"{}"


def test_a_head_waits_until_it_is_whole() -> None:
    stream = ClientStream("gateway:2")
    assert stream.feed(UPGRADE[:40]) == []
    assert len(stream.feed(UPGRADE[40:])) == 1


def test_what_never_becomes_a_head_is_passed_on_as_it_is() -> None:
    stream = ClientStream("gateway:2")
    garbage = b"\x16\x03" * 40_000
    assert [piece.data for piece in stream.feed(garbage)] == [garbage]
    assert [piece.data for piece in stream.feed(b"more")] == [b"more"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_a_text_frame_of_any_length_comes_out_whole_with_its_text(size: int) -> None:
    text = bytes(itertools.islice(itertools.cycle(b"frame "), size))
    (piece,) = upgraded().feed(masked(text))
    assert (piece.data[2:2], piece.text) == (b"", text)
    assert frame_size(piece.data) == len(piece.data)


def test_fragments_and_other_frames_have_no_text_to_repeat() -> None:
    stream = upgraded()
    frames = [masked(b"x", Opcode.BINARY), masked(b"x", fin=False), masked(b"y", Opcode.CONT), masked(b"", Opcode.PING)]
    assert [piece.text for frame in frames for piece in stream.feed(frame)] == [None] * 4


def test_a_frame_that_is_too_large_to_keep_is_passed_on_as_it_comes() -> None:
    stream, huge = upgraded(), masked(b"x" * 1_500_000)
    pieces = [piece for at in range(0, len(huge), 400_000) for piece in stream.feed(huge[at : at + 400_000])]
    assert b"".join(piece.data for piece in pieces) == huge
    assert {piece.text for piece in pieces} == {None}
    assert [piece.text for piece in stream.feed(masked(b"next"))] == [b"next"]


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_nothing_is_lost_or_changed_however_it_is_cut(texts: list[bytes], size: int) -> None:
    stream, sent = upgraded(), b"".join(masked(text) for text in texts)
    pieces = [piece for at in range(0, len(sent), size) for piece in stream.feed(sent[at : at + size])]
    assert b"".join(piece.data for piece in pieces) == sent
    assert [piece.text for piece in pieces] == texts


def test_the_text_of_an_unmasked_frame_is_read_too() -> None:
    assert frame_text(bytes(Frame(Opcode.TEXT, b"plain").serialize(mask=False))) == b"plain"
