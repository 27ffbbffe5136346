"""The one set-up of logging, for `handspan serve`. A program that embeds an agent sets up its own."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from handspan.config.rotated_file import RotatedFile
from handspan.config.settings import LogSettings, Settings
from handspan.core.errors import ConfigError
from handspan.gateway.log.lines import JournalFormatter, JsonFormatter, TextFormatter
from handspan.gateway.log.secrets import hide_secrets_of
from handspan.gateway.log.writer import LogWriter, write_to_stderr

ROOT: Final = "handspan"
"""The logger above all of ours."""
_LEVELS: Final = {"warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


@contextlib.contextmanager
def open_log(settings: Settings, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Open a block in which our records, and others' warnings, are written. Raises `ConfigError` for a bad file."""
    log = settings.log
    write = write_to_stderr if log.file is None else _file_writer(log)
    lines = _formatter(log, hide_secrets_of(settings, environ), environ)
    writer = LogWriter(lines, write, None) if log.level == "debug" else LogWriter(lines, write)
    ours, root = logging.getLogger(ROOT), logging.getLogger()
    before = ours.level
    ours.setLevel(_LEVELS[log.level])
    root.addHandler(writer)
    writer.open()
    try:
        yield
    finally:
        root.removeHandler(writer)
        ours.setLevel(before)
        writer.close()


def _formatter(log: LogSettings, hide: Callable[[str], str], environ: Mapping[str, str]) -> logging.Formatter:
    """Return the form of the log's lines, which depends on where they go."""
    if log.format == "json":
        return JsonFormatter(hide)
    if log.file is not None:
        return TextFormatter(hide)
    if _is_journal(environ):
        return JournalFormatter(hide)
    is_terminal = sys.stderr.isatty()
    has_colours = is_terminal and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    return TextFormatter(hide, is_terminal=is_terminal, has_colours=has_colours)


def _is_journal(environ: Mapping[str, str]) -> bool:
    """Whether standard error is systemd's journal: it names the device and the inode of the stream."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _file_writer(log: LogSettings) -> Callable[[bytes], None]:
    """Return a function that writes to the log file. Raises `ConfigError` when the file can't be written."""
    assert log.file is not None
    path = log.file.expanduser().absolute()
    file = RotatedFile(path, log.max_bytes, log.backups)
    try:
        file.add(b"")
    except OSError as error:
        text = f"log.file: {str(path)!r} can't be written: {error.strerror or error}. Name another file."
        raise ConfigError(text) from None

    def write(data: bytes) -> None:
        try:
            file.add(data)
        except OSError as error:  # a disk that is full for a while: nothing is lost in silence
            write_to_stderr(f"handspan: {str(path)!r} can't be written: {error.strerror or error}\n".encode() + data)

    return write
