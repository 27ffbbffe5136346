"""Extracts the text of a PDF, page by page. Runs in a process of its own."""

import logging
import time
import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

from handspan.core.errors import ToolError
from handspan.core.long_text import json_size
from handspan.media.child import serve
from handspan.media.jobs import PdfJob, PdfText

_LONGEST_LINE: Final = 1000
"""Characters. A longer line becomes several ones, so that every line fits into a reply."""
_LINE_BREAK: Final = 2
"""Bytes of a line break in JSON."""
_ENCRYPTED: Final = "it is encrypted and needs a password: ask the person for a copy without one"


def extract_text(job: PdfJob) -> PdfText:
    """Return lines from `first_page` on, as many as the job allows. Raises `ToolError` when the PDF can't be read."""
    stops_at = time.monotonic() + job.seconds
    reader = _open(job.data)
    pages = len(reader.pages)
    lines: list[str] = []
    counts: list[int] = []
    skip, room = job.skip, job.size
    for number in range(job.first_page, pages):
        page = list(_page_lines(reader, number, pages))
        counts.append(len(page))
        skipped, skip = min(skip, len(page)), max(skip - len(page), 0)
        for line in page[skipped:]:
            room -= json_size(line) + _LINE_BREAK
            if len(lines) == job.lines or room < 0:
                return PdfText(tuple(lines), pages, tuple(counts), is_end=False)
            lines.append(line)
        if time.monotonic() > stops_at:
            break
    return PdfText(tuple(lines), pages, tuple(counts), is_end=job.first_page + len(counts) >= pages)


def _open(data: bytes) -> PdfReader:
    reader = PdfReader(BytesIO(data))
    try:
        if reader.is_encrypted and not reader.decrypt(""):  # many PDFs have a password only against changes
            raise ToolError("execution_failed", _ENCRYPTED)
    except (DependencyError, NotImplementedError, FileNotDecryptedError):
        raise ToolError("execution_failed", _ENCRYPTED) from None
    return reader


def _page_lines(reader: PdfReader, number: int, pages: int) -> Iterator[str]:
    yield f"--- page {number + 1} of {pages} ---"
    text = reader.pages[number].extract_text()
    for line in text.encode("utf-8", "replace").decode().splitlines():
        line = line.rstrip()
        yield from (line[at : at + _LONGEST_LINE] for at in range(0, len(line) or 1, _LONGEST_LINE))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()  # what the library finds odd in a file is not for the gateway's log
    serve(PdfJob, extract_text, opens_files=True)  # Python loads the codecs of texts when they are needed
