"""A record of Python's `logging` as a line for people, or as a line of JSON for programs."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from handspan.core.values import strip_invisible

_OWN: Final = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
"""Attributes of every record. All others came by `extra`, and are fields of the JSON form."""
_COLOURS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"
_PRIORITIES: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""The levels in the words of syslog, which systemd's journal reads at the beginning of a line."""


class TextFormatter(logging.Formatter):
    """Lines for people: when, what, and a mark for warnings and errors."""

    def __init__(self, hide: Callable[[str], str], *, is_terminal: bool = False, has_colours: bool = False) -> None:
        """`hide` takes secrets out of a text. A terminal needs no date."""
        super().__init__()
        self._hide = hide
        self._time = "%H:%M:%S" if is_terminal else "%Y-%m-%d %H:%M:%S%z"
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Further lines, as of a traceback, are indented: no text can pass for a line of ours."""
        at, text = time.strftime(self._time, time.localtime(record.created)), self._text(record)
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname} "
        if not self._has_colours:
            return f"{at}  {mark}{text}"
        return f"{_DIM}{at}{_PLAIN}  {_COLOURS.get(record.levelno, '')}{mark}{text}{_PLAIN}"

    def _text(self, record: logging.LogRecord) -> str:
        whole = "\n".join((record.getMessage(), *_traceback(self, record)))
        return "\n  ".join(_clean(line) for line in self._hide(whole).splitlines())


class JournalFormatter(TextFormatter):
    """Lines for systemd's journal, which has the time itself."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line with its priority; each line of a traceback is one of the journal's."""
        priority = _PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in self._text(record).splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message, then the fields of the record."""

    def __init__(self, hide: Callable[[str], str]) -> None:
        """`hide` takes secrets out of a text."""
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        line["message"] = self._hide(strip_invisible(record.getMessage()))
        line |= {name: self._field(value) for name, value in vars(record).items() if name not in _OWN}
        if traceback := "\n".join(_traceback(self, record)):
            line["traceback"] = self._hide(traceback)
        return msgspec.json.encode(line).decode()

    def _field(self, value: object) -> object:
        return value if isinstance(value, int | float) else self._hide(str(value))


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    """Return the lines of the record's traceback."""
    if record.exc_info and record.exc_info[0] is not None:
        return formatter.formatException(record.exc_info).splitlines()
    return []


def _clean(line: str) -> str:
    """Return the line without what could move a terminal's cursor or hide a part of it."""
    return "".join(one if one.isprintable() else " " for one in strip_invisible(line))
