"""The words of a text as a search compares them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.words import MarkedPart, find_excerpt, is_beginning, searched_words, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where is the Budget, the new one?", ["where", "is", "the", "budget", "new", "one"]),
        ("don't_stop 3.14", ["don", "t", "stop", "3", "14"]),
        ("Café Straße İstanbul Søren ﬁne naïve", ["cafe", "strasse", "istanbul", "soren", "fine", "naive"]),
        ("cafe\u0301 co\u00adop", ["cafe", "coop"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("2024年の報告report", ["2024", "年の", "の報", "報告", "告", "report"]),
        ("ＡＢＣ１２", ["abc12"]),
        ("", []),
        ("?! … — \ud800 \x00 \n", []),
        ("a" * 100, ["a" * 40]),
    ],
)
def test_words_are_small_without_accents_and_stand_once(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_composed_and_a_decomposed_text_have_the_same_words() -> None:
    text = "Ångström über Việt Nam Ελλάδα"
    assert words_of(unicodedata.normalize("NFD", text)) == words_of(unicodedata.normalize("NFC", text))


def test_a_search_has_the_words_of_its_text_and_not_too_many() -> None:
    assert searched_words('"Café" AND crème*') == ("cafe", "and", "creme")
    assert searched_words("議事録") == ("議事", "事録")
    assert searched_words("議") == ("議",)
    assert searched_words("?!") == ()
    assert len(searched_words(" ".join(map(str, range(1000))))) == 16
    assert searched_words("x" * 100_000) == ("x" * 40,)


def test_a_very_long_text_has_no_more_words_than_a_database_takes() -> None:
    words = words_of(" ".join(f"wörd{number:030}" for number in range(30_000)))
    assert words[0] == f"word{0:030}"
    assert len(" ".join(words).encode()) <= 400_000


def test_one_letter_finds_itself_alone() -> None:
    assert not is_beginning("c")
    assert is_beginning("ca")
    assert is_beginning("議")


def test_an_excerpt_marks_the_words_and_how_they_begin() -> None:
    assert find_excerpt("The  budgets\nof a Café.", searched_words("cafe budget")) == [
        MarkedPart("The ", False),
        MarkedPart("budgets", True),
        MarkedPart(" of a ", False),
        MarkedPart("Café", True),
        MarkedPart(".", False),
    ]
    assert find_excerpt("これは会議の議事録です", searched_words("議事録")) == [
        MarkedPart("これは会議の", False),
        MarkedPart("議事録", True),
        MarkedPart("です", False),
    ]


def test_an_excerpt_of_a_long_text_is_cut_around_the_first_word() -> None:
    text = "before " * 100 + "needle" + " behind" * 100
    (before, found, behind) = find_excerpt(text, ("needle",))
    assert (found.text, found.is_found) == ("needle", True)
    assert before.text.startswith("…") and before.text.endswith("before ") and len(before.text) == 61
    assert behind.text.startswith(" behind") and behind.text.endswith("…")


def test_a_text_without_the_words_has_no_excerpt() -> None:
    assert find_excerpt("a cat", ("c",)) == []
    assert find_excerpt("", ("c",)) == []


@given(st.text(max_size=200))
def test_every_word_fits_both_databases_and_is_found_by_itself(text: str) -> None:
    words = words_of(text)
    assert len(set(words)) == len(words)
    for word in words:
        assert word and all(char.isalnum() or ord(char) > 127 for char in word)
        assert len(word) <= 40
    for wanted in searched_words(text):
        assert any(word == wanted or word.startswith(wanted) for word in words)
    if searched_words(text):
        parts = find_excerpt(text, searched_words(text))
        assert any(part.is_found for part in parts)
