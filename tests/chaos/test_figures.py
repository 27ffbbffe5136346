"""Figures, and whether they keep their promise."""

from tests.chaos.figures import Figure, broken, none_of, percentile, table


def test_a_figure_beyond_its_promise_is_broken_and_shown_with_examples() -> None:
    figures = [Figure("calls", 7), none_of("calls lost", ["a", "b", "c", "d"]), Figure("p99", 3.14, "ms", at_most=2)]
    assert [figure.holds for figure in figures] == [True, False, False]
    assert broken(figures) == ["calls lost: 4  (none) a | b | c", "p99: 3.14 ms (≤ 2) "]
    shown = table("storm", 7, 1.5, figures)
    assert shown.startswith("storm (seed 7, 1.5 s)\n")
    assert shown.count("BROKEN") == 2 and "      a\n" in shown


def test_a_figure_that_keeps_its_promise_shows_no_examples() -> None:
    figures = [none_of("calls lost", []), Figure("calls", 10, at_least=10), Figure("code", 0, at_most=0, at_least=0)]
    assert broken(figures) == []
    assert table("storm", 7, 1.5, figures).count("kept") == 3


def test_too_little_is_broken_too() -> None:
    assert broken([Figure("calls", 9, at_least=10)]) == ["calls: 9  (≥ 10) "]


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([], 0.99) == 0
    assert [percentile(list(range(100)), share) for share in (0.0, 0.5, 0.99, 1.0)] == [0, 50, 99, 99]
