"""The commands that may run without a sandbox, and the arguments that they may get (SPEC S3).

Each command runs as literal words, without a shell, and only reads inside the workspace. An option that is not in the
table is refused. Some refused options write files (`sort -o`), read lists of names (`wc --files0-from`), follow links
out of the workspace (`grep -R`), set the clock (`date -s`) or start programs (`diff -l`, `sort --compress-program`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.shell.script import options

Operands: TypeAlias = Literal["text", "none", "format", "paths", "one_path", "files", "pattern_then_paths"]
"""What the words that are not options mean. `files`: paths, but not of folders. `text`: nothing is checked."""


class _CommandRules(Struct, frozen=True):
    """The options and operands that one command may get."""

    operands: Operands
    flags: str = ""
    """Letters without a value."""
    valued: str = ""
    """Letters with a value: the rest of the word, or the next word."""
    attached: str = ""
    """Letters with an optional value: the rest of the word."""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    """Options with a value: after a `=`, or the next word."""
    long_optional: frozenset[str] = frozenset()
    """Options with an optional value after a `=`."""
    counts: bool = False
    """Whether a number, such as `-5`, is an option."""


_HEAD_TAIL: Final = _CommandRules(
    "paths",
    "qvz",
    "nc",
    "",
    long_flags=options("quiet silent verbose zero-terminated"),
    long_valued=options("lines bytes"),
    counts=True,
)

LITERAL_COMMANDS: Final = {
    "echo": _CommandRules("text"),
    "pwd": _CommandRules("none", "LP", long_flags=options("logical physical")),
    "date": _CommandRules(
        "format",
        "uR",
        "d",
        "I",
        long_flags=options("utc universal rfc-email"),
        long_valued=options("date rfc-3339"),
        long_optional=options("iso-8601"),
    ),
    "cat": _CommandRules(
        "paths",
        "AbeEnstTuv",
        long_flags=options("show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
    ),
    "head": _HEAD_TAIL,
    "tail": _HEAD_TAIL,
    "wc": _CommandRules(
        "paths", "cmlLw", long_flags=options("bytes chars lines max-line-length words"), long_valued=options("total")
    ),
    "grep": _CommandRules(
        "pattern_then_paths",
        "EFGPivwxclLnHhoqszbaITyr",
        "emABC",
        "",
        long_flags=options(
            "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match "
            "word-regexp line-regexp count files-with-matches files-without-match line-number with-filename "
            "no-filename only-matching quiet silent no-messages null null-data byte-offset text initial-tab recursive"
        ),
        long_valued=options(
            "regexp max-count after-context before-context context include exclude exclude-dir binary-files label"
        ),
        long_optional=options("color colour"),
        counts=True,
    ),
    "sort": _CommandRules(
        "paths",
        "bdfghiMnRrVcCmsuz",
        "kt",
        "",
        long_flags=options(
            "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
            "ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort merge stable unique "
            "zero-terminated"
        ),
        long_valued=options("key field-separator sort"),
        long_optional=options("check"),
    ),
    "uniq": _CommandRules(
        "one_path",
        "cdDuiz",
        "fsw",
        "",
        long_flags=options("count repeated unique ignore-case zero-terminated"),
        long_valued=options("skip-fields skip-chars check-chars"),
        long_optional=options("all-repeated group"),
    ),
    "diff": _CommandRules(
        "files",
        "qsucenybBwiaEZtT",
        "UCWI",
        "",
        long_flags=options(
            "normal brief report-identical-files ed rcs side-by-side ignore-case ignore-tab-expansion "
            "ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines text strip-trailing-cr "
            "expand-tabs initial-tab left-column suppress-common-lines minimal"
        ),
        long_valued=options("width ignore-matching-lines label tabsize"),
        long_optional=options("unified context color"),
    ),
    "stat": _CommandRules(
        "paths",
        "ftL",
        "c",
        "",
        long_flags=options("file-system terse dereference"),
        long_valued=options("format printf"),
    ),
    "ls": _CommandRules(
        "paths",
        "aAlh1FprtSXdisnogGRcuUvmxCkBQNbq",
        "wIT",
        "",
        long_flags=options(
            "all almost-all author escape ignore-backups directory file-type full-time group-directories-first "
            "no-group human-readable si inode kibibytes numeric-uid-gid literal hide-control-chars quote-name "
            "reverse recursive size"
        ),
        long_valued=options(
            "ignore hide sort time time-style width tabsize format indicator-style quoting-style block-size"
        ),
        long_optional=options("color classify"),
    ),
}
_RECURSIVE: Final = {"grep": ("r", "--recursive"), "ls": ("R", "--recursive")}


class _CommandWords(Struct):
    """The words of a command by kind."""

    letters: str = ""
    long: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()


def check_literal(argv: Sequence[str], workspace: Path, hidden: Sequence[Path]) -> None:
    """Raise `ToolError` for words that could write, start programs or read outside of the workspace."""
    name = argv[0]
    rules = LITERAL_COMMANDS[name]
    if rules.operands == "text":
        return
    words = _split_words(name, rules, argv[1:])
    paths = _find_paths(name, rules, words)
    is_recursive = _is_recursive(name, words)
    for path in paths or (["."] if is_recursive else []):
        real = _resolve_inside(name, path, workspace, hidden)
        if rules.operands == "files" and os.path.isdir(real):
            raise _refusal(f"{name} may not be given the folder {path!r}: name two files")
        if is_recursive and any(os.path.realpath(secret).startswith(f"{real}/") for secret in hidden):
            raise _refusal(f"{name} may not go through {path!r}, which holds files of the gateway: name its folders")


def _split_words(name: str, rules: _CommandRules, rest: Sequence[str]) -> _CommandWords:
    """Return the words by kind. Raises `policy_denied` for an option that is not in the table."""
    words = _CommandWords()
    waiting = list(reversed(rest))
    while waiting:
        text = waiting.pop()
        if text == "--":
            words.operands += tuple(reversed(waiting))
            break
        if text == "-" or not text.startswith("-"):
            words.operands += (text,)
        elif text.startswith("--"):
            _take_long(name, rules, text, words, waiting=waiting)
        elif not (rules.counts and text[1:].isdecimal()):
            _take_letters(name, rules, text, words, waiting=waiting)
    return words


def _take_long(name: str, rules: _CommandRules, text: str, words: _CommandWords, waiting: list[str]) -> None:
    """Add a long option to `words`, and drop its value from `waiting`."""
    option, equals, _ = text.partition("=")
    words.long += (option,)
    if option in rules.long_valued:
        if not equals and waiting:
            waiting.pop()
    elif option not in rules.long_optional and (equals or option not in rules.long_flags):
        raise _unknown_option(name, text)


def _take_letters(name: str, rules: _CommandRules, text: str, words: _CommandWords, waiting: list[str]) -> None:
    """Add the letters of a short option to `words`, and drop its value from `waiting`."""
    for index, letter in enumerate(text[1:], start=2):
        words.letters += letter
        if letter in rules.attached:
            return
        if letter in rules.valued:
            if index == len(text) and waiting:
                waiting.pop()
            return
        if letter not in rules.flags:
            raise _unknown_option(name, text)


def _find_paths(name: str, rules: _CommandRules, words: _CommandWords) -> list[str]:
    """Return the operands that the command opens as files. Raises `policy_denied` for a forbidden operand."""
    operands = list(words.operands)
    match rules.operands:
        case "none" if operands:
            raise _refusal(f"{name} takes no {operands[0]!r}")
        case "format":
            wrong = next((text for text in operands if not text.startswith("+")), None)
            if wrong is not None:
                raise _refusal(f"{name} may only show the time: {wrong!r} would set it. Write a format as '+%Y-%m-%d'")
            return []
        case "one_path" if len(operands) > 1:
            raise _refusal(f"{name} would write to {operands[1]!r}: give it one file")
        case "pattern_then_paths" if "e" not in words.letters and "--regexp" not in words.long:
            operands = operands[1:]
    return [path for path in operands if path != "-"]


def _is_recursive(name: str, words: _CommandWords) -> bool:
    letter, option = _RECURSIVE.get(name, ("", ""))
    return bool(letter) and (letter in words.letters or option in words.long)


def _resolve_inside(name: str, path: str, workspace: Path, hidden: Sequence[Path]) -> str:
    """Return the real path. Raises `invalid_path` for a path outside of the workspace or a hidden path (SPEC S1)."""
    root = os.path.realpath(workspace)
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(f"{root}/"):
        raise ToolError(
            "invalid_path", f"{name} may not read {path!r}: it leads out of the workspace. Use a path inside."
        )
    for secret in map(os.path.realpath, hidden):
        if real == secret or real.startswith(f"{secret}/"):
            raise ToolError("invalid_path", f"{name} may not read {path!r}: it belongs to the gateway.")
    return real


def _unknown_option(name: str, text: str) -> ToolError:
    return _refusal(f"{name} may not be given the option {text!r} without a sandbox")


def _refusal(message: str) -> ToolError:
    return ToolError("policy_denied", f"command not allowed: {message}.")
