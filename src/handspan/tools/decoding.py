"""Decoding the bytes of a file: byte order marks, encodings, and ranges that end between two characters."""

import codecs
import shlex
from typing import Final

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.paths import quote_path

HEAD: Final = 4
"""The number of bytes at the beginning of a file that are needed to find its byte order mark."""

_EXTRA: Final = 8  # no character of any encoding is longer

# UTF-32 comes first: its little-endian mark begins with the mark of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITHOUT_MARK: Final = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
"""Encodings that a byte order mark can change → the encoding without a mark."""

# Python has these encodings, but no file uses them, and some are very slow or warn.
_NOT_FOR_FILES: Final = frozenset(("idna", "punycode", "unicode-escape", "raw-unicode-escape", "charmap"))
# Their bytes can only be decoded after all bytes before.
_WITH_MEMORY: Final = ("iso2022", "hz", "utf-7")


class TextPart(Struct, frozen=True):
    """A piece of text, and the range of the file's bytes that it comes from."""

    text: str
    start: int
    end: int


class FileEncoding(Struct, frozen=True):
    """The encoding of a file."""

    name: str
    mark: int = 0
    """Length of the byte order mark in bytes. The mark is not part of the text."""

    @property
    def has_ranges(self) -> bool:
        """Whether decoding can begin in the middle of the file."""
        return not self.name.startswith(_WITH_MEMORY)

    @property
    def unit(self) -> int:
        """Bytes of the smallest code unit."""
        return {"utf-16": 2, "utf-32": 4}.get(self.name[:6], 1)


def find_encoding(asked: str) -> str:
    """Returns Python's name of this encoding. Raises `invalid_arguments` when there is none."""
    try:
        name = codecs.lookup(asked).name
        "a".encode(name)  # fails for codecs that are not for text, such as zlib
    except (LookupError, ValueError):
        name = ""
    if not name or name.replace("_", "-") in _NOT_FOR_FILES:
        raise ToolError(
            "invalid_arguments",
            f"Unknown encoding {quote_path(asked)}. Use one such as 'utf-8', 'utf-16', 'latin-1' or 'shift_jis'.",
        )
    return name


def detect_encoding(head: bytes, asked: str) -> FileEncoding:
    """Returns the encoding of a file that begins with `head`. `asked` is a name from `find_encoding`."""
    mark, marked = next((found for found in _MARKS if head.startswith(found[0])), (b"", ""))
    if asked in _WITHOUT_MARK:
        return FileEncoding(marked or _WITHOUT_MARK[asked], len(mark))
    return FileEncoding(asked, len(mark) if marked == asked else 0)


def decode_part(data: bytes, offset: int, length: int, encoding: FileEncoding, path: str) -> TextPart:
    """Returns the text of the `length` bytes at `offset`. It is cut between two characters and has at least one.

    `data` begins at the offset and has `padded_length(length)` bytes, or fewer where the file ends.
    """
    skipped = max(encoding.mark - offset, 0) or _rest_of_character(data, offset, encoding)
    _refuse_binary(data[:length], encoding, path)
    for more in range(_EXTRA):
        is_last = length + more >= len(data)
        text, used = _decode(data[skipped : length + more], is_last, encoding, path, offset + skipped)
        if text or is_last:
            break
    return TextPart(text, offset + skipped, offset + skipped + used)


def padded_length(length: int) -> int:
    """Returns how many bytes `decode_part` needs to cut after `length` bytes."""
    return length + _EXTRA


def _decode(data: bytes, is_last: bool, encoding: FileEncoding, path: str, at: int) -> tuple[str, int]:
    decoder = codecs.getincrementaldecoder(encoding.name)("strict")
    try:
        text = decoder.decode(data, is_last)
    except UnicodeDecodeError as error:
        raise ToolError(
            "execution_failed",
            f"{quote_path(path)} is not {encoding.name} text: wrong byte at {at + error.start}. If it is text, give "
            f"its encoding, such as 'latin-1'. {_how_to_see(path)}",
        ) from None
    return text, len(data) - len(decoder.getstate()[0])


def _rest_of_character(data: bytes, offset: int, encoding: FileEncoding) -> int:
    """Returns the number of bytes that belong to a character that began before the offset."""
    if not offset:
        return 0
    if encoding.name == "utf-8":
        return next((place for place, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), len(data[:3]))
    skipped = -offset % encoding.unit
    if encoding.unit == 2:
        high = data[skipped + (1 if encoding.name == "utf-16-le" else 0) :][:1]
        skipped += 2 if b"\xdc" <= high <= b"\xdf" else 0
    return skipped


def _refuse_binary(data: bytes, encoding: FileEncoding, path: str) -> None:
    """Raises an error for binary data: like grep and git, a NUL byte means binary, except in UTF-16 and UTF-32."""
    if encoding.unit == 1 and b"\0" in data:
        raise ToolError(
            "execution_failed",
            f"{quote_path(path)} is a binary file. If it is text, give its encoding, such as 'utf-16'. "
            f"{_how_to_see(path)}",
        )


def _how_to_see(path: str) -> str:
    """Returns a command that shows the readable pieces of a binary file. It also runs where there is no sandbox."""
    command = f"grep -a -o '[[:print:]]\\{{4,\\}}' -- {shlex.quote(path)}"
    return f"To see the readable pieces of a binary file, use exec_shell with the command: {command}"
