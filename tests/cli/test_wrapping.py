"""Lines of commands at a terminal: they end at a word."""

from handspan.cli.wrapping import wrap_text


def test_a_line_ends_at_a_word_and_goes_on_in_its_column() -> None:
    text = "Model    offline, a rule-based stand-in"
    assert wrap_text(text, 24, 9) == "Model    offline, a\n         rule-based\n         stand-in"
    assert wrap_text(text, 80, 9) == text


def test_a_word_that_fits_on_no_line_stays_whole() -> None:
    text = "Page     http://127.0.0.1:42617/signin?code=1234 signs in"
    assert wrap_text(text, 24, 9) == "Page     http://127.0.0.1:42617/signin?code=1234\n         signs in"
