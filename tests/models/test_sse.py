"""Server-sent events: the same events come out, however the bytes were cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.models.sse import SseEvent, SseReader


def read(raw: bytes, *cuts: int) -> list[SseEvent]:
    """What a reader makes of these bytes, fed in pieces that end at the cuts."""
    reader, events, start = SseReader(), [], 0
    for cut in (*sorted(cuts), len(raw)):
        events += reader.feed(raw[start:cut])
        start = cut
    return events + reader.close()


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    reader = SseReader(max_event_bytes=1000)
    with pytest.raises(WireError, match="longer than 1000 bytes"):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 50)


def test_many_lines_of_one_event_count_together() -> None:
    reader = SseReader(max_event_bytes=1000)
    with pytest.raises(WireError):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 50 + b"\n")


def test_what_is_not_kept_is_not_counted() -> None:
    reader = SseReader(max_event_bytes=100)
    for _ in range(100):
        assert reader.feed(b": keep-alive\nid: 1\nevent: x\n") == []
    assert reader.feed(b"data: 1\n\n") == [("x", "1")]


@pytest.mark.parametrize("cut", [b'data: {"a": 1', b'data: {"a":\ndata: 1', b'event: x\ndata: {"a', b"da", b"event: x"])
def test_an_event_that_is_cut_off_is_dropped(cut: bytes) -> None:
    assert read(b"data: 1\n\n" + cut) == [("", "1")]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n", b"\n\n"])
@pytest.mark.parametrize("data", ["[DONE]", '{"a": 1}'])
def test_a_last_event_needs_no_blank_line(data: str, end: bytes) -> None:
    assert read(f"data: {data}".encode() + end) == [("", data)]


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b": comment\n\ndata: 1\n\n", [("", "1")]),
        (b"event: x\n\ndata: 1\n\n", [("", "1")]),
        (b"event: x\ndata: 1\n\ndata: 2\n\n", [("x", "1"), ("", "2")]),
        (b"data:1\ndata:  2\ndata\n\n", [("", "1\n 2\n")]),
        (b"data: 1\r\n\r\ndata: 2\r\rdata: 3\n\n", [("", "1"), ("", "2"), ("", "3")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [("", "1")]),
        (b"retry: 5\nid: 7\nunknown: x\ndata: 1\n\n", [("", "1")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"data: a: b\n\n", [("", "a: b")]),
    ],
)
def test_fields_are_read_as_the_standard_says(raw: bytes, events: list[SseEvent]) -> None:
    assert read(raw) == events


def test_lines_of_bare_json_are_events_too() -> None:
    assert read(b'{"a": 1}\n{"b": "x: y"}\r\n{"c"') == [("", '{"a": 1}'), ("", '{"b": "x: y"}')]


names = st.sampled_from(["", "message_start", "déjà"])
lines = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
ends = st.sampled_from(["\n", "\r", "\r\n"])


@given(st.lists(st.tuples(names, st.lists(lines, min_size=1, max_size=3)), max_size=4), ends, st.data())
def test_no_cut_changes_what_is_read(sent: list[tuple[str, list[str]]], end: str, data: st.DataObject) -> None:
    raw = b"".join(
        "".join(
            [f"event: {name}{end}" if name else "", *(f"data: {line}{end}" for line in parts), f": note{end}", end]
        ).encode()
        for name, parts in sent
    )
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    expected = [(name, "\n".join(parts)) for name, parts in sent]
    assert read(raw, *cuts) == expected
    assert read(raw, *range(len(raw))) == expected
