"""Everything that the Apprise library knows (mail, Slack, Signal, ntfy, …), by an address in the settings.

Apprise opens its own connections: `tools.url_policy` does not hold for them. The operator chose the address, and a chat
can't change its host.
"""

import asyncio
import importlib
import importlib.util
from typing import Final
from urllib.parse import quote, urlsplit

from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ConfigError, ToolError

PLACE: Final = "{chat_id}"
ONLY_CHAT: Final = "default"
_SECONDS: Final = 25.0
_LIBRARY: Final = "apprise"


class AppriseChannel:
    """One address of Apprise. With `{chat_id}` in it there are many chats, else one: `default`."""

    def __init__(self, name: str, url: str) -> None:
        """Raise `ConfigError` when the library is missing, or the chat stands where it must not."""
        self._name = name
        self._url = url
        if PLACE in urlsplit(url).netloc:
            raise ConfigError(f"channels.{name}.url: {PLACE} may stand behind the host only, in the path or the query.")
        if importlib.util.find_spec(_LIBRARY) is None:
            text = f"channels.{name} needs a library that is not installed ({_LIBRARY})"
            raise ConfigError(f"{text}: pip install 'handspan[channels]'")

    def check(self) -> None:
        """Raise `ConfigError` for an address that the library does not know. Takes a second: not on the event loop."""
        if not importlib.import_module(_LIBRARY).Apprise().add(self._url.replace(PLACE, "1")):
            text = f"channels.{self._name}.url is no address that Apprise knows: it begins as 'mailto://' or 'ntfy://'"
            raise ConfigError(f"{text}. `apprise --details` lists them.")

    async def deliver(self, message: OutgoingMessage) -> str:
        """Send the message through Apprise. Raises `ToolError` when it does not go out."""
        url = self._address(message.chat_id)
        try:
            async with asyncio.timeout(_SECONDS):
                is_sent = await asyncio.to_thread(self._notify, url, message.content)
        except TimeoutError:
            text = f"{self._name!r} did not answer within {_SECONDS:g} s: the message may have arrived."
            raise ToolError("timeout", text) from None
        if not is_sent:
            text = f"Apprise could not deliver it through {self._name!r}. `handspan channels test {self._name}` tries"
            raise ToolError("network_error", f"{text} again, and the gateway's log has what Apprise says.")
        return ""

    def _address(self, chat_id: str) -> str:
        if PLACE in self._url:
            return self._url.replace(PLACE, quote(chat_id, safe=""))
        if chat_id != ONLY_CHAT:
            text = f"The channel {self._name!r} leads to one place only: use the chat_id {ONLY_CHAT!r}, not"
            raise ToolError("invalid_arguments", f"{text} {chat_id[:60]!r}.")
        return self._url

    def _notify(self, url: str, content: str) -> bool:
        sender = importlib.import_module(_LIBRARY).Apprise()  # it takes a second to load, so only a use loads it
        return bool(sender.add(url) and sender.notify(body=content, body_format="text"))
