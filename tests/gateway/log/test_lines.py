"""Lines of the log: readable, in one piece, and without anything that can fool their reader."""

import json
import logging
import sys

from handspan.gateway.log.lines import JournalFormatter, JsonFormatter, TextFormatter


def record(text: str, *args: object, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("handspan.here", level, "", 0, text, args, None)
    vars(made).update(fields)
    return made


def plain(text: str) -> str:
    return text


def test_a_line_has_its_time_and_a_mark_if_it_is_a_warning() -> None:
    lines = TextFormatter(plain)
    assert lines.format(record("a %s", "b")).endswith("  a b")
    assert lines.format(record("a", level=logging.WARNING)).endswith("  WARNING a")
    assert len(TextFormatter(plain, is_terminal=True).format(record("a"))) == len("11:22:33  a")


def test_no_text_can_pass_for_another_line_or_move_the_cursor() -> None:
    line = TextFormatter(plain).format(record("label %s", "x\n2026-11-17 00:00:00  forged\r\x1b[2J\u202etxt"))
    first, *rest = line.split("\n")
    assert first.endswith("label x") and len(rest) == 2 and all(one.startswith("  ") for one in rest)
    assert "\x1b" not in line and "\r" not in line and "\u202e" not in line


def test_colours_only_where_they_are_wanted() -> None:
    warning = record("a", level=logging.ERROR)
    assert "\x1b[31m" in TextFormatter(plain, is_terminal=True, has_colours=True).format(warning)
    assert "\x1b" not in TextFormatter(plain, is_terminal=True).format(warning)


def test_a_line_for_the_journal_has_its_priority_and_no_time() -> None:
    assert JournalFormatter(plain).format(record("a\nb", level=logging.ERROR)) == "<3>a\n<3>  b"


def test_a_line_of_json_has_the_fields_of_the_record() -> None:
    line = json.loads(JsonFormatter(plain).format(record("call %s", "x", event="call", seconds=0.5, tool="x")))
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "handspan.here",
        "message": "call x",
        "event": "call",
        "seconds": 0.5,
        "tool": "x",
    }


def test_a_traceback_is_part_of_the_line() -> None:
    made = record("failed", level=logging.ERROR)
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: why" in json.loads(JsonFormatter(plain).format(made))["traceback"]
    assert "\n  ValueError: why" in TextFormatter(plain).format(made)
