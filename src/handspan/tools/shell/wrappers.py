"""Programs that run other programs: which of their words are the inner command."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from handspan.tools.shell.script import Word, read_options


class ComputedCommand(ValueError):
    """The inner command can't be found: it is computed at run time, or follows an option that is not in the table."""


class WrappedCommand(Struct, frozen=True):
    """The inner commands that a command runs."""

    commands: tuple[Sequence[Word], ...] = ()
    texts: tuple[str, ...] = ()
    """Command lines for a shell."""
    assignments: tuple[Word, ...] = ()
    """The variables that are set for the inner command."""


class _Wrapper(Struct, frozen=True):
    """The options of a program, in the form of `read_options`. The inner command begins after them."""

    letters: str = ""
    names: str = ""
    operands: int = 0
    """The number of words between the options and the command."""
    assigns: bool = False
    """Whether assignments may stand before the command."""
    runs_nothing: str = ""
    """With one of these letters the program runs nothing."""


_WRAPPERS: Final = {
    "env": _Wrapper("i0vu:C:", "ignore-environment null debug unset= chdir=", assigns=True),
    "nice": _Wrapper("0123456789n:", "adjustment="),
    "nohup": _Wrapper(),
    "setsid": _Wrapper("cfw", "ctty fork wait"),
    "time": _Wrapper("apvf:o:", "append portability verbose format= output="),
    "timeout": _Wrapper("vk:s:", "foreground preserve-status verbose kill-after= signal=", operands=1),
    "stdbuf": _Wrapper("i:o:e:", "input= output= error="),
    "ionice": _Wrapper("tc:n:", "ignore class= classdata="),
    "command": _Wrapper("p", runs_nothing="vV"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("cla:"),
    "busybox": _Wrapper(),
    "toybox": _Wrapper(),
    "xargs": _Wrapper(
        "0oprtxa:d:E:I:L:n:P:s:",
        "null open-tty interactive no-run-if-empty verbose exit show-limits arg-file= delimiter= max-lines= max-args= "
        "max-procs= max-chars= process-slot-var= replace= eof=",
    ),
}
_SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"))
_FIND_RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def find_wrapped(name: str, words: Sequence[Word]) -> WrappedCommand:
    """Return what the program `name` runs with these words. Raises `ComputedCommand` when that can't be found."""
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
    """Return the command that this wrapper runs, without the wrapper's own options and operands."""
    at, values = _skip_options(wrapper, words)
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


def _skip_options(wrapper: _Wrapper, words: Sequence[Word]) -> tuple[int | None, list[str]]:
    """Return where the options end (None: nothing runs), and the values of the options."""
    values: list[str] = []
    at = 0
    while at < len(words):
        text = _read_literal(words[at])
        at += 1
        if text == "--":
            return at, values
        if not text.startswith("-") or text == "-":
            return at - 1, values
        if set(text[1:]) & set(wrapper.runs_nothing):
            return None, values
        options = read_options(wrapper.letters, wrapper.names, text)
        if options is None:
            raise ComputedCommand(f"the option {text!r} is not known here")
        value = options[1]
        if value is None:
            value = _read_literal(words[at]) if at < len(words) else ""
            at += 1
        values.append(value)
    return at, values


def _read_shell(words: Sequence[Word]) -> WrappedCommand:
    """Return the text after `-c`. A script in a file or on standard input can't be seen in the command line."""
    reads_text = False
    at = 0
    while at < len(words):
        text = _read_literal(words[at])
        if not text.startswith(("-", "+")) or text in ("-", "--"):
            break
        reads_text = reads_text or (not text.startswith("--") and "c" in text)
        at += 2 if text[-1] in "oO" and not text.startswith("--") else 1  # after `-o`, the next word is no command
    if at < len(words) and words[at].text in ("-", "--"):
        at += 1
    if not reads_text or at >= len(words):
        return WrappedCommand()
    return WrappedCommand(texts=(_read_literal(words[at]),))


def _read_find(words: Sequence[Word]) -> WrappedCommand:
    """Return the commands after `-exec` and the like; `-delete` counts as `rm`."""
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
    """Return the text of a literal word. Raises `ComputedCommand` for a computed word."""
    if not word.is_literal:
        raise ComputedCommand(f"{word.text!r} is computed when it runs")
    return word.text
