"""Where servers that speak OpenAI's chat format differ from OpenAI, and from each other."""

import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct


class ChatServer(Struct, frozen=True):
    """What one server wants otherwise. As it stands here: any server that we know nothing about."""

    prints_calls: bool = True
    """A model behind it may print a tool call as text, since nobody has read it for us."""
    sends_usage_unasked: bool = False
    """It refuses `stream_options` and counts tokens anyway."""
    answers_before_user: bool = False
    """It refuses a user message straight after tool messages: an assistant's has to stand between."""
    id_pattern: str = r"[!-~]{1,40}"
    """The ids of calls that it takes: 40 characters is OpenAI's limit, nine letters and digits are Mistral's."""
    reasoning_field: str = ""
    """It wants this field in every assistant message with calls, even an empty one."""


ANY_SERVER: Final = ChatServer()
OPENAI: Final = ChatServer(prints_calls=False)
MISTRAL: Final = ChatServer(sends_usage_unasked=True, answers_before_user=True, id_pattern=r"[A-Za-z0-9]{9}")
DEEPSEEK: Final = ChatServer(reasoning_field="reasoning_content")

_BY_HOST: Final = (
    (re.compile(r"(.*\.)?(openai\.com|openai\.azure\.com)"), OPENAI),
    (re.compile(r"(.*\.)?mistral\.ai"), MISTRAL),
    (re.compile(r"(.*\.)?(deepseek\.com|moonshot\.(ai|cn))"), DEEPSEEK),
)


def server_at(base_url: str) -> ChatServer:
    """What is known of the server at this URL."""
    host = urlsplit(base_url).hostname or ""
    return next((server for pattern, server in _BY_HOST if pattern.fullmatch(host)), ANY_SERVER)
