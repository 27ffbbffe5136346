"""The parts of a command line: words, simple commands, and the reserved words of the shell."""

import re
from typing import Final

from msgspec import Struct

_ASSIGNMENT: Final = r"([A-Za-z_]\w*)\+?="
_SKIPPED: Final = frozenset(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}"))
_UNKNOWN: Final = frozenset(("case", "esac", "select", "function", "coproc", "[[", "(("))


class Unreadable(ValueError):
    """The text can't be split with certainty. The message says why."""


class Word(Struct, frozen=True):
    """One word without its quotes. Parts that the shell would compute stay as they are written."""

    text: str
    is_literal: bool = True
    """The shell computes nothing in the word: no variable, substitution, glob, brace or tilde."""
    is_bare: bool = True
    """No part of the word is quoted, so it can be a reserved word."""
    assigns: str = ""
    """The variable that the word sets before a command; empty when it sets none."""


class SimpleCommand(Struct, frozen=True):
    """One simple command: its words and redirections."""

    words: tuple[Word, ...]
    redirections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((*(word.text for word in self.words), *self.redirections))


class Script(Struct, frozen=True):
    """All simple commands of a text, also those inside of substitutions."""

    parts: tuple[SimpleCommand, ...]
    is_literal: bool
    """The text is one command of literal words, which can run without a shell."""


def options(names: str) -> frozenset[str]:
    """Return the options of these names, such as `--all` for `all`."""
    return frozenset(f"--{name}" for name in names.split())


def literal_words(argv: tuple[str, ...]) -> tuple[Word, ...]:
    """Return the words of a command that runs without a shell: no character in them is special."""
    return tuple(Word(text, is_bare=False, assigns=assigned_variable(text)) for text in argv)


def assigned_variable(text: str) -> str:
    """Return the variable that a word like `name=value` sets, or an empty text."""
    match = re.match(_ASSIGNMENT, text)
    return match[1] if match else ""


def strip_reserved(words: list[Word]) -> list[Word]:
    """Return the words without the reserved words before the command. Raises `Unreadable` for those of `_UNKNOWN`."""
    start = 0
    while start < len(words) and words[start].is_bare and words[start].text in _SKIPPED:
        start += 1
    rest = words[start:]
    if not rest or not rest[0].is_bare:
        return rest
    if rest[0].text in _UNKNOWN:
        raise Unreadable(f"{rest[0].text!r} is not understood here")
    if rest[0].text == "for":
        return _strip_for(rest)
    return rest


def _strip_for(words: list[Word]) -> list[Word]:
    """Return no words for `for name in words`: the commands of the loop are the parts that follow."""
    if len(words) == 2 or (len(words) > 2 and words[2].is_bare and words[2].text == "in"):
        return []
    raise Unreadable("a 'for' is written in an unusual way")
