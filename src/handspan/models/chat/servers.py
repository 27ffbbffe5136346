"""How servers that speak OpenAI's chat format differ from OpenAI."""

import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct


class ChatServer(Struct, frozen=True):
    """What is special about one server. The defaults are for an unknown server."""

    prints_calls: bool = True
    """A model behind it may print tool calls as text, and the server does not turn them into calls."""
    sends_usage_unasked: bool = False
    """It refuses `stream_options`, and sends the token counts without it."""
    answers_before_user: bool = False
    """It refuses a user message directly after tool messages: an assistant message has to stand between."""
    id_pattern: str = r"[!-~]+"
    """The ids of calls that it takes. Only OpenAI has a limit of 40; Mistral wants nine letters and digits."""
    reasoning_field: str = ""
    """It requires this field in every assistant message with calls, even if it is empty."""


ANY_SERVER: Final = ChatServer()
OPENAI: Final = ChatServer(prints_calls=False, id_pattern=r"[!-~]{1,40}")
MISTRAL: Final = ChatServer(sends_usage_unasked=True, answers_before_user=True, id_pattern=r"[A-Za-z0-9]{9}")
DEEPSEEK: Final = ChatServer(reasoning_field="reasoning_content")

_BY_HOST: Final = (
    (re.compile(r"(.*\.)?(openai\.com|openai\.azure\.com)"), OPENAI),
    (re.compile(r"(.*\.)?mistral\.ai"), MISTRAL),
    (re.compile(r"(.*\.)?(deepseek\.com|moonshot\.(ai|cn))"), DEEPSEEK),
)


def server_at(base_url: str) -> ChatServer:
    """Return what is known about the server at this URL."""
    host = urlsplit(base_url).hostname or ""
    return next((server for pattern, server in _BY_HOST if pattern.fullmatch(host)), ANY_SERVER)
