"""Programs that run other programs, and which part of their words those are."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from handspan.tools.shell.script import Word


class ComputedCommand(ValueError):
    """What would run is decided only when it runs, or by options that are not known here."""


class WrappedCommand(Struct, frozen=True):
    """What a command would run in turn."""

    commands: tuple[Sequence[Word], ...] = ()
    texts: tuple[str, ...] = ()
    """For a shell to read."""
    assignments: tuple[Word, ...] = ()


class _Wrapper(Struct, frozen=True):
    """The options of a program that end where the command it runs begins."""

    flags: str = ""
    valued: str = ""
    """Letters that take a value: the rest of their word, or the next one."""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    operands: int = 0
    """How many words stand between the options and the command."""
    assigns: bool = False
    only_looks: str = ""
    """With one of these letters it runs nothing."""


def _names(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


_WRAPPERS: Final = {
    "env": _Wrapper("i0v", "uC", _names("ignore-environment null debug"), _names("unset chdir"), assigns=True),
    "nice": _Wrapper("0123456789", "n", long_valued=_names("adjustment")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper("cfw", long_flags=_names("ctty fork wait")),
    "time": _Wrapper("apv", "fo", _names("append portability verbose"), _names("format output")),
    "timeout": _Wrapper(
        "v", "ks", _names("foreground preserve-status verbose"), _names("kill-after signal"), operands=1
    ),
    "stdbuf": _Wrapper("", "ioe", long_valued=_names("input output error")),
    "ionice": _Wrapper("t", "cn", _names("ignore"), _names("class classdata")),
    "command": _Wrapper("p", only_looks="vV"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("cl", "a"),
    "busybox": _Wrapper(),
    "toybox": _Wrapper(),
    "xargs": _Wrapper(
        "0oprtx",
        "adEILnPs",
        _names("null open-tty interactive no-run-if-empty verbose exit show-limits"),
        _names("arg-file delimiter max-lines max-args max-procs max-chars process-slot-var replace eof"),
    ),
}
_SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"))
_FIND_RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def find_wrapped(name: str, words: Sequence[Word]) -> WrappedCommand:
    """What the program `name` would run with these words; raises `ComputedCommand` where that can't be told."""
    if name in _SHELLS:
        return _read_shell(words)
    if name == "eval":
        return WrappedCommand(texts=(" ".join(_read_literal(word) for word in words),))
    if name == "find":
        return _read_find(words)
    if name == "export":
        return WrappedCommand(assignments=tuple(word for word in words if word.assigns))
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return WrappedCommand()
    return _read_wrapper(name, wrapper, words)


def _read_wrapper(name: str, wrapper: _Wrapper, words: Sequence[Word]) -> WrappedCommand:
    at, values = _after_options(wrapper, words)
    if at is None:
        return WrappedCommand()
    at += wrapper.operands
    assignments = []
    while wrapper.assigns and at < len(words) and words[at].assigns:
        assignments.append(words[at])
        at += 1
    inner = words[at:]
    if name == "xargs" and inner and any(mark and mark in inner[0].text for mark in values):
        raise ComputedCommand("its input would name the program")
    return WrappedCommand(commands=(inner,) if inner else (), assignments=tuple(assignments))


def _after_options(wrapper: _Wrapper, words: Sequence[Word]) -> tuple[int | None, list[str]]:
    """Where the options end (None: nothing is run), and the values that options had."""
    values: list[str] = []
    at = 0
    while at < len(words):
        text = _read_literal(words[at])
        at += 1
        if text == "--":
            return at, values
        if not text.startswith("-") or text == "-":
            return at - 1, values
        if set(text[1:]) & set(wrapper.only_looks):
            return None, values
        value, is_whole = _option(wrapper, text)
        if not is_whole:
            value = _read_literal(words[at]) if at < len(words) else ""
            at += 1
        values.append(value)
    return at, values


def _option(wrapper: _Wrapper, text: str) -> tuple[str, bool]:
    """The value inside this word, and whether the word is whole: otherwise the value is the next word."""
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        if name in wrapper.long_valued:
            return value, bool(equals)
        if name in wrapper.long_flags and not equals:
            return "", True
        raise ComputedCommand(f"the option {text!r} is not known here")
    for index, letter in enumerate(text[1:], start=2):
        if letter in wrapper.valued:
            return text[index:], index < len(text)
        if letter not in wrapper.flags:
            raise ComputedCommand(f"the option {text!r} is not known here")
    return "", True


def _read_shell(words: Sequence[Word]) -> WrappedCommand:
    """The text after `-c`. A script from a file or from standard input is not visible here."""
    reads_text = False
    at = 0
    while at < len(words):
        text = _read_literal(words[at])
        if not text.startswith(("-", "+")) or text in ("-", "--"):
            break
        reads_text = reads_text or (not text.startswith("--") and "c" in text)
        at += 2 if text[-1] in "oO" and not text.startswith("--") else 1
    if at < len(words) and words[at].text in ("-", "--"):
        at += 1
    if not reads_text or at >= len(words):
        return WrappedCommand()
    return WrappedCommand(texts=(_read_literal(words[at]),))


def _read_find(words: Sequence[Word]) -> WrappedCommand:
    commands: list[Sequence[Word]] = []
    at = 0
    while at < len(words):
        text = words[at].text
        at += 1
        if text == "-delete":
            commands.append((Word("rm"),))
        if text in _FIND_RUNS:
            end = at
            while end < len(words) and words[end].text not in (";", "+"):
                end += 1
            commands.append(words[at:end])
            at = end
    return WrappedCommand(commands=tuple(commands))


def _read_literal(word: Word) -> str:
    if not word.is_literal:
        raise ComputedCommand(f"{word.text!r} is computed when it runs")
    return word.text
