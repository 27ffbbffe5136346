"""Lines of commands at a terminal: they end at a word."""

import sys

import pytest

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


def test_an_empty_table_is_words_at_a_terminal_and_its_heading_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_rows(("id", "name"), [], "No session yet.")
    assert capsys.readouterr() == ("id  name\n", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows(("id", "name"), [], "No session yet.")
    assert capsys.readouterr() == ("", "No session yet.\n")
