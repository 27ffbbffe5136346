"""The library markdownify; its two steps that need quadratic time for long runs of blanks are replaced.

`re` keeps the interpreter's lock, so such a step would stop the whole gateway although it runs on a thread: 20 KB of
blanks took 9 s. `markdown.py` loads this module with the first page.
"""

import re
from typing import Final

from bs4 import BeautifulSoup
from bs4.element import NavigableString
from markdownify import MarkdownConverter

_BLANKS: Final = r"[\t \r\n]{2,}+"


def write_markdown(html: str) -> str:
    """Return well-formed HTML as Markdown."""
    # strip_pre=None: `convert_pre` of `_Writer` strips the blank lines of `pre`.
    writer = _Writer(
        heading_style="atx",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
        strip_pre=None,
    )
    return str(writer.convert_soup(BeautifulSoup(html, "html.parser")))


class _Writer(MarkdownConverter):
    # The library's documentation names these two methods as the ones to override. Its types do not have them.

    def process_text(self, el: NavigableString, parent_tags: set[str] | None = None) -> str:
        """Return the Markdown of a text. Runs of blanks are collapsed first, as a browser does outside of `pre`."""
        is_as_written = parent_tags is not None and "pre" in parent_tags
        text = el if is_as_written else _collapse(el)
        return str(super().process_text(text, parent_tags))  # type: ignore[misc]

    def convert_pre(self, el: object, text: str, parent_tags: set[str]) -> str:
        """Return a code block without blank lines at its beginning and end; two line ends if all lines are blank."""
        first = len(text) - len(text.lstrip(" \n"))
        code = text[text.rfind("\n", 0, first) + 1 :].rstrip(" \n")
        return str(super().convert_pre(el, code, parent_tags)) if code else "\n\n"  # type: ignore[misc]


def _collapse(text: NavigableString) -> NavigableString:
    """Return the text, at its place in the tree, with one character for each run of blanks.

    A run with a newline becomes a newline, any other run a blank.
    """
    shorter = NavigableString(re.sub(_BLANKS, _one_blank, text))
    shorter.parent, shorter.previous_sibling, shorter.next_sibling = (
        text.parent,
        text.previous_sibling,
        text.next_sibling,
    )
    return shorter


def _one_blank(run: "re.Match[str]") -> str:
    return "\n" if "\n" in run[0] or "\r" in run[0] else " "
