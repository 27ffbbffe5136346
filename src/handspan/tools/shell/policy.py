"""The command policy (SPEC S3): decides from the text alone whether a command may run. It looks up and runs nothing.

The policy judges every visible part: each command of a list or pipe, commands in substitutions and after assignments,
and what wrappers such as `env`, `xargs`, `find -exec` or `sh -c` run.

The policy prevents accidents. It is not a security boundary: its default list has interpreters, and their actions are
not visible in a command line. The sandbox is the boundary. So two rules are milder for a command in the sandbox:
- A dangerous pattern counts only where it is a command. `grep -r reboot .` only has it as an argument.
- In deny-list mode a text that the parser can't read runs, unless a pattern stands anywhere in it.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, Literal

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.mounts import WORKSPACE
from handspan.tools.shell.parser import read_script
from handspan.tools.shell.script import Script, SimpleCommand, Unreadable, Word, literal_words
from handspan.tools.shell.wrappers import ComputedCommand, find_wrapped

DEFAULT_ALLOWLIST: Final = (
    *("echo", "cat", "ls", "pwd", "head", "tail", "wc", "grep", "find", "sort", "uniq", "diff", "date", "env"),
    *("true", "false", "test", "which", "basename", "dirname", "stat", "file", "readlink"),
    *("sed", "awk", "cut", "tr", "tee", "xargs"),
    *("mkdir", "cp", "mv", "touch", "rm", "ln", "chmod"),
    *("cd", "export", "source", "type", "command"),
    *("git", "cargo", "rustc", "npm", "npx", "node", "python", "python3"),
)
_RARE: Final = ("weft", "claude-flow")
"""Commands that are allowed by default, too. No refusal proposes them: hardly any machine has them."""
DANGEROUS_PATTERNS: Final = (
    *("rm -rf /", "sudo ", "mkfs", "dd if=", ":(){ :|:& };:", "chmod 777 /", "> /dev/sd"),
    *("shutdown", "reboot", "poweroff", "format c:"),
)
_INSTEAD: Final = {
    "rm -rf /": "remove by paths that are relative to the workspace",
    "chmod 777 /": "change modes by paths that are relative to the workspace",
    "sudo ": "run it without sudo, as no command here gets more rights",
    "dd if=": "make or cut files with head -c, tail -c, truncate or cp",
    "> /dev/sd": "write to a file of the workspace",
}
MAX_BYTES: Final = 65_536
SETTING: Final = "tools.command_policy.allow_also"

_SYSTEM_FOLDERS: Final = frozenset(("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"))
_OTHER_NAMES: Final = {"[": "test", ":": "true", ".": "source"}
_DECIDE_WHAT_RUNS: Final = frozenset(("PATH", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "PS4"))
"""Variables that decide which programs run."""
_MAX_NESTING: Final = 16
_UNREADABLE: Final = r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]"


class CommandPolicy(Struct, frozen=True):
    """Which commands may run. An empty allow list means the default list. Dangerous patterns are always refused."""

    mode: Literal["auto", "allowlist", "denylist"] = "auto"
    """`auto`: the deny list in a sandbox if `allowlist` is empty; otherwise the allow list."""
    allowlist: tuple[str, ...] = ()
    """Names of programs, or full paths of programs outside of the system's folders. An entry of several words allows
    only commands that begin with all of them."""
    allow_also: tuple[str, ...] = ()
    """More entries of the allow list."""
    denylist: tuple[str, ...] = ()
    """Pieces of text, in upper or lower case. They also count in allow-list mode."""
    in_sandbox: bool = False
    """Whether the command will run in the sandbox."""

    @property
    def is_allow_list(self) -> bool:
        """Whether only listed commands run."""
        return self.mode == "allowlist" or (self.mode == "auto" and not (self.in_sandbox and not self.allowlist))

    @property
    def listed_commands(self) -> tuple[str, ...]:
        """The commands of the allow list that are worth a proposal."""
        return (*(self.allowlist or DEFAULT_ALLOWLIST), *self.allow_also)

    def judge_text(self, command: str) -> Script:
        """Return what a shell would run for this text. Raises `policy_denied` when the text may not run."""
        check_readable([command])
        return self._judge_text(command, 0)

    def judge_argv(self, argv: Sequence[str]) -> None:
        """Raise `policy_denied` when this program with its arguments may not run. No shell reads the arguments."""
        check_readable(argv)
        self._refuse_patterns([" ".join(argv)], with_dangers=not self.in_sandbox)
        self._judge_words(literal_words(tuple(argv)), 0)

    def allows(self, name: str, following: Sequence[str] = ()) -> bool:
        """Whether the allow list has this name, or an entry of several words that the command begins with."""
        words = (name, *following)
        rare = () if self.allowlist else _RARE
        entries = (tuple(entry.split()) for entry in (*self.listed_commands, *rare))
        return any(entry == words[: len(entry)] for entry in entries)

    def _judge_text(self, command: str, nesting: int) -> Script:
        """Judge a text for a shell and every command in it. Raises `policy_denied`."""
        self._refuse_patterns([command], with_dangers=not self.in_sandbox)  # before parsing, which may fail
        try:
            script = read_script(command)
        except Unreadable as error:
            return self._judge_unreadable(command, error)
        self._refuse_patterns(map(str, script.parts), with_dangers=not self.in_sandbox)
        for part in script.parts:
            self._judge_part(part, nesting)
        return script

    def _judge_unreadable(self, command: str, error: Unreadable) -> Script:
        """Return the text as one part if the sandbox protects the machine. Raises `policy_denied` otherwise."""
        if self.in_sandbox and not self.is_allow_list:
            self._refuse_patterns([command])
            return Script((SimpleCommand((Word(command, is_literal=False),)),), is_literal=False)
        raise _refusal(
            f"command not allowed: {_short(command)}: {error}, so it can't be judged. Write it more simply, "
            "or put it into several calls."
        ) from error

    def _judge_part(self, part: SimpleCommand, nesting: int) -> None:
        start = 0
        while start < len(part.words) and part.words[start].assigns:
            self._judge_assignment(part.words[start])
            start += 1
        if any(redirection.startswith((">", "<>")) and " /dev/sd" in redirection for redirection in part.redirections):
            raise _danger_error(str(part), "> /dev/sd")
        self._judge_words(part.words[start:], nesting)

    def _judge_words(self, words: Sequence[Word], nesting: int) -> None:
        """Judge a command without its assignments, then the commands that it runs. Raises `policy_denied`."""
        if nesting > _MAX_NESTING:
            raise _refusal(f"command not allowed: commands that run commands, more than {_MAX_NESTING} deep.")
        if not words:
            return
        if pattern := _find_danger([word.text for word in words]):
            raise _danger_error(" ".join(word.text for word in words), pattern)
        following = takewhile(lambda word: word.is_literal, words[1:])
        name = self._judge_name(words[0], [word.text for word in following])
        try:
            runs = find_wrapped(name, words[1:])
        except ComputedCommand as error:
            if not self.is_allow_list:
                return  # a deny list promises nothing about computed commands, and the patterns were checked before
            raise _refusal(
                f"command not allowed: what {name!r} runs can't be judged: {error}. "
                "Write it out literally, or run it directly."
            ) from error
        for word in runs.assignments:
            self._judge_assignment(word)
        for inner in runs.commands:
            self._judge_words(inner, nesting + 1)
        for text in runs.texts:
            self._judge_text(text, nesting + 1)

    def _judge_name(self, word: Word, following: Sequence[str]) -> str:
        """Return the program's name without its folder. Raises `policy_denied` when the program is not allowed."""
        folder, slash, name = word.text.rpartition("/")
        name = _OTHER_NAMES.get(name, name)
        if not self.is_allow_list:
            return name
        if not word.is_literal:
            raise _refusal(
                f"command not allowed: {_short(word.text)}: the command's name is computed. Write it out literally."
            )
        is_of_system = not slash or folder in _SYSTEM_FOLDERS
        if not (is_of_system and self.allows(name, following)) and not (slash and self.allows(word.text, following)):
            raise self._not_listed_error(word.text, name)
        return name

    def _not_listed_error(self, given: str, name: str) -> ToolError:
        longer = [entry for entry in self.listed_commands if entry.split()[0] in (given, name)]
        only = f"Of it only these may run: {', '.join(longer)}. " if longer else ""
        return _refusal(
            f"command not allowed: {_short(given)}. {only}Do it with a file or web tool, or with a listed command: "
            f"{', '.join(self.listed_commands)}. A person can allow it in the setting {SETTING}."
        )

    def _judge_assignment(self, word: Word) -> None:
        name = word.assigns
        if self.is_allow_list and (name in _DECIDE_WHAT_RUNS or name.startswith("LD_")):
            raise _refusal(
                f"command not allowed: {_short(word.text)}: {name!r} decides which programs run. Leave it out."
            )

    def _refuse_patterns(self, texts: Iterable[str], *, with_dangers: bool = True) -> None:
        """Raise `policy_denied` for a text with a pattern of the deny list or, `with_dangers`, a dangerous pattern."""
        seen = [(text, _normal(text)) for text in texts]
        for text, normal in seen:
            for pattern in DANGEROUS_PATTERNS if with_dangers else ():
                if _matches(pattern, normal):
                    raise _danger_error(text, pattern)
        for text, normal in seen:
            for pattern in self.denylist:
                if _matches(pattern, normal):
                    raise _refusal(
                        f"command blocked: {_short(text)} (matched pattern: {pattern}). Do without it; "
                        "a person can change the setting tools.command_policy.denylist."
                    )


def check_readable(words: Sequence[str]) -> None:
    """Raise `invalid_arguments` for an empty or too long command, and for control characters that hide text."""
    if sum(map(len, words)) > MAX_BYTES or sum(len(word.encode(errors="replace")) for word in words) > MAX_BYTES:
        text = f"The command is longer than {MAX_BYTES} bytes: write what is long into a file first and name that file."
        raise ToolError("invalid_arguments", text)
    for word in words:
        if found := re.search(_UNREADABLE, word):
            problem = f"The command holds the control character {found[0]!r}: write it without."
            raise ToolError("invalid_arguments", problem)
    if not "".join(words[:1]).strip():
        raise ToolError("invalid_arguments", "The command is empty: give the command to run.")


def _find_danger(argv: Sequence[str]) -> str:
    """Return the dangerous pattern that has the same effect as this command; empty if there is none."""
    name, options = argv[0].rpartition("/")[2].lower(), argv[1:]
    letters = "".join(option[1:] for option in options if option.startswith("-") and not option.startswith("--"))
    is_outside = any(option.startswith("/") and not _is_scratch(option) for option in options)
    match name:
        case "rm" if is_outside:
            recursive = "r" in letters or "R" in letters or "--recursive" in options
            return "rm -rf /" if recursive and ("f" in letters or "--force" in options) else ""
        case "chmod" if is_outside and {"777", "0777", "a+rwx", "a=rwx", "ugo+rwx"} & set(options):
            return "chmod 777 /"
        case "dd" if any(option.startswith(("if=", "of=/dev/sd")) for option in options):
            return "dd if="
        case "sudo":
            return "sudo "
        case "shutdown" | "reboot" | "poweroff":
            return name
        case "systemctl" if {"reboot", "poweroff"} & set(options):
            return "reboot" if "reboot" in options else "poweroff"
        case "format" if options and options[0].lower() == "c:":
            return "format c:"
    return "mkfs" if name.startswith("mkfs") else ""


def _is_scratch(path: str) -> bool:
    """Whether this path is below the sandbox's workspace or /tmp, where commands may remove anything."""
    return re.match(rf"({WORKSPACE}|/tmp)/+[^/*?]", path) is not None and ".." not in path


def _normal(text: str) -> str:
    """Return the text in lower case, with one space between words."""
    return " ".join(text.lower().split())


def _matches(pattern: str, seen: str) -> bool:
    """Whether the text `seen`, in its `_normal` form, has the pattern. In a pattern with `(`, spaces do not count."""
    wanted = " ".join(pattern.lower().split()) + (" " if pattern.endswith(" ") else "")
    return wanted in seen or ("(" in pattern and wanted.replace(" ", "") in seen.replace(" ", ""))


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}…")


def _danger_error(text: str, pattern: str) -> ToolError:
    advice = _INSTEAD.get(pattern, "do without it")
    return _refusal(f"dangerous command: {_short(text)} (matched pattern: {pattern}). This is never allowed: {advice}.")


def _refusal(message: str) -> ToolError:
    return ToolError("policy_denied", message)
