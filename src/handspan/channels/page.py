"""The owner's own pages and WebSocket clients as a channel."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ToolError

ShowMessage: TypeAlias = Callable[[OutgoingMessage], Awaitable[bool]]
"""Shows a message to the owner's clients, and returns whether there is one."""
EVERY_CLIENT: Final = "all"


async def show_nowhere(_: OutgoingMessage) -> bool:
    """Show a message where there is no gateway, and so no client."""
    return False


class PageChannel:
    """Shows messages on open pages and in connected clients."""

    def __init__(self, show: ShowMessage) -> None:
        self._show = show

    async def deliver(self, message: OutgoingMessage) -> str:
        """Show the message. Raises `ToolError` when no client is there to show it."""
        if await self._show(message):
            return ""
        text = "No page of the person is in view, and no client that shows messages is connected"
        if message.chat_id == EVERY_CLIENT:
            raise ToolError("disconnected", f"{text}. Send it on another channel.")
        where = f"in the session {message.chat_id[:60]!r}"
        remedy = f"Send it on another channel, or with chat_id {EVERY_CLIENT!r} to all clients."
        raise ToolError("disconnected", f"{text} {where}. {remedy}")
