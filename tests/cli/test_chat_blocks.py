"""Markdown while it arrives, and progress as bars."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.cli.chat.blocks import MarkdownBlocks
from handspan.cli.chat.progress import ProgressView, read_progress
from handspan.core.values import Json


def blocks(*pieces: str) -> list[str]:
    made = MarkdownBlocks()
    whole = [block for piece in pieces for block in made.add(piece)]
    return [*whole, made.end()]


def test_a_paragraph_is_whole_when_the_next_one_has_begun() -> None:
    made = MarkdownBlocks()
    assert made.add("One\ntwo\n") == [] and made.add("\n") == []
    assert made.rest == "One\ntwo"
    assert made.add("Three") == [], "its first line is not whole yet"
    assert made.add("\n") == ["One\ntwo"]
    assert (made.rest, made.end(), made.rest) == ("Three", "Three", "")


def test_empty_lines_do_not_end_code_or_the_inside_of_a_list() -> None:
    code = "```python\na = 1\n\nb = 2\n```"
    assert blocks(f"{code}\n\nAfter.\n") == [code, "After."]
    inner = "- one\n\n  still one\n- two"
    assert blocks(f"{inner}\n\nAfter.\n") == [inner, "After."]
    longer = "````\n```\n\nx\n````"
    assert blocks(f"{longer}\n\nAfter.\n") == [longer, "After."]


@given(st.text(alphabet="ab \n`-#", max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_nothing_is_lost_wherever_the_text_is_cut(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[begin:end] for begin, end in pairwise(places)]
    joined = "".join("".join(blocks(*pieces)).split())
    assert joined == "".join(text.split())
    assert blocks(*pieces) == blocks(text)


@pytest.mark.parametrize(
    ("value", "fraction", "text"),
    [
        ({"progress": 3, "total": 4, "message": "Copying"}, 0.75, "Copying"),
        ({"progress": 0.5}, 0.5, ""),
        ({"progress": 7}, None, ""),
        ({"percent": 30}, 0.3, ""),
        ({"percent": 300}, 1.0, ""),
        ({"done": 1, "total": 0}, None, ""),
        ({"text": "first\nlast \n"}, None, "last"),
        (0.25, 0.25, ""),
        (12, None, "12"),
        ("half way", None, "half way"),
        (True, None, ""),
        (None, None, ""),
        ([1, 2], None, ""),
    ],
)
def test_reports_of_every_form_become_a_bar_or_words(value: Json, fraction: float | None, text: str) -> None:
    assert read_progress(value) == ProgressView(fraction, text)
