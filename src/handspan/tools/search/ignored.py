"""The rules of a `.gitignore` file: which paths below its folder are ignored."""

import re
from typing import Final

from handspan.tools.search.globs import has_open_bracket, name_regex, path_regex

RULES_FILE: Final = ".gitignore"
MAX_BYTES: Final = 512 * 1024
_MAX_RULES: Final = 5000
_LONGEST_RULE: Final = 1000


class _RuleGroup:
    """Rules in a row that all ignore, or all take back. Rules without a slash are for the name, others for the path."""

    def __init__(self, *, takes_back: bool) -> None:
        self.takes_back = takes_back
        """Whether these rules begin with `!`: they take back what earlier rules ignore."""
        self._regexes: dict[tuple[bool, bool], list[str]] = {}
        """By kind: whether the rule is for a path, and whether it is only for folders."""
        self._compiled: dict[tuple[bool, bool], re.Pattern[str]] = {}

    def add(self, rule: str) -> None:
        """Add one rule, which is a line of the file. A rule that can match nothing is left out."""
        if has_open_bracket(rule):  # such a rule matches nothing, as in git
            return
        is_for_folders = rule.endswith("/")
        rule = rule.rstrip("/")
        is_path = "/" in rule
        regex = path_regex(rule.lstrip("/")) if is_path else name_regex(rule)
        try:
            re.compile(regex)
        except re.error:  # a class such as [z-a]
            return
        self._regexes.setdefault((is_path, is_for_folders), []).append(regex)

    def compile(self) -> None:
        self._compiled = {kind: re.compile("|".join(found), re.DOTALL) for kind, found in self._regexes.items()}

    def matches(self, name: str, path: str, *, is_folder: bool) -> bool:
        return any(
            (is_folder or not is_for_folders) and pattern.fullmatch(path if is_path else name) is not None
            for (is_path, is_for_folders), pattern in self._compiled.items()
        )


class IgnoreRules:
    """The rules of one file. The last rule that matches decides."""

    def __init__(self, text: str) -> None:
        groups: list[_RuleGroup] = []
        for line in text.splitlines()[:_MAX_RULES]:
            rule = line if line.endswith("\\ ") else line.rstrip()
            if not rule or rule.startswith("#") or len(rule) > _LONGEST_RULE:
                continue
            takes_back = rule.startswith("!")
            if not groups or groups[-1].takes_back != takes_back:
                groups.append(_RuleGroup(takes_back=takes_back))
            groups[-1].add(rule.removeprefix("!"))
        for group in groups:
            group.compile()
        self._groups = groups[::-1]

    def judge(self, name: str, path: str, *, is_folder: bool) -> bool | None:
        """Return whether the path is ignored; None when no rule matches. `path` is relative to the rules' folder."""
        for group in self._groups:
            if group.matches(name, path, is_folder=is_folder):
                return not group.takes_back
        return None
