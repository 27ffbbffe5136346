"""Decoding the bytes of a file: byte order marks and encodings."""

import codecs
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.paths import quote_path
from handspan.tools.workspace import OpenedFile

HEAD: Final = 4
"""The number of bytes at the beginning of a file that are needed to find its byte order mark."""

_CHUNK: Final = 256 * 1024

# UTF-32 comes first: its little-endian mark begins with the mark of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITHOUT_MARK: Final = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
"""For each encoding that a byte order mark can replace: the encoding of a file without a mark."""

# Python has these encodings, but no file uses them, and some are very slow or warn.
_NOT_FOR_FILES: Final = frozenset(("idna", "punycode", "unicode-escape", "raw-unicode-escape", "charmap"))


class FileEncoding(Struct, frozen=True):
    """The encoding of a file."""

    name: str
    mark: int = 0
    """Length of the byte order mark in bytes. The mark is not part of the text."""

    @property
    def unit(self) -> int:
        """Bytes of the smallest code unit."""
        return {"utf-16": 2, "utf-32": 4}.get(self.name[:6], 1)


def find_encoding(asked: str) -> str:
    """Return Python's name of this encoding. Raises `invalid_arguments` for an unknown encoding."""
    try:
        name = codecs.lookup(asked).name
        "a".encode(name)  # fails for codecs that are not for text, such as zlib
    except (LookupError, ValueError):
        name = ""
    if not name or name.replace("_", "-") in _NOT_FOR_FILES:
        text = f"Unknown encoding {quote_path(asked)}. Use one such as 'utf-8', 'utf-16', 'latin-1' or 'shift_jis'."
        raise ToolError("invalid_arguments", text)
    return name


def detect_encoding(head: bytes, asked: str) -> FileEncoding:
    """Return the encoding of a file that begins with `head`. `asked` is a name from `find_encoding`."""
    mark, marked = next((found for found in _MARKS if head.startswith(found[0])), (b"", ""))
    if asked in _WITHOUT_MARK:
        return FileEncoding(marked or _WITHOUT_MARK[asked], len(mark))
    return FileEncoding(asked, len(mark) if marked == asked else 0)


def is_utf8(chunks: Iterable[bytes]) -> bool:
    """Whether these bytes are UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    try:
        for chunk in chunks:
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def decode_chunks(file: OpenedFile, encoding: FileEncoding, path: str) -> Iterator[str]:
    """Yield the text of the whole file in pieces. Raises `execution_failed` at bytes that are not text."""
    decoder = codecs.getincrementaldecoder(encoding.name)("strict")
    at = encoding.mark
    while True:
        data = file.read(at, _CHUNK)
        if encoding.unit == 1 and b"\0" in data:  # as for grep and git, a NUL byte means binary
            text = f"{quote_path(path)} is a binary file. If it is text, give its encoding, such as 'utf-16'."
            raise ToolError("execution_failed", f"{text} {_how_to_see(path)}")
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=len(data) < _CHUNK)
        except UnicodeDecodeError as error:
            raise ToolError(
                "execution_failed",
                f"{quote_path(path)} is not {encoding.name} text: wrong byte at {at - pending + error.start}. If it is "
                f"text, give its encoding, such as 'latin-1'. {_how_to_see(path)}",
            ) from None
        yield text
        if len(data) < _CHUNK:
            return
        at += len(data)


def _how_to_see(path: str) -> str:
    """Return a sentence with a command that shows the readable pieces of a binary file, even without a sandbox."""
    command = f"grep -a -o '[[:print:]]\\{{4,\\}}' -- {shlex.quote(path)}"
    return f"To see the readable pieces of a binary file, use exec_shell with the command: {command}"
