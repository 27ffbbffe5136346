"""Bodies of the kind multipart/form-data (RFC 7578), piece by piece: nothing of a file is held back. No sockets."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from handspan.core.errors import WireError

_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(r';\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_MOST_PARTS: Final = 100
_LONGEST_HEAD: Final = 16 * 1024
_CUT_OFF: Final = "The form ends before its last boundary: send all of it."


class PartBegin(Struct, frozen=True):
    """A part begins: what its headers say."""

    name: str
    file_name: str | None
    """None: it is no file."""
    media_type: str


class PartData(Struct, frozen=True):
    """More of the part."""

    data: bytes


class PartEnd(Struct, frozen=True):
    """The part is over."""


PartEvent = PartBegin | PartData | PartEnd


class Multipart:
    """Reads one body. `feed` gives what is in the pieces, in order; `end` says whether that was all of it."""

    def __init__(self, content_type: str) -> None:
        """`WireError` when the header of the request names no form, or no boundary."""
        self._line = b"\r\n--" + _boundary(content_type).encode("ascii")
        self._rest = bytearray(b"\r\n")  # the first boundary has no line before it
        self._step = self._to_first_boundary
        self._parts = 0

    def feed(self, data: bytes) -> Iterator[PartEvent]:
        """What these bytes hold; `WireError` when they can't be part of a form."""
        self._rest += data
        while (happenings := self._step()) is not None:
            yield from happenings

    def end(self) -> None:
        """There are no more bytes; `WireError` when some are missing."""
        if self._step != self._after_last:
            raise WireError(_CUT_OFF)

    # Steps. Each takes what it can use and says what happened; None: it needs more bytes.

    def _to_first_boundary(self) -> list[PartEvent] | None:
        if len(self._rest) < len(self._line):
            return None
        if not self._rest.startswith(self._line):
            raise WireError(f"The form does not begin with its boundary: {bytes(self._rest[2:42])!r}.")
        return self._pass_boundary([])

    def _after_boundary(self) -> list[PartEvent] | None:
        if len(self._rest) < 2:
            return None
        mark = self._take(2)
        if mark == b"--":
            self._step = self._after_last
        elif mark == b"\r\n":
            self._step = self._head
        else:
            raise WireError(f"A boundary of the form is followed by {mark!r}, and not by the end of the line.")
        return []

    def _head(self) -> list[PartEvent] | None:
        end = self._rest.find(b"\r\n\r\n")
        if end > _LONGEST_HEAD or (end < 0 and len(self._rest) > _LONGEST_HEAD):
            raise WireError(f"The headers of a part of the form have more than {_LONGEST_HEAD} bytes.")
        if end < 0:
            return None
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise WireError(f"The form has more than {_MOST_PARTS} parts.")
        head = self._take(end)
        del self._rest[:2]  # what is left of the empty line may be the line of the boundary
        self._step = self._data
        return [_read_head(head)]

    def _data(self) -> list[PartEvent] | None:
        # The head ends with an empty line: its last line break may already belong to the boundary of an empty part.
        self._step = self._more_data
        if self._rest.startswith(self._line):
            return self._pass_boundary([PartEnd()])
        if len(self._rest) < len(self._line) and self._line.startswith(self._rest):
            self._step = self._data
            return None
        del self._rest[:2]
        return []

    def _more_data(self) -> list[PartEvent] | None:
        place = self._rest.find(self._line)
        if place >= 0:
            found: list[PartEvent] = [PartData(self._take(place))] if place else []
            return self._pass_boundary([*found, PartEnd()])
        sure = len(self._rest) - len(self._line) + 1  # behind that a boundary may have begun
        return [PartData(self._take(sure))] if sure > 0 else None

    def _after_last(self) -> list[PartEvent] | None:
        self._rest.clear()  # what follows is no part of the form
        return None

    def _pass_boundary(self, happened: list[PartEvent]) -> list[PartEvent]:
        del self._rest[: len(self._line)]
        self._step = self._after_boundary
        return happened

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
    """The value of a header, in small letters, and its parameters."""
    value, _, _ = text.partition(";")
    found = {
        name.lower(): re.sub(r'\\(["\\])', r"\1", quoted) or bare for name, quoted, bare in _PARAMETER.findall(text)
    }
    return value.strip().lower(), found


def _file_name(parameters: dict[str, str]) -> str | None:
    """The name as the person knows it: browsers write quotes and line breaks in it as %22, %0D, %0A."""
    extended = parameters.get("filename*", "").split("'", 2)  # RFC 8187; RFC 7578 forbids it, and some send it
    if len(extended) == 3 and extended[0].lower() == "utf-8":
        return unquote(extended[2])
    name = parameters.get("filename")
    return None if name is None else re.sub("%(22|0D|0A)", lambda found: unquote(found[0]), name)
