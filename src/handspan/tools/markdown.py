"""A web page as Markdown: `html_to_markdown`.

The library markdownify writes the Markdown (`markdown_writer.py`). Before that, our own pass cleans the page, for two
reasons: Python's HTML parser needs quadratic time for broken tags (45 s for 64 KB of `<a `), and markdownify recurses
as deep as the tags of the page are nested. Our pass takes linear time. It drops what is not content, closes open tags,
and limits depth and length.
"""

import html
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

from msgspec import Struct

from handspan.tools.markdown_writer import write_markdown

MAX_SOURCE: Final = 4_000_000
"""The most characters of a page that are read."""
MAX_CLEAN: Final = 300_000
"""The most characters of content, with tags, that become Markdown."""
MAX_DEPTH: Final = 24
MAX_ATTRIBUTE: Final = 2_000
LIST_STRETCH: Final = 100
"""A numbered list is split after this many items: markdownify counts all earlier items for each item."""


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Patterns are text: `re` compiles them at their first use and caches them.
_TAG: Final = (
    r"""<(?P<slash>/?)(?P<name>[a-zA-Z][a-zA-Z0-9:-]*+)(?P<rest>(?:[^=>]++|=\s*+(?>"[^"]*"|'[^']*'|(?!["'])))*+)>"""
)
_ATTRIBUTE: Final = (
    r"""(?<![^\s"'/])(?P<name>[a-zA-Z]++)\s*+=\s*+(?>"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]++))"""
)
_LONG_REFERENCE: Final = r"&#(?=[xX]?[0-9a-fA-F]{9})"
_TRAILING_BLANKS: Final = r"(?<![ \t])[ \t]++\n"
_BLANK_LINES: Final = r"\n{3,}"

_RAW: Final = {
    name: rf"(?i)</{name}(?=[\s/>])" for name in _word_set("script style textarea title iframe noembed noframes xmp")
}
_DROPPED: Final = _word_set("nav svg math template noscript object canvas audio video select datalist dialog")
_VOID: Final = frozenset({"br", "hr", "img"})
_CONTAINERS: Final = _word_set(
    "div section article main header footer aside figure figcaption details summary address form fieldset"
)
_INLINE: Final = _word_set("a b strong em i del s code kbd samp sub sup q")
_TABLE: Final = _word_set("table caption tr td th")
_BLOCK: Final = _word_set("p div h1 h2 h3 h4 h5 h6 blockquote pre ul ol li dl dt dd hr") | _TABLE
_KEPT: Final = _INLINE | _BLOCK | _VOID
_ATTRIBUTES: Final = {"a": ("href", "title"), "img": ("src", "alt", "title")}
# HTML allows to omit some end tags. Such a start tag closes the nearest open tag of the first set, but looks no further
# than a tag of the second set.
_CELLS: Final = frozenset({"td", "th"})
_IMPLIED_ENDS: Final = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    "td": (_CELLS, frozenset({"tr", "table"})),
    "th": (_CELLS, frozenset({"tr", "table"})),
}


class Markdown(Struct, frozen=True):
    """The content of a page. `truncated`: the page has more content than this."""

    text: str
    truncated: bool = False


def html_to_markdown(page: str, base_url: str = "") -> Markdown:
    """Return the content of a page with absolute links, without scripts, styles and navigation."""
    content = _Content(base_url)
    truncated = content.take(page)
    text = write_markdown(content.finish())
    return Markdown(re.sub(_BLANK_LINES, "\n\n", re.sub(_TRAILING_BLANKS, "\n", text)).strip(), truncated)


def _pieces(page: str) -> Iterator["str | re.Match[str]"]:
    """Yield text and tags in order, without comments, declarations and the content of scripts.

    A comment or a script that is never closed goes on to the end of the page, as in browsers. So a missing end is
    searched at most once.
    """
    position, tag_at = 0, re.compile(_TAG).match
    while (start := page.find("<", position)) >= 0:
        if start > position:
            yield page[position:start]
        following = page[start + 1 : start + 3]
        if _is_tag(following):
            tag = tag_at(page, start)
            if tag is None:
                return
            yield tag
            position = _end_of_raw_text(page, tag)
        elif following[:1] in ("!", "?", "/"):
            position = (
                _index_after(page, "-->", start + 4)
                if page.startswith("<!--", start)
                else _index_after(page, ">", start)
            )
        else:  # a lone "<" is text
            yield "<"
            position = start + 1
    yield page[position:]


def _is_tag(following: str) -> bool:
    first = following[1:] if following.startswith("/") else following[:1]
    return first.isascii() and first.isalpha()


def _index_after(page: str, mark: str, start: int) -> int:
    found = page.find(mark, start)
    return len(page) if found < 0 else found + len(mark)


def _end_of_raw_text(page: str, tag: "re.Match[str]") -> int:
    """Return where the markup continues after this tag: for a tag such as `<script>` after its content."""
    ending = None if tag["slash"] else _RAW.get(tag["name"].lower())
    if ending is None:
        return tag.end()
    found = re.compile(ending).search(page, tag.end())
    return len(page) if found is None else found.start()


class _Content:
    """Collects the content of a page as well-formed HTML of limited depth and length."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._parts: list[str] = []
        self._length = 0
        self._open: list[str] = []
        self._numbers: list[int] = []
        """The number of the last item of each open numbered list."""
        self._dropping = ""
        """The outermost open tag whose content is dropped; empty: content is taken."""
        self._dropped_depth = 0
        """How many tags of that name are open."""

    def take(self, page: str) -> bool:
        """Add the page. Return whether a part of it did not fit."""
        for piece in _pieces(re.sub(_LONG_REFERENCE, "&amp;#", page[:MAX_SOURCE])):
            if isinstance(piece, str):
                self._take_text(piece)
            else:
                self._take_tag(piece["name"].lower(), is_end=bool(piece["slash"]), rest=piece["rest"])
            if self._length > MAX_CLEAN:
                return True
        return len(page) > MAX_SOURCE

    def finish(self) -> str:
        """Close all tags and return the HTML."""
        while self._open:
            self._close_last()
        return "".join(self._parts)

    def _take_text(self, text: str) -> None:
        if not self._dropping:
            room = max(0, MAX_CLEAN + 1 - self._length)
            self._add(text[:room].replace("<", "&lt;").replace(">", "&gt;"))

    def _take_tag(self, name: str, *, is_end: bool, rest: str) -> None:
        """Take one tag. What is dropped is dropped with its content, an unknown tag alone."""
        name = "div" if name in _CONTAINERS else name
        if self._dropping or name in _DROPPED:
            self._drop(name, is_end=is_end, closes_itself=rest.endswith("/"))
        elif name not in _KEPT:
            return
        elif is_end:
            self._end(name)
        else:
            self._start(name, rest)

    def _drop(self, name: str, *, is_end: bool, closes_itself: bool) -> None:
        """Note a tag inside of dropped content, or at its begin or end."""
        if not self._dropping and not is_end:
            self._dropping = name
        if name == self._dropping and not closes_itself:
            self._dropped_depth += -1 if is_end else 1
        if self._dropped_depth == 0:
            self._dropping = ""

    def _start(self, name: str, rest: str) -> None:
        """Take the start of an element, and end those before it that HTML ends without a tag."""
        if name in _BLOCK:
            self._close_nearest(frozenset({"p"}), _BLOCK - {"p"})
        if name == "div" and self._open[-1:] == ["div"]:
            self._close_last()  # in Markdown, nested `div` look like `div` side by side
        if name in _IMPLIED_ENDS:
            self._close_nearest(*_IMPLIED_ENDS[name])
        if name not in _VOID and len(self._open) >= MAX_DEPTH:
            self._add(" ")
            return
        if name == "li" and self._open[-1:] == ["ol"]:
            self._count_item()
        attributes = self._attributes(name, rest)
        if name == "img" and not attributes.get("src"):
            self._take_text(attributes.get("alt", ""))
            return
        self._add(f"<{name}" + "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items()) + ">")
        if name not in _VOID:
            self._open.append(name)
        if name == "ol":
            self._numbers.append(0)

    def _count_item(self) -> None:
        """Count an item of a numbered list, and split a long list before it."""
        if self._numbers[-1] and self._numbers[-1] % LIST_STRETCH == 0:
            self._add(f'</ol><ol start="{self._numbers[-1] + 1}">')
        self._numbers[-1] += 1

    def _end(self, name: str) -> None:
        # In a cell, an end tag without a start tag does not close what is outside of the cell.
        self._close_nearest(frozenset({name}), frozenset() if name in _TABLE else _CELLS)

    def _close_nearest(self, names: frozenset[str], barrier: frozenset[str]) -> None:
        """Close the nearest open tag of `names` and all in it, unless a tag of `barrier` is nearer."""
        for position in range(len(self._open) - 1, -1, -1):
            if self._open[position] in names:
                while len(self._open) > position:
                    self._close_last()
                return
            if self._open[position] in barrier:
                return

    def _close_last(self) -> None:
        name = self._open.pop()
        self._add(f"</{name}>")
        if name == "ol":
            self._numbers.pop()

    def _add(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)

    def _attributes(self, name: str, rest: str) -> dict[str, str]:
        """Return the attributes of this tag that Markdown needs, each once."""
        wanted = _ATTRIBUTES.get(name, ())
        found: dict[str, str] = {}
        for match in re.finditer(_ATTRIBUTE, rest) if wanted else ():
            attribute = match["name"].lower()
            value = html.unescape(match["double"] or match["single"] or match["bare"] or "").strip()
            if attribute in wanted and attribute not in found and len(value) <= MAX_ATTRIBUTE:
                found[attribute] = self._absolute(value) if attribute in ("href", "src") else value
        return found

    def _absolute(self, reference: str) -> str:
        """Return the absolute address of a link or image; empty when the reference is no address, or a script."""
        try:
            address = urljoin(self._base_url, reference)
        except ValueError:
            return ""
        return "" if address.lower().startswith(("javascript:", "data:", "vbscript:")) else address
