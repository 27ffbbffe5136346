"""Lines of commands at a terminal: they end at a word."""

import io
import logging
import sys

import pytest

from handspan.cli.bridge import _Lines
from handspan.cli.calls import _FOLLOWED, _followed_line
from handspan.cli.config import describe_changes
from handspan.cli.render import print_rows
from handspan.cli.wrapping import wrap_text
from handspan.wire.rest.status import SettingsInForce


def test_a_line_ends_at_a_word_and_goes_on_in_its_column() -> None:
    text = "Model    offline, a rule-based stand-in"
    assert wrap_text(text, 24, 9) == "Model    offline, a\n         rule-based\n         stand-in"
    assert wrap_text(text, 80, 9) == text


def test_a_word_that_fits_on_no_line_stays_whole() -> None:
    text = "Page     http://127.0.0.1:42617/signin?code=1234 signs in"
    assert wrap_text(text, 24, 9) == "Page     http://127.0.0.1:42617/signin?code=1234\n         signs in"


def test_the_changed_settings_of_a_new_agent_are_named_once() -> None:
    of_agent = [f"agents.careful.{name}" for name in ("deny", "mode", "model", "skills")]
    (line,) = describe_changes(SettingsInForce(None, True, [], reloadable=of_agent))
    assert line.endswith("`handspan reload` applies agents.careful")


def test_a_column_of_calls_that_are_followed_is_never_wider_than_its_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ("2026-11-18 06:24:00", f"desk__{'long_' * 8}name", "success", "1 ms", "", "General", "c-1")
    assert cells[1] in _followed_line(cells), "a program gets every text whole"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert _followed_line(cells).index("success") == _followed_line(_FOLLOWED).index("status")
    assert "desk__long_" in _followed_line(cells) and "…" in _followed_line(cells)


def test_a_line_of_the_bridge_goes_on_below_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    text = "The app 'finance' offers its tools to every agent of yours."
    _Lines(screen, as_json=False).emit(logging.LogRecord("bridge", logging.INFO, "", 0, text, None, None))
    first, second, *_ = screen.getvalue().splitlines()
    assert len(first) <= 40 and second.startswith(" " * 9) and second[9] != " "


def test_an_empty_table_is_words_at_a_terminal_and_its_heading_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_rows(("id", "name"), [], "No session yet.")
    assert capsys.readouterr() == ("id  name\n", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows(("id", "name"), [], "No session yet.")
    assert capsys.readouterr() == ("", "No session yet.\n")
