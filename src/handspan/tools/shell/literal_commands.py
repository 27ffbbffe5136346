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
from handspan.tools.shell.script import read_options

Operands: TypeAlias = Literal["text", "none", "format", "paths", "one_path", "files", "pattern_then_paths"]
"""What the words that are not options mean. `files`: paths, but not of folders. `text`: nothing is checked."""


class _CommandRules(Struct, frozen=True):
    """The operands and options that one command may get."""

    operands: Operands
    letters: str = ""
    names: str = ""
    """Both in the form of `read_options`."""
    counts: bool = False
    """Whether a number, such as `-5`, is an option."""


_HEAD_TAIL: Final = _CommandRules("paths", "qvzn:c:", "quiet silent verbose zero-terminated lines= bytes=", counts=True)

LITERAL_COMMANDS: Final = {
    "echo": _CommandRules("text"),
    "pwd": _CommandRules("none", "LP", "logical physical"),
    "date": _CommandRules("format", "uRd:I::", "utc universal rfc-email date= rfc-3339= iso-8601=?"),
    "cat": _CommandRules(
        "paths", "AbeEnstTuv", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"
    ),
    "head": _HEAD_TAIL,
    "tail": _HEAD_TAIL,
    "wc": _CommandRules("paths", "cmlLw", "bytes chars lines max-line-length words total="),
    "grep": _CommandRules(
        "pattern_then_paths",
        "EFGPivwxclLnHhoqszbaITyre:m:A:B:C:",
        "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
        "line-regexp count files-with-matches files-without-match line-number with-filename no-filename only-matching "
        "quiet silent no-messages null null-data byte-offset text initial-tab recursive regexp= max-count= "
        "after-context= before-context= context= include= exclude= exclude-dir= binary-files= label= color=? colour=?",
        counts=True,
    ),
    "sort": _CommandRules(
        "paths",
        "bdfghiMnRrVcCmsuzk:t:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
        "ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort merge stable unique "
        "zero-terminated key= field-separator= sort= check=?",
    ),
    "uniq": _CommandRules(
        "one_path",
        "cdDuizf:s:w:",
        "count repeated unique ignore-case zero-terminated skip-fields= skip-chars= check-chars= all-repeated=? "
        "group=?",
    ),
    "diff": _CommandRules(
        "files",
        "qsucenybBwiaEZtTU:C:W:I:",
        "normal brief report-identical-files ed rcs side-by-side ignore-case ignore-tab-expansion "
        "ignore-trailing-space ignore-space-change ignore-all-space ignore-blank-lines text strip-trailing-cr "
        "expand-tabs initial-tab left-column suppress-common-lines minimal width= ignore-matching-lines= label= "
        "tabsize= unified=? context=? color=?",
    ),
    "stat": _CommandRules("paths", "ftLc:", "file-system terse dereference format= printf="),
    "ls": _CommandRules(
        "paths",
        "aAlh1FprtSXdisnogGRcuUvmxCkBQNbqw:I:T:",
        "all almost-all author escape ignore-backups directory file-type full-time group-directories-first no-group "
        "human-readable si inode kibibytes numeric-uid-gid literal hide-control-chars quote-name reverse recursive "
        "size ignore= hide= sort= time= time-style= width= tabsize= format= indicator-style= quoting-style= "
        "block-size= color=? classify=?",
    ),
}
_RECURSIVE: Final = {"grep": ("-r", "--recursive"), "ls": ("-R", "--recursive")}


def check_literal(argv: Sequence[str], workspace: Path, hidden: Sequence[Path]) -> None:
    """Raise `ToolError` for words that could write, start programs or read outside of the workspace."""
    name = argv[0]
    rules = LITERAL_COMMANDS[name]
    if rules.operands == "text":
        return
    options, operands = _split_words(name, rules, argv[1:])
    paths = _find_paths(name, rules, options, operands)
    is_recursive = not options.isdisjoint(_RECURSIVE.get(name, ()))
    for path in paths or (["."] if is_recursive else []):
        real = _resolve_inside(name, path, workspace, hidden)
        if rules.operands == "files" and os.path.isdir(real):
            raise _refusal(f"{name} may not be given the folder {path!r}: name two files")
        if is_recursive and any(os.path.realpath(secret).startswith(f"{real}/") for secret in hidden):
            raise _refusal(f"{name} may not go through {path!r}, which holds files of the gateway: name its folders")


def _split_words(name: str, rules: _CommandRules, rest: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the options and the operands. Raises `policy_denied` for an option that is not in the table."""
    options: set[str] = set()
    operands: list[str] = []
    waiting = list(reversed(rest))
    while waiting:
        text = waiting.pop()
        if text == "--":
            return options, [*operands, *reversed(waiting)]
        if text == "-" or not text.startswith("-"):
            operands.append(text)
        elif not (rules.counts and text[1:].isdecimal()):
            read = read_options(rules.letters, rules.names, text)
            if read is None:
                raise _refusal(f"{name} may not be given the option {text!r} without a sandbox")
            options.update(read[0])
            if read[1] is None and waiting:
                waiting.pop()
    return options, operands


def _find_paths(name: str, rules: _CommandRules, options: set[str], operands: list[str]) -> list[str]:
    """Return the operands that the command opens as files. Raises `policy_denied` for a forbidden operand."""
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
        case "pattern_then_paths" if options.isdisjoint(("-e", "--regexp")):
            operands = operands[1:]
    return [path for path in operands if path != "-"]


def _resolve_inside(name: str, path: str, workspace: Path, hidden: Sequence[Path]) -> str:
    """Return the real path. Raises `invalid_path` for a path outside of the workspace or a hidden path (SPEC S1)."""
    root = os.path.realpath(workspace)
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(f"{root}/"):
        text = f"{name} may not read {path!r}: it leads out of the workspace. Use a path inside."
        raise ToolError("invalid_path", text)
    for secret in map(os.path.realpath, hidden):
        if real == secret or real.startswith(f"{secret}/"):
            raise ToolError("invalid_path", f"{name} may not read {path!r}: it belongs to the gateway.")
    return real


def _refusal(message: str) -> ToolError:
    return ToolError("policy_denied", f"command not allowed: {message}.")
