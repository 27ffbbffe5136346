"""A command line as a POSIX shell would see it: its simple commands, wherever they hide in it.

The reader knows quotes, lists, pipes, subshells, groups, loops, `$( )`, backticks, assignments, redirections and
here-documents. What shells read differently from one another, or what it does not know, is `Unreadable`: whoever
judges a command must not guess.
"""

import re
from typing import Final

from handspan.tools.shell.parts import Script, SimpleCommand, Unreadable, Word, assigned, without_reserved

MOST_PARTS: Final = 64
MOST_NESTING: Final = 16

_WORD_ENDS: Final = frozenset(" \t\n;&|<>()")
# Patterns as text: `re` compiles them when they are first used, and keeps them.
_OPERATOR: Final = r"&&|\|\||;;|\|&|[;&|]"
_REDIRECTION: Final = r"<<<|<<-|<<|<&|<>|<|>>|>&|>\||>"
_ARITHMETIC: Final = r"[\w\s+\-*/%<>=!&|^~?:,()$]*"
_EXPANDED_LATER: Final = r"(?s)[*?]|\[.*\]|^~|=~|\{.*(,|\.\.).*\}"
_SPECIAL_PARAMETERS: Final = frozenset("@*#?-$!0123456789")


def read_script(text: str) -> Script:
    """The simple commands of `text`; raises `Unreadable` where it can't be split with certainty."""
    reader = _Reader(text, [], 0)
    reader.script("")
    parts = tuple(reader.parts)
    words = parts[0].words if parts else ()
    literal = all(word.literal for word in words) and not (words and words[0].assigns)
    return Script(parts, is_plain=reader.plain and len(parts) == 1 and literal and not parts[0].redirections)


class _Spelling:
    """A word while it is read."""

    def __init__(self) -> None:
        self.text = ""
        self.unquoted = ""
        """The text with each quoted or computed character replaced: what the shell still looks at."""
        self.bare = True
        self.literal = True

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.text += text
        self.unquoted += "\0" * len(text) if quoted else text
        self.bare = self.bare and not quoted

    def add_computed(self, text: str) -> None:
        self.add(text, quoted=True)
        self.literal = False

    def word(self) -> Word:
        literal = self.literal and not re.search(_EXPANDED_LATER, self.unquoted)
        return Word(self.text, literal, self.bare, assigned(self.unquoted))


class _Reader:
    """Reads one text from left to right. Substitutions are read in place, and their commands are parts like others."""

    def __init__(self, text: str, parts: list[SimpleCommand], nesting: int) -> None:
        self.text = text
        self.at = 0
        self.parts = parts
        self.nesting = nesting
        self.plain = True
        self._documents: list[tuple[str, bool, bool]] = []
        self._words: list[Word] = []
        self._redirections: list[str] = []

    def script(self, closing: str) -> None:
        """Read commands up to `closing`, or to the end of the text."""
        outer = self._words, self._redirections
        self._words, self._redirections = [], []
        while self._more(closing):
            self._step()
        self._finish_part()
        if self._documents:
            raise Unreadable("a here-document has no end")
        self._words, self._redirections = outer

    def _more(self, closing: str) -> bool:
        if self.at >= len(self.text):
            if closing:
                raise Unreadable(f"there is no {closing!r} for its opening")
            return False
        if self.text[self.at] == ")":
            if not closing:
                raise Unreadable("there is a ')' too many")
            self.at += 1
            return False
        return True

    def _step(self) -> None:
        character = self.text[self.at]
        if character in " \t":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
            self.plain = False
        elif character == "\n":
            self._end_line()
        elif character == "#":
            self.plain = False
            self.at = self._index_of("\n", len(self.text))
        elif character == "(":
            self._subshell()
        elif match := re.compile(_OPERATOR).match(self.text, self.at):
            self.plain = False
            self.at = match.end()
            self._finish_part()
        elif match := re.compile(_REDIRECTION).match(self.text, self.at):
            self.at = match.end()
            self._redirect(match[0])
        else:
            self._word_of_command()

    def _word_of_command(self) -> None:
        word = self._word()
        is_descriptor = word.bare and word.text.isdecimal() and self._next() in ("<", ">")
        if not is_descriptor:  # in `2>file` the number belongs to the redirection
            self._words.append(word)

    def _subshell(self) -> None:
        if without_reserved(self._words):
            raise Unreadable("a function is defined, or '(' stands where no shell expects it")
        self.plain = False
        self.at += 1
        self._nested()

    def _nested(self) -> None:
        if self._documents:
            raise Unreadable("a substitution stands on the line of a here-document")
        self._go_deeper()
        self.script(")")
        self.nesting -= 1

    def _go_deeper(self) -> None:
        self.nesting += 1
        if self.nesting > MOST_NESTING:
            raise Unreadable(f"it is nested more than {MOST_NESTING} deep")

    def _finish_part(self) -> None:
        words = without_reserved(self._words)
        self.plain = self.plain and len(words) == len(self._words)
        if words or self._redirections:
            self.parts.append(SimpleCommand(tuple(words), tuple(self._redirections)))
        if len(self.parts) > MOST_PARTS:
            raise Unreadable(f"it has more than {MOST_PARTS} commands")
        self._words, self._redirections = [], []

    # Redirections

    def _redirect(self, operator: str) -> None:
        self.plain = False
        self._skip_blanks()
        if self._next() in ("", "\n", "(", ")", ";", "&", "|", "<", ">"):
            raise Unreadable(f"nothing that can be read follows {operator!r}")
        target = self._word()
        if target.bare and not target.text:
            raise Unreadable(f"nothing that can be read follows {operator!r}")
        self._redirections.append(f"{operator} {target.text}")
        if operator in ("<<", "<<-"):
            if not target.literal:
                raise Unreadable("the end mark of a here-document is computed")
            self._documents.append((target.text, operator == "<<-", not target.bare))

    def _end_line(self) -> None:
        self.plain = self.plain and not self.text[self.at :].strip()
        self.at += 1
        self._finish_part()
        documents, self._documents = self._documents, []
        for mark, strips_tabs, is_quoted in documents:
            self._document(mark, strips_tabs, is_quoted)

    def _document(self, mark: str, strips_tabs: bool, is_quoted: bool) -> None:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self._index_of("\n", len(self.text))
            line, self.at = self.text[self.at : end], end + 1
            if (line.lstrip("\t") if strips_tabs else line) == mark:
                if not is_quoted:
                    self._expansions_in("\n".join(lines))
                return
            lines.append(line)
        raise Unreadable(f"the here-document up to {mark!r} has no end")

    def _expansions_in(self, body: str) -> None:
        reader = _Reader(body, self.parts, self.nesting)
        spelling = _Spelling()
        while reader.at < len(body):
            reader._quoted_step(spelling)

    # Words

    def _word(self) -> Word:
        spelling = _Spelling()
        while self.at < len(self.text) and self.text[self.at] not in _WORD_ENDS:
            self._spell(spelling)
        return spelling.word()

    def _spell(self, spelling: _Spelling) -> None:
        character = self.text[self.at]
        if character == "\\":
            self._escape(spelling)
        elif character == "'":
            end = self._index_of("'", -1, after=1)
            spelling.add(self._between(self.at + 1, end), quoted=True)
            spelling.bare = False
            self.at = end + 1
        elif character == '"':
            self._double_quotes(spelling)
        elif character == "$":
            self._dollar(spelling, is_quoted=False)
        elif character == "`":
            self._backticks(spelling)
        else:
            spelling.add(character)
            self.at += 1

    def _escape(self, spelling: _Spelling) -> None:
        if self.at + 1 >= len(self.text):
            raise Unreadable("it ends with a backslash")
        if self.text[self.at + 1] != "\n":
            spelling.add(self.text[self.at + 1], quoted=True)
        self.at += 2

    def _double_quotes(self, spelling: _Spelling) -> None:
        spelling.bare = False
        self.at += 1
        while self._next() != '"':
            if self.at >= len(self.text):
                raise Unreadable("a double quote is not closed")
            self._quoted_step(spelling)
        self.at += 1

    def _quoted_step(self, spelling: _Spelling) -> None:
        character = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2]
        if character == "\\" and following and following in '$`"\\\n':
            spelling.add(following.strip("\n"), quoted=True)
            self.at += 2
        elif character == "$":
            self._dollar(spelling, is_quoted=True)
        elif character == "`":
            self._backticks(spelling)
        else:
            spelling.add(character, quoted=True)
            self.at += 1

    # Expansions

    def _dollar(self, spelling: _Spelling, *, is_quoted: bool) -> None:
        start = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            self._arithmetic()
        elif following == "(":
            self.at += 2
            self._nested()
        elif following == "{":
            self._braces()
        elif following in ("'", '"') and not is_quoted:
            raise Unreadable(f"shells disagree on ${following}")
        elif self.text.startswith("\\\n", self.at + 1):
            raise Unreadable("a line is continued right after a '$'")
        elif following in _SPECIAL_PARAMETERS or following.isalpha() or following in ("_", "["):
            self.at += 2
        else:
            spelling.add("$", quoted=True)
            self.at += 1
            return
        spelling.add_computed(self.text[start : self.at])

    def _arithmetic(self) -> None:
        depth, start = 0, self.at + 3
        for index in range(start, len(self.text)):
            depth += {"(": 1, ")": -1}.get(self.text[index], 0)
            if depth < 0:
                body = self.text[start:index]
                if self.text[index + 1 : index + 2] != ")" or not re.fullmatch(_ARITHMETIC, body) or "$(" in body:
                    break
                self.at = index + 2
                return
        raise Unreadable("the arithmetic in it is too intricate")

    def _braces(self) -> None:
        self._go_deeper()
        self.at += 2
        ignored = _Spelling()
        while self._next() != "}":
            match self._next():
                case "":
                    raise Unreadable("a '${' is not closed")
                case "'":
                    raise Unreadable("shells disagree on quotes inside ${ }")
                case '"':
                    self._double_quotes(ignored)
                case "\\":
                    self._escape(ignored)
                case _:
                    self._quoted_step(ignored)
        self.at += 1
        self.nesting -= 1

    def _backticks(self, spelling: _Spelling) -> None:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        body = re.sub(r"\\([$`\\])", r"\1", self._between(self.at + 1, end if end < len(self.text) else -1))
        if self._documents:
            raise Unreadable("a substitution stands on the line of a here-document")
        self._go_deeper()
        _Reader(body, self.parts, self.nesting).script("")
        self.nesting -= 1
        spelling.add_computed(self.text[self.at : end + 1])
        self.at = end + 1

    # Looking around

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip_blanks(self) -> None:
        while self._next() in (" ", "\t"):
            self.at += 1

    def _index_of(self, character: str, otherwise: int, *, after: int = 0) -> int:
        index = self.text.find(character, self.at + after)
        return otherwise if index < 0 else index

    def _between(self, start: int, end: int) -> str:
        if end < 0:
            raise Unreadable("a quote is not closed")
        return self.text[start:end]
