"""Breaks lines between words, where a terminal would break them anywhere."""

import shutil
from typing import TextIO


def wrap_for(stream: TextIO, text: str, indent: int = 0, *, margin: int = 0) -> str:
    """Return the text as it is written to this stream: a terminal gets lines that fit, a file or a program all of it.

    `indent`: spaces before each added line. `margin`: columns that the caller puts before each line.
    """
    if not stream.isatty():
        return text
    return wrap_text(text, shutil.get_terminal_size().columns - margin, indent)


def wrap_text(text: str, width: int, indent: int = 0) -> str:
    """Return the text with lines that fit. A word that fits on no line stays whole: it may be an address to copy."""
    return "\n".join("\n".join(_wrap_line(line, width, indent)) for line in text.split("\n"))


def _wrap_line(line: str, width: int, indent: int) -> list[str]:
    lines = [""]
    for number, word in enumerate(line.split(" ")):
        if number and len(lines[-1]) + 1 + len(word) > width and len(word) <= width - indent:
            lines.append(" " * indent + word)
        else:
            lines[-1] += f" {word}" if number else word
    return lines
