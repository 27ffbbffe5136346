"""What a command line is made of: words, simple commands, and the shell's own words before them."""

import re
from typing import Final

from msgspec import Struct

_ASSIGNMENT: Final = r"([A-Za-z_]\w*)\+?="
_SKIPPED: Final = frozenset(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "!", "{", "}"))
_UNKNOWN: Final = frozenset(("case", "esac", "select", "function", "coproc", "[[", "(("))


class Unreadable(ValueError):
    """This text can't be split with certainty; the message says why."""


class Word(Struct, frozen=True):
    """One word after quote removal; what the shell would compute stands in it as it was written."""

    text: str
    is_literal: bool = True
    """Nothing in it is computed: no variable, substitution, glob, brace or tilde."""
    is_bare: bool = True
    """No part of it was quoted: it can be a reserved word."""
    assigns: str = ""
    """The variable that it sets when it stands before a command."""


class SimpleCommand(Struct, frozen=True):
    """One simple command."""

    words: tuple[Word, ...]
    redirections: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((*(word.text for word in self.words), *self.redirections))


class Script(Struct, frozen=True):
    """All simple commands of a text, those inside substitutions included."""

    parts: tuple[SimpleCommand, ...]
    is_literal: bool
    """One command of literal words: no shell is needed to run it."""


def literal_words(argv: tuple[str, ...]) -> tuple[Word, ...]:
    """The words of a command that runs without a shell: nothing in them is special."""
    return tuple(Word(text, is_bare=False, assigns=assigned_variable(text)) for text in argv)


def assigned_variable(text: str) -> str:
    """The variable that a word like `name=value` sets, or nothing."""
    match = re.match(_ASSIGNMENT, text)
    return match[1] if match else ""


def strip_reserved(words: list[Word]) -> list[Word]:
    """The words without the shell's own that stand before a command."""
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
    """Nothing to run stands in `for name in words`: what it runs comes in the parts after it."""
    if len(words) == 2 or (len(words) > 2 and words[2].is_bare and words[2].text == "in"):
        return []
    raise Unreadable("a 'for' is written in an unusual way")
