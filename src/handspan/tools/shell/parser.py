"""The parser of command lines: finds all simple commands of a text, as a POSIX shell would.

The parser knows quotes, lists, pipes, subshells, groups, loops, `$( )`, backticks, assignments, redirections and
here-documents. It raises `Unreadable` for texts that shells read in different ways, and for what it does not know: the
policy must not guess.
"""

import re
from typing import Final

from handspan.tools.shell.script import Script, SimpleCommand, Unreadable, Word, assigned_variable, strip_reserved

MAX_PARTS: Final = 64
MAX_NESTING: Final = 16

_WORD_ENDS: Final = frozenset(" \t\n;&|<>()")
# Patterns are text: `re` compiles them at their first use and caches them.
_OPERATOR: Final = r"&&|\|\||;;|\|&|[;&|]"
_REDIRECTION: Final = r"<<<|<<-|<<|<&|<>|<|>>|>&|>\||>"
_ARITHMETIC: Final = r"[\w\s+\-*/%<>=!&|^~?:,()$]*"
_SPECIAL_PARAMETERS: Final = frozenset("@*#?-$!0123456789")


def read_script(text: str) -> Script:
    """Return the simple commands of `text`. Raises `Unreadable` when the text can't be split with certainty."""
    reader = _Reader(text, [], 0)
    reader.read_commands("")
    parts = tuple(reader.parts)
    words = parts[0].words if parts else ()
    literal = all(word.is_literal for word in words) and not (words and words[0].assigns)
    return Script(parts, is_literal=reader.is_literal and len(parts) == 1 and literal and not parts[0].redirections)


class _WordBuilder:
    """Collects the characters of one word."""

    def __init__(self) -> None:
        self.text = ""
        self.unquoted = ""
        """The text with NUL for each quoted or computed character. Only the others may be special for the shell."""
        self.is_bare = True
        """Whether no part was quoted."""
        self.is_literal = True
        """Whether no part was computed."""

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.text += text
        self.unquoted += "\0" * len(text) if quoted else text
        self.is_bare = self.is_bare and not quoted

    def add_computed(self, text: str) -> None:
        self.add(text, quoted=True)
        self.is_literal = False

    def build(self) -> Word:
        literal = self.is_literal and not _is_expanded_later(self.unquoted)
        return Word(self.text, literal, self.is_bare, assigned_variable(self.unquoted))


def _is_expanded_later(unquoted: str) -> bool:
    """Whether a shell expands something in these characters: a glob, braces or a tilde."""
    if "*" in unquoted or "?" in unquoted or unquoted.startswith("~") or "=~" in unquoted:
        return True
    # A regular expression with several `.*` would need cubic time, and 64 KB are judged on the event loop.
    in_brackets = unquoted.find("["), unquoted.rfind("]")
    first, last = unquoted.find("{"), unquoted.rfind("}")
    in_braces = unquoted[first + 1 : last] if 0 <= first < last else ""
    return 0 <= in_brackets[0] < in_brackets[1] or "," in in_braces or ".." in in_braces


class _Reader:
    """Reads one text from left to right. The commands of substitutions become parts like all others."""

    def __init__(self, text: str, parts: list[SimpleCommand], nesting: int) -> None:
        self.text = text
        self.at = 0
        """The position of the next character."""
        self._last_end = len(text.rstrip())
        """Where the text ends, without the spaces and line ends at its end."""
        self.parts = parts
        self.nesting = nesting
        self.is_literal = True
        """Whether the text has had no operator, redirection, comment or subshell so far."""
        self._documents: list[tuple[str, bool, bool]] = []
        """The here-documents that begin after this line: end mark, whether tabs are stripped, whether it is quoted."""
        self._words: list[Word] = []
        """The words of the command that is being read."""
        self._redirections: list[str] = []
        """The redirections of the command that is being read."""

    def read_commands(self, closing: str) -> None:
        """Read commands up to `closing`, or to the end of the text."""
        outer = self._words, self._redirections
        self._words, self._redirections = [], []
        while self._peek() not in ("", ")"):
            self._read_next()
        if closing and not self._peek():
            raise Unreadable(f"there is no {closing!r} for its opening")
        if self._peek() and not closing:
            raise Unreadable("there is a ')' too many")
        self.at += len(closing)
        self._finish_part()
        if self._documents:
            raise Unreadable("a here-document has no end")
        self._words, self._redirections = outer

    def _read_next(self) -> None:
        """Read one operator, redirection, comment, subshell or word."""
        character = self.text[self.at]
        if character in " \t":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
            self.is_literal = False
        elif character == "\n":
            self._read_line_end()
        elif character == "#":
            self.is_literal = False
            self.at = self._index_of("\n", len(self.text))
        elif character == "(":
            self._read_subshell()
        elif match := re.compile(_OPERATOR).match(self.text, self.at):
            self.is_literal = False
            self.at = match.end()
            self._finish_part()
        elif match := re.compile(_REDIRECTION).match(self.text, self.at):
            self.at = match.end()
            self._read_redirection(match[0])
        else:
            self._read_command_word()

    def _read_command_word(self) -> None:
        word = self._read_word()
        is_descriptor = word.is_bare and word.text.isdecimal() and self._peek() in ("<", ">")
        if not is_descriptor:  # the number of `2>file` belongs to the redirection
            self._words.append(word)

    def _read_subshell(self) -> None:
        if strip_reserved(self._words):
            raise Unreadable("a function is defined, or '(' stands where no shell expects it")
        self.is_literal = False
        self.at += 1
        self._read_nested(self, ")")

    def _read_nested(self, reader: "_Reader", closing: str) -> None:
        """Let the reader, this one or one of another text, read the commands up to `closing`, one level deeper."""
        if self._documents:
            raise Unreadable("a substitution stands on the line of a here-document")
        self._enter_nesting()
        reader.nesting = self.nesting
        reader.read_commands(closing)
        self.nesting -= 1

    def _enter_nesting(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise Unreadable(f"it is nested more than {MAX_NESTING} deep")

    def _finish_part(self) -> None:
        """Add the words and redirections that were read as one command."""
        words = strip_reserved(self._words)
        self.is_literal = self.is_literal and len(words) == len(self._words)
        if words or self._redirections:
            self.parts.append(SimpleCommand(tuple(words), tuple(self._redirections)))
        if len(self.parts) > MAX_PARTS:
            raise Unreadable(f"it has more than {MAX_PARTS} commands")
        self._words, self._redirections = [], []

    # Redirections

    def _read_redirection(self, operator: str) -> None:
        """Read the target of a redirection. A here-document is read later, at the end of its line."""
        self.is_literal = False
        while self._peek() in (" ", "\t"):
            self.at += 1
        if self._peek() in ("", "\n", "(", ")", ";", "&", "|", "<", ">"):
            raise Unreadable(f"nothing that can be read follows {operator!r}")
        target = self._read_word()
        if target.is_bare and not target.text:
            raise Unreadable(f"nothing that can be read follows {operator!r}")
        self._redirections.append(f"{operator} {target.text}")
        if operator in ("<<", "<<-"):
            if not target.is_literal:
                raise Unreadable("the end mark of a here-document is computed")
            self._documents.append((target.text, operator == "<<-", not target.is_bare))

    def _read_line_end(self) -> None:
        self.is_literal = self.is_literal and self.at >= self._last_end
        self.at += 1
        self._finish_part()
        documents, self._documents = self._documents, []
        for mark, strips_tabs, is_quoted in documents:
            self._read_document(mark, strips_tabs=strips_tabs, is_quoted=is_quoted)

    def _read_document(self, mark: str, *, strips_tabs: bool, is_quoted: bool) -> None:
        """Read a here-document up to its end mark. Substitutions in it are commands, too, unless the mark is quoted."""
        lines: list[str] = []
        while self.at < len(self.text):
            end = self._index_of("\n", len(self.text))
            line, self.at = self.text[self.at : end], end + 1
            if (line.lstrip("\t") if strips_tabs else line) == mark:
                if not is_quoted:
                    self._read_expansions("\n".join(lines))
                return
            lines.append(line)
        raise Unreadable(f"the here-document up to {mark!r} has no end")

    def _read_expansions(self, body: str) -> None:
        """Add the commands of the substitutions in this text to the parts."""
        reader = _Reader(body, self.parts, self.nesting)
        builder = _WordBuilder()
        while reader.at < len(body):
            reader._read_quoted(builder)

    # Words

    def _read_word(self) -> Word:
        builder = _WordBuilder()
        while self.at < len(self.text) and self.text[self.at] not in _WORD_ENDS:
            self._read_character(builder)
        return builder.build()

    def _read_character(self, builder: _WordBuilder) -> None:
        """Read the next character of a word, or what is quoted or computed there."""
        character = self.text[self.at]
        if character == "\\":
            self._read_escape(builder)
        elif character == "'":
            end = self._index_of("'", -1, after=1)
            builder.add(self._between(self.at + 1, end), quoted=True)
            builder.is_bare = False
            self.at = end + 1
        elif character == '"':
            self._read_double_quotes(builder)
        elif character == "$":
            self._read_dollar(builder, is_quoted=False)
        elif character == "`":
            self._read_backticks(builder)
        else:
            builder.add(character)
            self.at += 1

    def _read_escape(self, builder: _WordBuilder) -> None:
        if self.at + 1 >= len(self.text):
            raise Unreadable("it ends with a backslash")
        if self.text[self.at + 1] != "\n":
            builder.add(self.text[self.at + 1], quoted=True)
        self.at += 2

    def _read_double_quotes(self, builder: _WordBuilder) -> None:
        builder.is_bare = False
        self.at += 1
        while self._peek() != '"':
            if self.at >= len(self.text):
                raise Unreadable("a double quote is not closed")
            self._read_quoted(builder)
        self.at += 1

    def _read_quoted(self, builder: _WordBuilder) -> None:
        """Read one character or substitution inside of double quotes."""
        character = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2]
        if character == "\\" and following and following in '$`"\\\n':
            builder.add(following.strip("\n"), quoted=True)
            self.at += 2
        elif character == "$":
            self._read_dollar(builder, is_quoted=True)
        elif character == "`":
            self._read_backticks(builder)
        else:
            builder.add(character, quoted=True)
            self.at += 1

    # Expansions

    def _read_dollar(self, builder: _WordBuilder, *, is_quoted: bool) -> None:
        """Read what begins with `$`: a substitution, a variable, arithmetic, or a plain `$`."""
        start = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            self._read_arithmetic()
        elif following == "(":
            self.at += 2
            self._read_nested(self, ")")
        elif following == "{":
            self._read_braces()
        elif following in ("'", '"') and not is_quoted:
            raise Unreadable(f"shells disagree on ${following}")
        elif self.text.startswith("\\\n", self.at + 1):
            raise Unreadable("a '$' stands before a line continuation")
        elif following in _SPECIAL_PARAMETERS or following.isalpha() or following in ("_", "["):
            self.at += 2
        else:
            builder.add("$", quoted=True)
            self.at += 1
            return
        builder.add_computed(self.text[start : self.at])

    def _read_arithmetic(self) -> None:
        """Read `$((…))`. Raises `Unreadable` when it may hold more than numbers and variables."""
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

    def _read_braces(self) -> None:
        """Read `${…}`. Commands in it become parts; its text does not count."""
        self._enter_nesting()
        self.at += 2
        ignored = _WordBuilder()
        while self._peek() != "}":
            match self._peek():
                case "":
                    raise Unreadable("a '${' is not closed")
                case "'":
                    raise Unreadable("shells disagree on quotes inside ${ }")
                case '"':
                    self._read_double_quotes(ignored)
                case "\\":
                    self._read_escape(ignored)
                case _:
                    self._read_quoted(ignored)
        self.at += 1
        self.nesting -= 1

    def _read_backticks(self, builder: _WordBuilder) -> None:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        body = re.sub(r"\\([$`\\])", r"\1", self._between(self.at + 1, end if end < len(self.text) else -1))
        self._read_nested(_Reader(body, self.parts, self.nesting), "")
        builder.add_computed(self.text[self.at : end + 1])
        self.at = end + 1

    # Position

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _index_of(self, character: str, otherwise: int, *, after: int = 0) -> int:
        """Return where the character comes next, at least `after` characters ahead; `otherwise` if it does not."""
        index = self.text.find(character, self.at + after)
        return otherwise if index < 0 else index

    def _between(self, start: int, end: int) -> str:
        if end < 0:
            raise Unreadable("a quote is not closed")
        return self.text[start:end]
