"""Texts on both sides of the border of JSON (RFC 8259), one for each way to be right or wrong.

By the parts of the grammar: `_each` puts a part in the places where it may stand.
"""

from collections.abc import Iterable
from typing import Final


def _each(parts: Iterable[bytes], *frames: bytes) -> list[bytes]:
    return [frame.replace(b"@", part) for part in parts for frame in frames]


_NUMBERS: Final = (
    rb"0 -0 7 -7 40 0.5 -0.5 10.25 2e3 2E3 2e+3 2E-3 0e1 0e+1 6.5e7 -6.5E-7 0.000000000000000000001".split()
)
_BEYOND_FLOATS: Final = rb"1e-400 -98765432109876543210987654321 98765432109876543210987654321".split()
_ESCAPES: Final = (
    rb"\" \\ \/ \b \f \n \r \t \u0000 \u000a \u0022 \u005C \u00e9 \u200B \uFFFF \ufdd0 \\u0000 \\n".split()
)
_PAIRS: Final = rb"\ud83c\udf31 \uDBFF\uDFFF \uD800\udc00 \ud83c\udf31\ud83c\udf31".split()
_LETTERS: Final = ["a", "\x7f", "é", "π", "ク", "\u2028", "\u2029", "\ufffe", "\uffff", "🌱", "\U0010ffff", "/*a*/ //b"]

TAKEN: Final = [
    *_each([*_NUMBERS, *_BEYOND_FLOATS, b"true", b"false", b"null", b'""', b'" "'], b"@", b"[@]", b'{"a":@}'),
    *_each(_ESCAPES, b'"@"', b'{"@":1}'),
    *_each(_PAIRS, b'["a@b"]', b'{"@":1}'),
    *_each([letter.encode() for letter in _LETTERS], b'"@"', b'{"@":[]}'),
    *_each([b" ", b"\t", b"\r\n"], b"@[@1@,@2@]@", b'@{@"a"@:@{@}@}@'),
    *[b"[]", b"{}", b"[[],[[]],{}]", b'[null,1,"1",{"":0},[2]]', b'{"a":{"b":[{"c":[]}]},"d":{}}'],
    b'{"long":"' + b"x" * 500 + b'"}',
]

_BAD_NUMBERS: Final = [
    *rb"+1 ++1 01 -01 00 -007 1. -1. .5 -.5 .e1 0.e1 1.e+3 1e 1E 1e+ 1E- 1.5e 1eE2 1e+-1 1e1.5 1.2.3".split(),
    *rb"- -- 1-2 1+2 0x1 0b1 1_000 1e5x 1.2a-3 -x 1x NaN -NaN Inf +Inf Infinity -Infinity 1e999 -1e999".split(),
    *["１".encode(), b"- 1", b"1 000", b"1\xe5", b"1e\xe5"],
]
_BAD_WORDS: Final = [
    *rb"tru fals nul True NULL nulll truefalse a undefined * <a> 'a' `a` \n \u0020".split(),
    *["é".encode(), "\u2060".encode(), b"\xe5", b"\x00", b"\x0b", b"\x0c"],
]
_BAD_IN_TEXTS: Final = [
    *[
        rb"\a",
        rb"\x41",
        rb"\U0041",
        rb"\u",
        rb"\u1",
        rb"\u00e",
        rb"\uzzzz",
        rb"\ud800\u",
        rb"\ud800\u1",
        rb"\ud834\udd",
        b"\\",
    ],
    *[rb"\ud800", rb"\udfaa", rb"\ud800\n", rb"\ud800a", rb"\ud888\u1234", rb"\udd1e\ud834", rb"\ud800\ud800"],
    *[b"\x00", b"\x1f", b"\t", b"\n", b"\\\t", b"\\\x00", "\\🌱".encode(), b"\\\xe5", b"\\u\xe5"],
    *[
        b"\xff",
        b"\xe9",
        b"\x81",
        b"\xe0\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\xbf\xbf\xbf",
        b"\xfc\x83\xbf\xbf\xbf\xbf",
    ],
]
_BAD_STRUCTURE: Final = [
    *rb"""[ ] { } [1 [1, [, [,] [,1] [1,] [1,,2] [1,,] [1]] [1]2 [1][2] [1[2]] [1:2] ["a":1] ["a ["a" [" [{ [{}
    {] {[ {, {"a {"a" {"a": {"a":1 {"a":1, {"a":1,} {"a":1,,} {"a":1}} {"a":1}2 {"a"} {"a",1} {"a"::1} {"a"1}
    {"a":1"b":2} {:1} {a:1} {1:1} {1e999:1} {null:1} {'a':1} {[]:1} {"a":1,"b"} {"a":1,,"b":2} , : "
    ' "a"x ""x 1] 1} 2@ abc {"a":1}# {"a":1}/ {"a":1}// {"a":1}/**/ {"a":/**/1} [1//a] #[1]""".split(),
    *[
        b"",
        b" ",
        b"[1 2]",
        b"[1 true]",
        b'["a" "b"]',
        b'["a", 1\n,',
        b"[ false, nul",
        b"{\xf0\x9f\x8c\xb1}",
        b"1\x00",
        b"[1]\x00",
    ],
]
_OTHER_ENCODINGS: Final = [
    '["é"]'.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig")
]

REFUSED: Final = [
    *_each([*_BAD_NUMBERS, *_BAD_WORDS], b"@", b"[@]", b'{"a":@}', b"[1, @]"),
    *_each(_BAD_IN_TEXTS, b'"@"', b'["a@"]', b'{"@":1}'),
    *_BAD_STRUCTURE,
    *_OTHER_ENCODINGS,
    *[b"\xef\xbb\xbf", b"\xef\xbb{}", b"\xef\xbb\xbf{}"],
    *[b"[" * 500 + b"]" * 500, b"[" * 100_000, b'[{"":' * 50_000, b'["\\{' * 100],
    *[b'{"a":1,"a":2}', b'{"a":1,"a":1}'],
]
