"""Messages to people on other channels: `message` (SPEC B)."""

from collections.abc import Mapping
from typing import Final, Protocol

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import Annotations, Handling, ToolSpec
from handspan.core.values import Json, JsonObject


class MessageOutlet(Protocol):
    """Sends messages to channels."""

    async def send(self, channel: str, chat_id: str, content: str) -> None:
        """Return when the channel has accepted the message. Raises `ToolError` when it refuses or does not exist."""
        ...


class SendMessage:
    """Sends one message to one chat."""

    spec: Final = ToolSpec(
        name="message",
        description="Send a message to a chat on a configured channel.",
        parameters={
            "type": "object",
            "properties": {
                "channel": {"type": "string", "minLength": 1, "description": "The channel, such as 'telegram'."},
                "chat_id": {"type": "string", "minLength": 1, "description": "The chat on that channel."},
                "content": {"type": "string", "minLength": 1, "description": "The text to send."},
            },
            "required": ["channel", "chat_id", "content"],
            "additionalProperties": False,
        },
        annotations=Annotations(open_world=True),
    )

    def __init__(self, outlet: MessageOutlet | None = None) -> None:
        self._outlet = outlet
        missing = "" if outlet else "no channel is configured, and this version has none"
        self.handling = Handling(missing=missing)

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> JsonObject:
        """Return the channel, the chat and the length of the content in bytes."""
        channel, chat_id, content = (str(arguments[name]) for name in ("channel", "chat_id", "content"))
        if self._outlet is None:  # the engine calls no tool that misses something
            raise ToolError("tool_not_available", f"The message was not sent: {self.handling.missing}.")
        await self._outlet.send(channel, chat_id, content)
        length = len(content.encode("utf-8", "replace"))
        return {"status": "sent", "channel": channel, "chat_id": chat_id, "content_length": length}
