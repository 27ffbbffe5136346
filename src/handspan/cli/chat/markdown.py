"""Markdown as a terminal shows it. Loads rich, so only a terminal loads this module."""

from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, HorizontalRule, Markdown, Paragraph
from rich.rule import Rule
from rich.segment import Segment
from rich.theme import Theme

THEME: Final = Theme(
    {
        "markdown.code": "bold cyan",
        "markdown.h1": "bold underline",
        "markdown.link": "blue",
        "markdown.link_url": "underline blue",
    }
)
"""Colours of the terminal's own palette and no backgrounds: they can be read on light and dark."""


_WIDEST: Final = 120
"""Columns of a line of words: longer ones are hard to read. Code and tables may be as wide as the terminal."""


_INLINE: Final = {"softbreak": "hardbreak", "html_inline": "text"}
"""Parts of a line, and as what they are shown."""


class ReadableParagraph(Paragraph):
    """A paragraph whose lines stay short enough to read."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its text."""
        self.text.justify = self.justify
        yield from console.render(self.text, options.update(width=min(options.max_width, _WIDEST)))


class ThinRule(HorizontalRule):
    """A horizontal rule with the line of tables: rich writes hyphens, across the whole terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line."""
        yield from console.render(Rule(style="markdown.hr"), options.update(width=min(options.max_width, _WIDEST)))


class LeftHeading(Heading):
    """A heading at the left margin: rich centres it in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its text."""
        self.text.justify = "left"
        yield self.text


class ChatMarkdown(Markdown):
    """Markdown with our headings, paragraphs and rules. HTML is shown as it is written: rich leaves it out."""

    elements = {  # noqa: RUF012 - as rich has it
        **Markdown.elements,
        "heading_open": LeftHeading,
        "paragraph_open": ReadableParagraph,
        "html_block": ReadableParagraph,
        "hr": ThinRule,
    }


def make_markdown(text: str, *, is_light: bool) -> Markdown:
    """Return the text to print. A line break stays one: models and tools mean it so."""
    made = ChatMarkdown(text, code_theme="ansi_light" if is_light else "ansi_dark", hyperlinks=False)
    for token in made.parsed:
        if token.type == "html_block":
            token.content = token.content.rstrip("\n")
        for child in token.children or ():
            child.type = _INLINE.get(child.type, child.type)
    return made


class BlockLines:
    """A block without the empty lines that rich puts around some blocks. `most`: only that many of its last lines."""

    def __init__(self, of: RenderableType, most: int | None = None) -> None:
        self._of = of
        self._most = most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._of, options, pad=False)
        filled = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        kept = lines[filled[0] : filled[-1] + 1] if filled else []
        for line in kept if self._most is None else kept[-self._most :]:
            yield from line
            yield Segment.line()
