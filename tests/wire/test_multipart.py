"""Forms with files: read piece by piece, the same however they are cut, and refused when they are no form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.wire.multipart import Multipart, PartBegin, PartData, PartEnd

KIND = "multipart/form-data; boundary=XX"


def part(data: bytes, head: bytes = b'Content-Disposition: form-data; name="file"; filename="a.txt"') -> bytes:
    return b"--XX\r\n" + head + b"\r\n\r\n" + data + b"\r\n"


def read(body: bytes, kind: str = KIND, step: int = 0) -> list[tuple[PartBegin, bytes]]:
    """The parts with their data, of a body that comes in pieces of this size."""
    form, parts, data = Multipart(kind), [], bytearray()
    began: PartBegin | None = None
    for at in range(0, len(body), step or len(body) or 1):
        for event in form.feed(body[at : at + (step or len(body))]):
            match event:
                case PartBegin():
                    assert began is None
                    began, data = event, bytearray()
                case PartData(data=more):
                    assert began is not None
                    assert more
                    data += more
                case PartEnd():
                    assert began is not None
                    parts.append((began, bytes(data)))
                    began = None
    form.end()
    assert began is None
    return parts


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "multipart/mixed; boundary=XX",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="a b "',
        "multipart/form-data; boundary=" + "x" * 71,
        "multipart/form-data; boundary=ü",
    ],
)
def test_a_request_that_names_no_form_is_refused(kind: str) -> None:
    with pytest.raises(WireError):
        Multipart(kind)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "last boundary"),
        (b"hello, this is no form at all", "begin with its boundary"),
        (b"--YY\r\n\r\n--YY--", "begin with its boundary"),
        (b"--XX\r\n", "last boundary"),
        (part(b"data"), "last boundary"),
        (part(b"data") + b"--XX\r\n", "last boundary"),
        (part(b"data")[:-2], "last boundary"),
        (part(b"data") + b"--XX-\r", "followed by"),
        (part(b"data") + b"--XXX--", "followed by"),
        (part(b"", b"Content-Type: text/plain") + b"--XX--", "Content-Disposition"),
        (part(b"", b'Content-Disposition: attachment; name="file"') + b"--XX--", "Content-Disposition"),
        (part(b"", b"Content-Disposition: form-data") + b"--XX--", "Content-Disposition"),
        (part(b"", b'Content-Disposition: form-data; name="\xff"') + b"--XX--", "UTF-8"),
        (part(b"", b"X: " + b"x" * 20_000) + b"--XX--", "more than 16384 bytes"),
        (b"--XX\r\n" + b"x" * 20_000, "more than 16384 bytes"),
        (part(b"") * 101 + b"--XX--", "more than 100 parts"),
    ],
)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_what_is_no_form_is_refused_with_a_reason(body: bytes, why: str, step: int) -> None:
    with pytest.raises(WireError, match=why):
        read(body, step=step)


def test_a_form_without_parts_is_empty() -> None:
    assert read(b"--XX--\r\n") == []


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_part_may_be_nothing_but_its_headers(step: int) -> None:
    body = b'--XX\r\nContent-Disposition: form-data; name="file"\r\n\r\n--XX--'  # RFC 2046 5.1.1
    assert read(body, step=step) == [(PartBegin("file", None, ""), b"")]


def test_what_follows_the_last_boundary_is_passed_over() -> None:
    assert [data for _, data in read(part(b"data") + b"--XX--\r\nepilogue\r\n--XX\r\n")] == [b"data"]


@given(st.lists(st.binary(max_size=60)), st.integers(1, 40))
def test_all_bytes_come_through_however_the_body_is_cut(datas: list[bytes], step: int) -> None:
    datas = [data for data in datas if b"\r\n--XX" not in b"\r\n" + data + b"\r\n"]
    body = b"".join(map(part, datas)) + b"--XX--\r\n"
    assert [data for _, data in read(body, step=step)] == datas


@pytest.mark.parametrize("data", [b"", b"\r\n", b"\r", b"x--XX", b"\r\n--X", b"\r\n-", b"\n--XX", b"\r\n\r\n--"])
@pytest.mark.parametrize("step", [0, 1, 2, 3, 5])
def test_what_looks_like_a_boundary_is_data(data: bytes, step: int) -> None:
    body = part(data) + part(b"end") + b"--XX--"
    assert [found for _, found in read(body, step=step)] == [data, b"end"]


@pytest.mark.parametrize(
    ("head", "began"),
    [
        ('form-data; name="file"; filename="a b.txt"', PartBegin("file", "a b.txt", "")),
        ("FORM-DATA; NAME=file; FileName=a.txt", PartBegin("file", "a.txt", "")),
        ('form-data; name="config"', PartBegin("config", None, "")),
        ('form-data; name="file"; filename=""', PartBegin("file", "", "")),
        ('form-data; name="file"; filename="猫 🐈.png"', PartBegin("file", "猫 🐈.png", "")),
        ('form-data; name="file"; filename="a%22b%0D%0Ac 100%41"', PartBegin("file", 'a"b\r\nc 100%41', "")),
        ('form-data; name="file"; filename="a\\"b\\\\c; x=y"', PartBegin("file", 'a"b\\c; x=y', "")),
        ('form-data; name="file"; filename="x"; filename*=UTF-8\'\'%E7%8C%AB', PartBegin("file", "猫", "")),
        ('form-data; name="file"; filename="x"; filename*=latin1\'\'%E7', PartBegin("file", "x", "")),
    ],
)
def test_a_part_says_what_it_is_called(head: str, began: PartBegin) -> None:
    ((found, _),) = read(part(b"", f"content-disposition: {head}".encode()) + b"--XX--")
    assert found == began


def test_a_part_says_what_kind_it_is() -> None:
    head = b'Content-Type: Image/PNG; x=1\r\nContent-Disposition: form-data; name="file"'
    ((found, _),) = read(part(b"", head) + b"--XX--", 'Multipart/Form-Data; charset=utf-8; boundary="XX"')
    assert found.media_type == "image/png"


def test_data_is_not_held_back() -> None:
    form = Multipart(KIND)
    list(form.feed(part(b"")[:-2]))
    given = b"x" * 100_000
    got = b"".join(event.data for event in form.feed(given) if isinstance(event, PartData))
    assert len(given) - len(got) < 10
