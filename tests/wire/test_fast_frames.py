"""Whole text messages past the library, everything else to it, wherever the bytes are cut (RFC 6455, 5.2)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from handspan.wire.fast_frames import masked_text, split_masked_texts, text_frame
from handspan.wire.frame_splitter import FrameSplitter
from tests.client.raw import frame

LIMIT = 1000
MASK = b"\x01\x80\xff\x7f"


def read_by_library(data: bytes, side: Protocol) -> list[tuple[Opcode, bool, bytes]]:
    side.receive_data(data)
    return [(one.opcode, one.fin, bytes(one.data)) for one in side.events_received() if isinstance(one, Frame)]


def read(pieces: list[bytes], limit: int = LIMIT) -> tuple[list[tuple[Opcode, bool, bytes]], Protocol]:
    """What is heard of these bytes: messages from the cutter, the rest from the library behind it."""
    cutter, library = FrameSplitter(limit), Protocol(CLIENT, max_size=limit)
    heard: list[tuple[Opcode, bool, bytes]] = []
    for piece in pieces:
        for is_message, data in cutter.split(piece):
            heard += [(Opcode.TEXT, True, data)] if is_message else read_by_library(data, library)
    return heard, library


frames = st.lists(
    st.one_of(
        st.binary(max_size=300).map(frame),
        st.sampled_from([126, 127, 0x7E81, 0x81]).map(lambda size: frame(b"\x81" * min(size, LIMIT))),
        st.tuples(st.binary(max_size=20), st.binary(max_size=20), st.binary(max_size=20)).map(
            lambda three: (
                frame(three[0], fin=False)
                + frame(three[1], Opcode.CONT, fin=False)
                + frame(b"?", Opcode.PING)
                + frame(three[2], Opcode.CONT)
            )
        ),
        st.binary(max_size=100).map(lambda data: frame(data, Opcode.BINARY)),
        st.binary(max_size=100).map(lambda data: frame(data, Opcode.PONG)),
    ),
    max_size=6,
)


@given(frames=frames, cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_wherever_the_bytes_are_cut_the_same_is_heard_as_by_the_library_alone(
    frames: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(places)]
    heard, _ = read(pieces)
    assert heard == read_by_library(data, Protocol(CLIENT, max_size=LIMIT))


def test_a_size_that_looks_like_a_frame_is_not_taken_for_one() -> None:
    size = 0x8103  # behind a header that came alone, its bytes read like the beginning of another frame
    data = frame(b"x" * size)
    heard, _ = read([data[:2], data[2:]], limit=size)
    assert heard == [(Opcode.TEXT, True, b"x" * size)]


def test_byte_by_byte_it_is_the_same() -> None:
    data = frame(b"one") + frame(b"t" * 200) + frame(b"!", Opcode.PING) + frame(b"") + frame(b"three")
    heard, library = read([data[at : at + 1] for at in range(len(data))])
    assert [payload for _, _, payload in heard] == [b"one", b"t" * 200, b"!", b"", b"three"]
    assert len(library.data_to_send()) == 1  # the pong


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"x" * (LIMIT + 1)), 1009),
        (frame(b"x" * 70_000), 1009),
        (masked_text(b"masked", MASK), 1002),
        (frame(b"begun", fin=False) + frame(b"whole"), 1002),
        (frame(b"goes on", Opcode.CONT), 1002),
        (b"\xc1\x00", 1002),
        (b"\x83\x00", 1002),
    ],
)
def test_what_is_wrong_is_left_to_the_library_which_refuses_it(data: bytes, code: int) -> None:
    heard, library = read([frame(b"before"), data + b"\x81" * 20, frame(b"after")])
    assert library.close_sent is not None
    assert library.close_sent.code == code
    assert heard[0] == (Opcode.TEXT, True, b"before")
    assert not [one for one in heard if one[2] == b"whole"]


def test_nothing_large_is_kept() -> None:
    cutter = FrameSplitter(1 << 24)
    data = frame(b"x" * 1_000_000)
    assert cutter.split(data[:1000]) == [(False, data[:1000])]
    assert cutter.split(data[1000:]) == [(False, data[1000:])]
    assert cutter.split(frame(b"next")) == [(True, b"next")]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_what_is_written_is_read_by_a_server(size: int) -> None:
    payload = (b"abcdefg" * (size // 7 + 1))[:size]
    written = masked_text(payload, MASK)
    assert read_by_library(written, Protocol(SERVER, max_size=None)) == [(Opcode.TEXT, True, payload)]
    if size > 4:
        assert payload not in written


# The gateway's side: what clients send is masked.


def masked(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    """A frame as a client sends it, with a mask that looks like the beginning of a frame."""
    plain = frame(data, opcode, fin=fin)
    header = plain[: len(plain) - len(data)]
    body = bytes(byte ^ MASK_LIKE_A_FRAME[place % 4] for place, byte in enumerate(data))
    return header[:1] + bytes((header[1] | 0x80,)) + header[2:] + MASK_LIKE_A_FRAME + body


MASK_LIKE_A_FRAME = b"\x81\x84\x81\x80"


def read_as_gateway(pieces: list[bytes], limit: int = LIMIT) -> tuple[list[tuple[Opcode, bool, bytes]], Protocol]:
    """As the gateway's connection does it: whole messages first, then a cutter for as long as one is needed."""
    cutter, library = None, Protocol(SERVER, max_size=limit)
    heard: list[tuple[Opcode, bool, bytes]] = []
    for piece in pieces:
        rest = piece
        if cutter is None:
            messages, at = split_masked_texts(piece, limit)
            heard += [(Opcode.TEXT, True, message) for message in messages]
            rest = piece[at:]
        if rest:
            cutter = cutter or FrameSplitter(limit, masked=True)
            for is_message, data in cutter.split(rest):
                heard += [(Opcode.TEXT, True, data)] if is_message else read_by_library(data, library)
            cutter = None if cutter.is_between_messages else cutter
    return heard, library


masked_frames = st.lists(
    st.one_of(
        st.binary(max_size=300).map(masked),
        st.sampled_from([125, 126, 127, 0x81, LIMIT]).map(lambda size: masked(b"\x81" * size)),
        st.tuples(st.binary(max_size=20), st.binary(max_size=20)).map(
            lambda two: masked(two[0], fin=False) + masked(b"?", Opcode.PING) + masked(two[1], Opcode.CONT)
        ),
        st.binary(max_size=100).map(lambda data: masked(data, Opcode.BINARY)),
    ),
    max_size=6,
)


@given(frames=masked_frames, cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_the_gateway_hears_the_same_wherever_the_bytes_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    heard, _ = read_as_gateway([data[begin:end] for begin, end in itertools.pairwise(places)])
    assert heard == read_by_library(data, Protocol(SERVER, max_size=LIMIT))


def test_a_mask_that_looks_like_a_frame_is_not_taken_for_one() -> None:
    data = masked(b"four") + masked(b"more")
    for at in range(1, len(data)):
        heard, _ = read_as_gateway([data[:at], data[at:]])
        assert [payload for _, _, payload in heard] == [b"four", b"more"]


def test_a_frame_without_a_mask_is_refused_by_the_library() -> None:
    _, library = read_as_gateway([masked(b"before"), frame(b"bare"), masked(b"after")])
    assert library.close_sent is not None
    assert library.close_sent.code == 1002


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_what_the_gateway_writes_is_read_by_a_client(size: int) -> None:
    assert read_by_library(text_frame(b"x" * size), Protocol(CLIENT, max_size=None)) == [
        (Opcode.TEXT, True, b"x" * size)
    ]
