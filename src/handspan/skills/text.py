"""Cleaning a skill's text for a model: no invisible characters, no control tokens, variables filled in (SPEC A3, S4).

Control tokens are the marks by which chat templates separate roles and turns. In a skill they could only imitate a turn
of the person or the system, so they are removed, also those that appear when another one is removed.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from handspan.core.values import strip_invisible

_GAP: Final = r"\s{0,4}"  # every repetition is bounded, so that no text takes long
_TAGS: Final = (
    r"system(?:[-_](?:prompt|message|reminder|instructions?))?|start_of_turn|end_of_turn"
    r"|tool_calls?|tool_responses?|function_calls|antml:[a-z_]{1,32}"
)
_BRACKETED: Final = r"INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT"
_TOKEN: Final = (
    rf"(?i)<[|｜][^<>|｜\n]{{1,64}}[|｜]>"  # <|im_start|> and similar ones
    rf"|<{_GAP}/?{_GAP}(?:{_TAGS})(?:\s[^<>\n]{{0,100}})?{_GAP}/?>"  # <system>, </system>
    rf"|</?(?:s|bos|eos)>"
    rf"|<<{_GAP}/?{_GAP}SYS{_GAP}>>"
    rf"|\[{_GAP}/?{_GAP}(?:{_BRACKETED}){_GAP}\]"  # [INST], [/INST]
)
_LONGEST: Final = 200
"""The most characters of a token."""
_LONE_SURROGATE: Final = r"[\ud800-\udfff]"
_VARIABLE: Final = r"\{\{\s{0,8}([A-Za-z_][A-Za-z0-9_-]{0,63})\s{0,8}\}\}"


class WrittenValue(Struct, frozen=True):
    """The line of a key, and its plain value exactly as written."""

    line: int
    text: str | None = None


def clean_text(text: str) -> str:
    """Return the text without invisible characters and control tokens. Cleaning it again changes nothing."""
    text = strip_invisible(text)
    if not text.isascii():
        text = re.sub(_LONE_SURROGATE, "", text)
    if "<" not in text and "[" not in text:  # every token begins with one of them; most short texts have none
        return text
    token = re.compile(_TOKEN)
    text = token.sub("", text)
    start = 0
    while found := token.search(text, start):
        text = text[: found.start()] + text[found.end() :]
        start = max(0, found.start() - _LONGEST)  # the text before and after may form a new token
    return text


def find_variables(text: str) -> tuple[str, ...]:
    """Return the names of all `{{name}}` in the text, with repetitions."""
    return tuple(re.findall(_VARIABLE, text))


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """Return the text with each `{{name}}` replaced by its value, if it has one. Variables in values stay."""
    # A value could complete a token that begins in the text.
    return clean_text(re.sub(_VARIABLE, lambda found: values.get(found[1], found[0]), text))
