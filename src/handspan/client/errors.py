"""Errors of the connection to the gateway. Each message says what to do."""

import os
import re
from typing import Final

from handspan.core.errors import ConfigError, HandspanError, ToolError

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF")
_NO_HTTP: Final = ("did not receive a valid HTTP response", "BadStatusLine", "RemoteDisconnected", "ConnectionReset")


class GatewayRefused(HandspanError):
    """The gateway does not accept this client. Trying again does not help; the message says what does."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status of the refusal; 0 when the gateway refused after the upgrade to WebSocket."""


class GatewayUnreachable(HandspanError):
    """No server answers at the gateway's address."""


class StateFileInUse(ConfigError):
    """Another running client uses the state file of this one."""


class MessageTooLarge(HandspanError):
    """The frame is larger than one message to this gateway may be. Nothing was sent."""


class LoginRequired(ToolError):
    """Raised by the code of a tool: the person has to log in first.

    The gateway asks the person, and then sends the call again. A gateway that can't ask gives the message and the hint
    to the model.
    """

    def __init__(self, message: str, *, hint: str = "", intent: str = "") -> None:
        """`hint`: what the person has to do. `intent`: what `start_login` gets when the person wants to begin."""
        super().__init__("auth_required", message)
        self.hint = hint
        self.intent = intent


def explain_failure(url: str, error: Exception) -> str:
    """Return why the server at this address gave no answer, in words for a person: "Connection refused"."""
    # Several addresses may have been tried, each with an error of its own.
    numbers = dict.fromkeys(map(int, re.findall(r"\[Errno (\d+)\]", str(error))))
    words = ", ".join(os.strerror(number) for number in numbers) or getattr(error, "strerror", None) or str(error)
    return f"{words or type(error).__name__}{_explain_scheme(url, error)}"


def _explain_scheme(url: str, error: Exception) -> str:
    """Return a hint when an http client reached an https server, or the reverse; else an empty text."""
    text = f"{type(error).__name__} {error}"
    if url.startswith(("https:", "wss:")):
        return " (is it http there?)" if any(word in text for word in _NO_TLS) else ""
    return " (is it https there?)" if any(word in text for word in _NO_HTTP) else ""


class NotOpened(Exception):
    """One attempt to open a connection failed. The next attempt may succeed."""

    def __init__(self, why: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        """The HTTP status of the refusal; 0 when no server answered."""
        self.body = body
