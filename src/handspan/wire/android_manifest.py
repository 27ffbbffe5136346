"""The manifest of an Android app, which is binary XML, as far as CETP needs it (cetp.md 7.1)."""

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.core.errors import WireError

ACTION: Final = "com.clawseed.action.TOOL_PROVIDER"
_AUTHORITY: Final = "com.clawseed.tools.authority"
_VERSION: Final = "com.clawseed.tools.version"

_XML, _STRINGS, _IDS, _START, _END = 0x0003, 0x0001, 0x0180, 0x0102, 0x0103
"""The kinds of the parts of a file: all of it, its strings, the numbers of attributes, begin and end of an element."""
_NAME_ID, _VALUE_ID = 0x01010003, 0x01010024
"""The numbers that Android has given to the attributes `android:name` and `android:value`."""
_UTF8: Final = 0x100
"""The flag of strings that are UTF-8; others are UTF-16."""
_REFERENCE, _STRING, _FIRST_INT, _LAST_INT = 0x01, 0x03, 0x10, 0x1F
"""The kinds of an attribute's value."""
_NONE: Final = 0xFFFFFFFF
"""In place of a string's number: there is no string."""

_Attributes: TypeAlias = dict[str, str | int | None]
"""A value is None where it is a resource of the app, which stands in another file."""


class ToolDeclaration(Struct, frozen=True):
    """The meta-data of a service that declares tools."""

    authority: str
    """Empty: it is missing, or a resource."""
    version: str
    """As it is written; `1` when it is missing."""


def read_declaration(data: bytes) -> ToolDeclaration | None:
    """Return what the first service with our action declares; None when there is none. Raises `WireError`."""
    try:
        return _find_declaration(data)
    except (struct.error, IndexError, ValueError) as error:
        raise WireError(f"It is no manifest of Android: {error}.") from None


def _find_declaration(data: bytes) -> ToolDeclaration | None:
    """Return what the app declares of its tools; None if it declares none."""
    metadata: _Attributes = {}
    is_ours = False
    for element, attributes in _elements(data):
        name = attributes.get("name") if attributes is not None else None
        if element == "service" and attributes is not None:
            metadata, is_ours = {}, False
        elif element == "service":
            if is_ours:
                return _declaration(metadata)
        elif element == "action":
            is_ours = is_ours or name == ACTION
        elif element == "meta-data" and attributes is not None and isinstance(name, str):
            metadata[name] = attributes.get("value")
    return None


def _declaration(metadata: _Attributes) -> ToolDeclaration:
    authority, version = metadata.get(_AUTHORITY), metadata.get(_VERSION, 1)
    return ToolDeclaration(authority if isinstance(authority, str) else "", str(version))


def _elements(data: bytes) -> Iterator[tuple[str, _Attributes | None]]:
    """Yield each element where it begins, and again without attributes where it ends."""
    kind, _, size = _header(data, 0)
    if kind != _XML:
        raise ValueError("it is no binary XML")
    strings: list[str] = []
    ids: list[int] = []
    at = 8
    while at + 8 <= min(size, len(data)):
        kind, header, size_here = _header(data, at)
        if size_here < 8:
            raise ValueError("a part of it has no size")
        if kind == _STRINGS:
            strings = _read_strings(data, at)
        elif kind == _IDS:
            ids = list(struct.unpack_from(f"<{(size_here - header) // 4}I", data, at + header))
        elif kind == _START:
            name, attributes = _read_start(data, at + header, strings, ids)
            yield name, attributes
        elif kind == _END:
            yield strings[struct.unpack_from("<I", data, at + header + 4)[0]], None
        at += size_here


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the kind of the part that begins here, the size of its header, and its whole size."""
    kind, header, size = struct.unpack_from("<HHI", data, at)
    return kind, header, size


def _read_start(data: bytes, at: int, strings: list[str], ids: list[int]) -> tuple[str, _Attributes]:
    _, name, start, size, count = struct.unpack_from("<IIHHH", data, at)
    attributes: _Attributes = {}
    for number in range(count):
        _, key, raw, _, _, kind, value = struct.unpack_from("<IIIHBBI", data, at + start + number * size)
        attributes[_attribute_name(key, strings, ids)] = _read_value(kind, value, raw, strings)
    return strings[name], attributes


def _attribute_name(key: int, strings: list[str], ids: list[int]) -> str:
    """Return the name of an attribute, by its number if that is known: a shrunken app has no names."""
    number = ids[key] if key < len(ids) else 0
    return {_NAME_ID: "name", _VALUE_ID: "value"}.get(number) or strings[key]


def _read_value(kind: int, value: int, raw: int, strings: list[str]) -> str | int | None:
    if kind == _STRING:
        return strings[value]
    if _FIRST_INT <= kind <= _LAST_INT:
        return value
    return strings[raw] if raw != _NONE and kind != _REFERENCE else None


def _read_strings(data: bytes, at: int) -> list[str]:
    _, header, _, count, _, flags, start, _ = struct.unpack_from("<HHIIIIII", data, at)
    if count > len(data):
        raise ValueError("it says that it has more strings than bytes")
    offsets = struct.unpack_from(f"<{count}I", data, at + header)
    read = _read_utf8 if flags & _UTF8 else _read_utf16
    return [read(data, at + start + offset) for offset in offsets]


def _read_utf8(data: bytes, at: int) -> str:
    for _ in range(2):  # the length in characters, then in bytes
        length = data[at]
        at += 1
        if length & 0x80:
            length = (length & 0x7F) << 8 | data[at]
            at += 1
    return data[at : at + length].decode("utf-8", "replace")


def _read_utf16(data: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<H", data, at)
    at += 2
    if length & 0x8000:
        length = (length & 0x7FFF) << 16 | struct.unpack_from("<H", data, at)[0]
        at += 2
    return data[at : at + 2 * length].decode("utf-16-le", "replace")
