"""Images and PDF in `read_file`: an image comes as an image, a PDF as text by lines (SPEC B)."""

import threading
from collections.abc import Hashable
from typing import Final

from handspan.core.bounded import BoundedDict
from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.images import ImageLimits
from handspan.core.results import Attachment, Success
from handspan.media.jobs import PdfJob, PdfText
from handspan.media.workers import MAX_BYTES, MediaWorkers
from handspan.tools.paths import quote_path
from handspan.tools.workspace import OpenedFile

_HEAD: Final = 16
"""The number of bytes at the beginning of a file that show its kind."""
_NOTE_ROOM: Final = 256
_IMAGE: Final = ImageLimits(frozenset(("image/jpeg", "image/png", "image/gif", "image/webp")), 1_000_000, 1_000_000)
"""Every model takes an image within these limits, and conversations stay small."""
_IMAGE_STARTS: Final = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_PDF_START: Final = b"%PDF-"
_MAX_REMEMBERED: Final = 16
"""How many PDF have their numbers of lines remembered."""
_EXTRACTING_SHARE: Final = 0.5
"""The part of the call's time after which no further page of a PDF is begun."""


class MediaFiles:
    """Reads images and PDF in processes of their own, because such files can be hostile."""

    def __init__(self, workers: MediaWorkers, room: int) -> None:
        """`room`: the most bytes of a page of text in JSON."""
        self._workers = workers
        self._room = room - _NOTE_ROOM
        self._places = PdfPlaces()

    def read(
        self, file: OpenedFile, path: str, first: int, max_lines: int | None, deadline: Deadline | None
    ) -> str | Success:
        """Return the image, or the lines of the PDF from `first` on (1 is the first line)."""
        if file.size > MAX_BYTES:
            raise ToolError("file_too_large", f"{quote_path(path)} has {file.size} bytes, more than {MAX_BYTES}.")
        try:
            if _is_image(file.read(0, _HEAD)):
                return self._read_image(file, path, deadline)
            return self._read_pdf(file, first, max_lines, deadline)
        except ToolError as error:
            raise ToolError(error.code, f"{quote_path(path)} can't be read: {error.message}.") from None

    def _read_image(self, file: OpenedFile, path: str, deadline: Deadline | None) -> Success:
        work = self._workers.fit_image(file.read(0, file.size), _IMAGE)
        image = self._workers.wait_for(work, deadline)
        (width, height), scaled = image.original, image.scaled
        how = "" if scaled == image.original else f", shown with {scaled[0]} × {scaled[1]}"
        name = path.rpartition("/")[2]
        text = f"{quote_path(path)} is an image of {width} × {height} pixels{how}."
        return Success(text, (Attachment("image", image.media_type, image.data, name=name),))

    def _read_pdf(self, file: OpenedFile, first: int, max_lines: int | None, deadline: Deadline | None) -> str:
        """Return the lines of a PDF from this one on. `_places` remembers on which page a line begins."""
        page, skip = self._places.find(file.state, first - 1)
        seconds = self._workers.seconds_until(deadline) * _EXTRACTING_SHARE
        job = PdfJob(file.read(0, file.size), page, skip, max_lines, size=self._room, seconds=seconds)
        found = self._workers.wait_for(self._workers.extract_text(job), deadline)
        self._places.note(file.state, page, found.line_counts)
        if found.is_end and not found.lines:
            raise ToolError("invalid_arguments", f"its text has no line {first}")
        return "\n".join([*found.lines, _describe_rest(found, first, page + len(found.line_counts))])


class PdfPlaces:
    """Remembers how many lines the pages of some PDF have, so that reading on begins at the right page."""

    def __init__(self) -> None:
        self._counts: BoundedDict[Hashable, tuple[int, ...]] = BoundedDict(_MAX_REMEMBERED)
        self._lock = threading.Lock()

    def find(self, state: Hashable, line: int) -> tuple[int, int]:
        """Return the page from which to search this line, and how many lines to skip from there on.

        Pages and lines are counted from 0. `state` tells one version of one file from all others.
        """
        counts = self._counts.get(state, ())
        for page, count in enumerate(counts):
            if line < count:
                return page, line
            line -= count
        return len(counts), line

    def note(self, state: Hashable, page: int, counts: tuple[int, ...]) -> None:
        """Remember the numbers of lines of the pages from `page` on."""
        with self._lock:
            known = self._counts.pop(state, ())
            self._counts[state] = max(known, (*known[:page], *counts), key=len)


def _describe_rest(found: PdfText, first: int, last_page: int) -> str:
    """Return the last line of the answer: where the text ends, or how to read on."""
    last = first + len(found.lines) - 1
    if found.is_end:
        is_scan = first == 1 and last == found.pages
        why = " They hold no text: they are probably scanned pictures." if is_scan else ""
        return f"[The end of {found.pages} pages.{why}]"
    if not found.lines:
        return f"[Line {first} was not reached in time, only page {last_page} of {found.pages}. Call it again.]"
    return f"[Lines {first} to {last} of {found.pages} pages. Read on with offset={last + 1}.]"


def is_media(file: OpenedFile) -> bool:
    """Whether this file is an image or a PDF, as its first bytes show."""
    head = file.read(0, _HEAD)
    return head.startswith(_PDF_START) or _is_image(head)


def _is_image(head: bytes) -> bool:
    is_webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    is_bitmap = head[:2] == b"BM" and head[6:10] == b"\0\0\0\0"
    return head.startswith(_IMAGE_STARTS) or is_webp or is_bitmap
