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


def read_options(letters: str, names: str, word: str) -> tuple[list[str], str | None] | None:
    """Return the options in this word and the value of the last one; as value None if that is the next word.

    The known options are written as for getopt. `letters`: `n`, `n:` with a value, `n::` with a value in the same word.
    `names`: `lines`, `lines=` with a value, `color=?` with a value in the same word. None: an option is not known.
    """
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        name, known = option[2:], names.split()
        if f"{name}=" in known:
            return [option], value if equals else None
        return ([option], value) if f"{name}=?" in known or (name in known and not equals) else None
    found: list[str] = []
    for index, letter in enumerate(word[1:], start=2):
        place = letters.find(letter)
        if place < 0 or letter == ":":
            return None
        found.append(f"-{letter}")
        if letters.startswith(":", place + 1):
            is_whole = index < len(word) or letters.startswith("::", place + 1)
            return found, word[index:] if is_whole else None
    return found, ""


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
