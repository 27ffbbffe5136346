"""The text of a response body, if it is text."""

import codecs
import re
from typing import Final

from handspan.core.late_imports import charset_normalizer

# Patterns as text: `re` compiles them at their first use and caches them.
_TEXT_TYPES: Final = (
    r"text/.*|.*\+(json|xml)|application/(json|xml|javascript|ecmascript|x-javascript|x-www-form-urlencoded|yaml|x-yaml"
    r"|toml|graphql|sql|x-ndjson|ndjson|jsonlines|x-sh|rtf|jwt|problem\+json)|image/svg\+xml"
)
_UNDECLARED_TYPES: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
_CHARSET: Final = r"(?i);\s*charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})"
_META_CHARSET: Final = rb"(?i)<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})"
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The charsets of pages. Python knows more codecs; some of them are slow (idna), others are no charsets (zip).
_CHARSETS: Final = (
    frozenset({"ascii", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"})
    | {"gb2312", "gbk", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "cp932", "euc_kr", "cp949"}
    | {"koi8-r", "koi8-u", "cp866", "cp874", "mac-roman", "tis-620"}
    | {f"cp125{digit}" for digit in range(9)}
    | {f"iso8859-{part}" for part in range(1, 17)}
)
# Browsers read these labels as the code page of Windows, because that is what pages with them use.
_BROWSER_CHARSETS: Final = {"ascii": "cp1252", "iso8859-1": "cp1252"}
_SAMPLE: Final = 65_536


def media_type_of(content_type: str) -> str:
    """Return `text/html` for `Text/HTML; charset=…`."""
    return content_type.partition(";")[0].strip().lower()


def decode_text(body: bytes, content_type: str) -> str | None:
    """Return the body as text; None if it is not text, such as an image or an archive."""
    media_type = media_type_of(content_type)
    is_text = re.fullmatch(_TEXT_TYPES, media_type) is not None
    if not is_text and media_type not in _UNDECLARED_TYPES:
        return None
    charset = _declared_charset(body, content_type)
    if charset is None:
        if b"\0" in body[:_SAMPLE]:
            return None
        charset = _guess_charset(body, is_text=is_text)
    return None if charset is None else body.decode(charset, "replace").removeprefix("\ufeff")


def _declared_charset(body: bytes, content_type: str) -> str | None:
    """Return the charset by byte order mark, header or `<meta>`, in this order."""
    for mark, charset in _BOMS:
        if body.startswith(mark):
            return charset
    if found := re.search(_CHARSET, content_type):
        return _known_charset(found[1])
    if "html" in content_type.lower() and (in_page := re.search(_META_CHARSET, body[:2048])):
        label = _known_charset(in_page[1].decode("ascii"))
        # This declaration was read as bytes, so the page is not in 16-bit or 32-bit units, whatever it says.
        return "utf-8" if label and label.startswith(("utf-16", "utf-32")) else label
    return None


def _known_charset(label: str) -> str | None:
    """Return Python's name of the charset that browsers use for this label; None if pages do not use it."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return _BROWSER_CHARSETS.get(name, name) if name in _CHARSETS else None


def _guess_charset(body: bytes, *, is_text: bool) -> str | None:
    """Return UTF-8 if the bytes are valid UTF-8; else a guess by the letters; else None if it may not be text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # not final: the body may end inside a character
    except UnicodeDecodeError:
        return (_likely_charset(body) or "cp1252") if is_text else None
    return "utf-8"


def _likely_charset(body: bytes) -> str | None:
    best = charset_normalizer.from_bytes(body[:_SAMPLE]).best()
    return _known_charset(best.encoding) if best is not None else None
