"""Reads bodies of the type multipart/form-data (RFC 7578) piece by piece, so no file is held in memory. No sockets."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from handspan.core.errors import WireError

_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(r';\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_MAX_PARTS: Final = 100
_LONGEST_HEAD: Final = 16 * 1024
_CUT_OFF: Final = "The form ends before its last boundary: send all of it."


class PartBegin(Struct, frozen=True):
    """A part begins. These are its headers."""

    name: str
    file_name: str | None
    """None: the part is not a file."""
    media_type: str


class PartData(Struct, frozen=True):
    """The next bytes of the part."""

    data: bytes


class PartEnd(Struct, frozen=True):
    """The part ends."""


PartEvent = PartBegin | PartData | PartEnd


class Multipart:
    """Reads one body. `feed` returns the events of each piece of bytes; `end` checks that the body was complete."""

    def __init__(self, content_type: str) -> None:
        """Raise `WireError` when the header Content-Type names no form, or no boundary."""
        self._line = b"\r\n--" + _boundary(content_type).encode("ascii")
        self._rest = bytearray(b"\r\n")  # the first boundary has no line before it
        self._step = self._read_first_boundary
        self._parts = 0

    def feed(self, data: bytes) -> Iterator[PartEvent]:
        """Yield the events of these bytes. Raises `WireError` when they can't be part of a form."""
        self._rest += data
        while (events := self._step()) is not None:
            yield from events

    def end(self) -> None:
        """Say that no more bytes come. Raises `WireError` when some are missing."""
        if self._step != self._skip_rest:
            raise WireError(_CUT_OFF)

    # Steps. Each reads what it can, and returns the events. None: it needs more bytes.

    def _read_first_boundary(self) -> list[PartEvent] | None:
        if len(self._rest) < len(self._line):
            return None
        if not self._rest.startswith(self._line):
            raise WireError(f"The form does not begin with its boundary: {bytes(self._rest[2:42])!r}.")
        return self._pass_boundary([])

    def _read_after_boundary(self) -> list[PartEvent] | None:
        """Read what follows a boundary: another part, or the end. Return None until it has come."""
        if len(self._rest) < 2:
            return None
        mark = self._take(2)
        if mark == b"--":
            self._step = self._skip_rest
        elif mark == b"\r\n":
            self._step = self._read_part_head
        else:
            raise WireError(f"A boundary of the form is followed by {mark!r}, and not by the end of the line.")
        return []

    def _read_part_head(self) -> list[PartEvent] | None:
        """Read the headers of a part. Return None until all of them have come."""
        end = self._rest.find(b"\r\n\r\n")
        if end > _LONGEST_HEAD or (end < 0 and len(self._rest) > _LONGEST_HEAD):
            raise WireError(f"The headers of a part of the form have more than {_LONGEST_HEAD} bytes.")
        if end < 0:
            return None
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise WireError(f"The form has more than {_MAX_PARTS} parts.")
        head = self._take(end)
        del self._rest[:2]  # the rest of the empty line may already belong to the boundary
        self._step = self._read_first_data
        return [_read_head(head)]

    def _read_first_data(self) -> list[PartEvent] | None:
        """Read the first bytes of a part, which may be empty. Return None until they have come."""
        # The line break that ends the head may already belong to the boundary of an empty part.
        self._step = self._read_data
        if self._rest.startswith(self._line):
            return self._pass_boundary([PartEnd()])
        if len(self._rest) < len(self._line) and self._line.startswith(self._rest):
            self._step = self._read_first_data
            return None
        del self._rest[:2]
        return []

    def _read_data(self) -> list[PartEvent] | None:
        place = self._rest.find(self._line)
        if place >= 0:
            found: list[PartEvent] = [PartData(self._take(place))] if place else []
            return self._pass_boundary([*found, PartEnd()])
        sure = len(self._rest) - len(self._line) + 1  # a boundary may begin after this place
        return [PartData(self._take(sure))] if sure > 0 else None

    def _skip_rest(self) -> list[PartEvent] | None:
        self._rest.clear()  # bytes after the last boundary do not belong to the form
        return None

    def _pass_boundary(self, events: list[PartEvent]) -> list[PartEvent]:
        del self._rest[: len(self._line)]
        self._step = self._read_after_boundary
        return events

    def _take(self, count: int) -> bytes:
        taken = bytes(self._rest[:count])
        del self._rest[:count]
        return taken


def _boundary(content_type: str) -> str:
    kind, parameters = _split_header(content_type)
    if kind != "multipart/form-data":
        raise WireError(f"Send the form as multipart/form-data, not as {kind[:60]!r}.")
    boundary = parameters.get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise WireError("The header Content-Type names no boundary that can be used: let your HTTP library set it.")
    return boundary


def _read_head(head: bytes) -> PartBegin:
    """Return the name of a part of the form, its file name and its type. Raises `WireError`."""
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError:
        raise WireError("The headers of a part of the form are not UTF-8.") from None
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    kind, parameters = _split_header(headers.get("content-disposition", ""))
    if kind != "form-data" or "name" not in parameters:
        raise WireError('Each part of the form needs a header such as Content-Disposition: form-data; name="file".')
    media_type, _ = _split_header(headers.get("content-type", ""))
    return PartBegin(parameters["name"], _file_name(parameters), media_type)


def _split_header(text: str) -> tuple[str, dict[str, str]]:
    """Return the value of a header in lower case, and its parameters."""
    value, _, _ = text.partition(";")
    found = {
        name.lower(): re.sub(r'\\(["\\])', r"\1", quoted) or bare for name, quoted, bare in _PARAMETER.findall(text)
    }
    return value.strip().lower(), found


def _file_name(parameters: dict[str, str]) -> str | None:
    """Return the file name as the person knows it. Browsers write quotes and line breaks as %22, %0D, %0A."""
    extended = parameters.get("filename*", "").split("'", 2)  # RFC 8187; RFC 7578 forbids it, and some send it
    if len(extended) == 3 and extended[0].lower() == "utf-8":
        return unquote(extended[2])
    name = parameters.get("filename")
    return None if name is None else re.sub("%(22|0D|0A)", lambda found: unquote(found[0]), name)
