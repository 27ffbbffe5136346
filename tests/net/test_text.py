"""Bytes to text: by mark, by declaration, by looks; and what is not text at all."""

import pytest

from handspan.net.text import decode_text, media_type_of


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04\x00\x00", "application/zip"),
        (b"PK\x03\x04\x00\x00", "application/octet-stream"),
        (b"PK\x03\x04\x00\x00", ""),
        (b"\xff\xfb\x90", ""),
        (b"a\x00b", "text/plain"),
    ],
)
def test_what_is_not_text_is_not_decoded(body: bytes, content_type: str) -> None:
    assert decode_text(body, content_type) is None


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"hello", "text/plain", "hello"),
        ("grüß".encode(), "text/plain", "grüß"),
        ("grüß".encode(), "", "grüß"),
        ("grüß".encode(), "application/octet-stream", "grüß"),
        ('{"a":"ü"}'.encode(), "application/json", '{"a":"ü"}'),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        ("grüß".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grüß"),
        ("10 €".encode("cp1252"), 'text/plain;charset="latin1"', "10 €"),
        ("привет".encode("koi8-r"), "text/plain; charset=KOI8-R", "привет"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        ("日本".encode("utf-16"), "text/plain", "日本"),
        ("日本".encode("utf-32"), "text/plain", "日本"),
        ("\ufeffx".encode(), "text/plain; charset=latin-1", "x"),
        ("日本".encode("utf-16-le"), "text/plain; charset=utf-16le", "日本"),
        ('<meta charset="gbk">中文'.encode("gbk"), "text/html", '<meta charset="gbk">中文'),
        ('<meta charset="utf-16">ü'.encode(), "text/html", '<meta charset="utf-16">ü'),
        (b'<meta charset="nonsense">x', "text/html", '<meta charset="nonsense">x'),
        ("grüß".encode(), "text/plain; charset=idna", "grüß"),
        ("grüß".encode(), "text/plain; charset=zip", "grüß"),
        ("grüß".encode(), "text/plain; charset=no-such-thing", "grüß"),
        ("grüß ü".encode()[:-1], "text/plain", "grüß \ufffd"),
        (b"\xe9", "text/plain; charset=utf-8", "\ufffd"),
    ],
)
def test_text_is_read_by_its_mark_its_declaration_or_as_utf_8(body: bytes, content_type: str, text: str) -> None:
    assert decode_text(body, content_type) == text


def test_text_that_says_nothing_and_is_not_utf_8_is_read_by_its_looks() -> None:
    russian = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 20
    assert decode_text(russian.encode("cp1251"), "text/plain") == russian


def test_a_few_letters_without_any_hint_are_still_text() -> None:
    assert decode_text(b"\x80\x81\xfe\xff\xe9 x", "text/plain") is not None


def test_a_media_type_is_plain() -> None:
    assert media_type_of("Text/HTML; charset=x") == "text/html"
