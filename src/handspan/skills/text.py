"""A skill's words before a model reads them: nothing invisible, no control tokens, variables filled in (SPEC A3, S4).

Control tokens are the marks with which chat templates tell roles and turns apart. In a skill they could only pretend to
be somebody else's turn, so they are taken out, also when taking one out would put another one together.
"""

import re
from collections.abc import Mapping
from typing import Final

from handspan.core.values import strip_invisible

_GAP: Final = r"\s{0,4}"  # every repetition is bounded: no text takes long
_TAGS: Final = (
    r"system(?:[-_](?:prompt|message|reminder|instructions?))?|start_of_turn|end_of_turn"
    r"|tool_calls?|tool_responses?|function_calls|antml:[a-z_]{1,32}"
)
_BRACKETED: Final = r"INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT"
_TOKEN: Final = (
    rf"(?i)<[|｜][^<>|｜\n]{{1,64}}[|｜]>"  # <|im_start|> and its kin
    rf"|<{_GAP}/?{_GAP}(?:{_TAGS})(?:\s[^<>\n]{{0,100}})?{_GAP}/?>"  # <system>, </system>
    rf"|</?(?:s|bos|eos)>"
    rf"|<<{_GAP}/?{_GAP}SYS{_GAP}>>"
    rf"|\[{_GAP}/?{_GAP}(?:{_BRACKETED}){_GAP}\]"  # [INST], [/INST]
)
_LONGEST: Final = 200
"""Characters of a token, at most."""
_LONE_SURROGATE: Final = r"[\ud800-\udfff]"
_VARIABLE: Final = r"\{\{\s{0,8}([A-Za-z_][A-Za-z0-9_-]{0,63})\s{0,8}\}\}"


def has_control_token(text: str) -> bool:
    """Whether a mark that chat templates use stands in this text."""
    return re.search(_TOKEN, text) is not None


def clean_text(text: str) -> str:
    """The text without invisible characters and control tokens; cleaning it again changes nothing."""
    token = re.compile(_TOKEN)
    text = token.sub("", re.sub(_LONE_SURROGATE, "", strip_invisible(text)))
    start = 0
    while found := token.search(text, start):
        text = text[: found.start()] + text[found.end() :]
        start = max(0, found.start() - _LONGEST)  # what now stands together may be a token itself
    return text


def find_variables(text: str) -> tuple[str, ...]:
    """The names that stand as `{{name}}` in the text, each as often as it does."""
    return tuple(re.findall(_VARIABLE, text))


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """The text with `{{name}}` replaced by its value where there is one. Values are not looked into for variables."""
    # A value could complete a token that the text began.
    return clean_text(re.sub(_VARIABLE, lambda found: values.get(found[1], found[0]), text))
