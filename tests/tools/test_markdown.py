"""A page as Markdown: what is kept, what is dropped, and what a hostile page can't do."""

import re
from collections.abc import Iterator

import markdownify
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handspan.tools.markdown import MAX_CLEAN, MAX_SOURCE, html_to_markdown
from tests.thoroughness import repeats, share


def markdown(page: str) -> str:
    return html_to_markdown(page, "http://h.example/a/b").text


# Every one of these took the bare parser and writer minutes, or ended them with an error.
@pytest.mark.flood
@pytest.mark.parametrize(
    "unit",
    [
        *("<a ", "<a b='", "<!--", "</", "<![CDATA[", "<?x ", "<!x ", "<script>", "<div>", "<b>", "<blockquote>"),
        *("<ul><li>", "<ol><li>x", "<table><tr><td>x", "<td colspan=1000000>x", "&#99999999999999999999", "<svg><nav>"),
        *("<", "&", "<a" + " " * 50 + ">", "<a " + "a" * 5000 + ">", "<p> \n", "<q>", "<dl><dt>x<dd>y", '<x y="z'),
    ],
)
def test_a_long_broken_page_is_read_in_bounded_time(unit: str) -> None:
    result = html_to_markdown("before " + unit * (share(200_000) // len(unit)), "http://h.example/")
    assert result.text.startswith("before")


@pytest.mark.flood
def test_a_page_nested_deeper_than_any_writer_likes_keeps_its_text() -> None:
    depth = repeats(5000)
    assert "deep" in markdown("<ul><li><b>" * depth + "deep")
    assert markdown("<div><section>" * depth + "deep" + "</section></div>" * depth + "after") == "deep\n\nafter"


def test_more_content_than_fits_is_cut_and_said_to_be() -> None:
    cut = html_to_markdown("<p>" + "word " * MAX_CLEAN)
    assert cut.truncated
    assert 0 < len(cut.text) <= MAX_CLEAN + 1
    assert html_to_markdown("<!--" + "x" * MAX_SOURCE + "--><p>never seen").truncated
    assert not html_to_markdown("<script>" + "x" * MAX_CLEAN + "</script><p>seen").truncated


@pytest.mark.parametrize(
    "page",
    [
        "<script>var a = '<p>code</p>';</script>seen",
        "<SCRIPT type=x>code</ScRiPt >seen",
        "<style>p { code: 1 }</style>seen",
        "<nav><ul><li><a href=/>code</a></ul></nav>seen",
        "<nav>code<nav>code</nav>code</nav>seen",
        "<svg><title>code</title><path d='code'/></svg>seen",
        "<svg/>seen",
        "<template><p>code</template>seen",
        "<noscript>code</noscript>seen",
        "<head><title>code</title><meta name=code></head><body>seen",
        "<!-- code --><!doctype html><?php code ?>seen",
        "<iframe src=code>code</iframe>seen<script>code",
        "seen<textarea>code",
        "seen<!-- code",
        "seen<a href='code",
        "seen</ code>",
        "</nav>seen",
    ],
)
def test_what_is_not_content_is_left_out(page: str) -> None:
    assert markdown(page) == "seen"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("", ""),
        ("plain text", "plain text"),
        ("3 < 4 & 5 > 2 &amp; &uuml;", "3 < 4 & 5 > 2 & ü"),
        ("<h1>One</h1><h3>Two</h3>", "# One\n\n### Two"),
        ("<p>One<p>Two", "One\n\nTwo"),
        ("<div>One<div>Two</div>Three</div>", "One\n\nTwo\n\nThree"),
        ("<b>bold</b> <em>it</em> <code>x_y*z</code> a_b*c", "**bold** *it* `x_y*z` a_b*c"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<dl><dt>T<dd>D</dl>", "T\n:   D"),
        ("<blockquote>q</blockquote>", "> q"),
        ("<pre>a  b\n  c</pre>", "```\na  b\n  c\n```"),
        ("a<br>b<hr>c", "a  \nb\n\n---\n\nc".replace("  \n", "\n")),
        ("<table><thead><tr><th>K<th>V</thead><tr><td>1<td>2</table>", "| K | V |\n| --- | --- |\n| 1 | 2 |"),
        ("<table><tr><td>a</div><td>b</table>", "| a | b |\n| --- | --- |"),
        ('<a href="../y?q=1&amp;r=2">go</a>', "[go](http://h.example/y?q=1&r=2)"),
        ("<a href=/y title='T \"q\"'>go</a>", '[go](http://h.example/y "T \\"q\\"")'),
        ("<a href=http://other.example/>go</a>", "[go](http://other.example/)"),
        ("<a href='javascript:alert(1)'>go</a>", "go"),
        ("<a href=' JavaScript:alert(1)'>go</a>", "go"),
        ("<a href='http://[broken'>go</a>", "go"),
        ("<a data-href=/no HREF=/yes href=/second>go</a>", "[go](http://h.example/yes)"),
        (f"<a href='{'x' * 3000}'>go</a>", "go"),
        ('<img src=/i.png alt="a b">', "![a b](http://h.example/i.png)"),
        ("<img src='data:image/png;base64,AAAA' alt='a picture'>", "a picture"),
        ("<img>", ""),
        ("<custom-tag attr='>'>kept</custom-tag>", "kept"),
        ("<p title='a > b'>kept</p>", "kept"),
    ],
)
def test_content_keeps_its_form(page: str, expected: str) -> None:
    assert markdown(page) == expected


def test_a_long_numbered_list_is_numbered_to_its_end() -> None:
    text = markdown("<ol>" + "".join("<li>item" for _ in range(250)) + "</ol><ol><li>other</ol>")
    assert "100. item" in text
    assert "101. item" in text
    assert "250. item" in text
    assert "1. other" in text


PIECES = (
    *("<p>", "</p>", "<ul>", "<li>", "</ul>", "<ol>", "</ol>", "<table>", "<tr>", "<td>", "</table>", "<a>", "</a>"),
    *("<b>", "</b>", "<pre>", "</pre>", "<nav>", "</nav>", "<script>", "</script>", "<!--", "-->", "<div>", "</div>"),
    *("<", ">", "&", "&#", "=", "'", '"', "/", "!", "text"),
)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_no_page_is_too_broken_and_none_brings_a_script(pieces: list[str]) -> None:
    assert "<script" not in html_to_markdown("".join(pieces)).text


class BlankCounter:
    """Stands for a pattern of markdownify that needs quadratic time, and notes the longest run of blanks it gets."""

    def __init__(self, pattern: "re.Pattern[str]") -> None:
        self._pattern = pattern
        self.longest = 0

    def sub(self, replacement: str, text: str) -> str:
        self.longest = max([self.longest, *map(len, re.findall(r"[\t \r\n]++", text))])
        return self._pattern.sub(replacement, text)


@pytest.fixture(scope="module")
def quadratic_patterns() -> Iterator[list[BlankCounter]]:
    names = ("re_newline_whitespace", "re_pre_lstrip", "re_pre_rstrip", "re_pre_lstrip1", "re_pre_rstrip1")
    with pytest.MonkeyPatch.context() as patches:
        counters = [BlankCounter(getattr(markdownify, name)) for name in names]
        for name, counter in zip(names, counters, strict=True):
            patches.setattr(markdownify, name, counter)
        yield counters


BLANKS = (
    " ",
    "\t",
    "\n",
    "\r",
    "&#32;",
    "&#x20",
    "&#10;",
    "&Tab;",
    " <x>",
    "\n</i>",
    "<nav> </nav>",
    "<!-- -->",
    "<br>",
)


@given(
    before=st.sampled_from(
        ["", "<p>", "<pre>", "<pre><b>", "<code>", "<ul><li>", "<table><tr><td>", "<blockquote><pre>"]
    ),
    units=st.lists(st.sampled_from(BLANKS), min_size=1, max_size=3),
    after=st.sampled_from(["world", "", "</b>world", "</pre>world"]),
)
def test_a_long_run_of_blanks_never_reaches_a_pattern_that_needs_quadratic_time(
    quadratic_patterns: list[BlankCounter], before: str, units: list[str], after: str
) -> None:
    text = markdown(before + "Hello" + "".join(units) * 50 + after)
    assert "Hello" in text
    assert max(counter.longest for counter in quadratic_patterns) <= 1


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f"<p>Hello{' ' * 20_000}world", "Hello world"),
        (f"<p>Hello{' <x>' * 20_000}world", "Hello world"),
        (f"<p>Hello{' ' * 20_000}\n\t world", "Hello\nworld"),
        (f"<pre>x{' ' * 20_000}y</pre>", f"```\nx{' ' * 20_000}y\n```"),
        ("<pre>\n \n  x\n    y\n\n</pre>", "```\n  x\n    y\n```"),
        ("before<pre> \n </pre>after", "before\n\nafter"),
    ],
)
def test_a_run_of_blanks_is_one_blank_outside_of_preformatted_text(page: str, expected: str) -> None:
    assert markdown(page) == expected
