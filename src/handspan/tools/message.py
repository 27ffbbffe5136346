"""Messages to people on other channels: `message` (SPEC B)."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import structs

from handspan.core.channels import OutgoingMessage
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import Annotations, Handling, ToolSpec, parameters, string
from handspan.core.values import Json, JsonObject


class MessageDelivery(Protocol):
    """Sends messages to channels."""

    @property
    def missing(self) -> str:
        """Why no message can be sent; empty when a channel can be used."""
        ...

    @property
    def channels_text(self) -> str:
        """The channels and what a chat is in each, as the end of the tool's description."""
        ...

    async def send(self, message: OutgoingMessage) -> str:
        """Send the message, and return once the channel has delivered it.

        Raises `ToolError` when the channel refuses the message or does not exist.
        """
        ...


class SendMessage:
    """Sends one message to one chat."""

    spec = ToolSpec(
        name="message",
        description="Send a message to a chat on a configured channel.",
        parameters=parameters(
            "channel",
            "chat_id",
            "content",
            channel=string("The channel, such as 'telegram'.", minLength=1),
            chat_id=string("The chat on that channel.", minLength=1),
            content=string("The text to send.", minLength=1),
        ),
        annotations=Annotations(open_world=True),
    )

    def __init__(self, delivery: MessageDelivery | None = None) -> None:
        self._delivery = delivery
        self.handling = Handling(missing="no channel is configured" if delivery is None else delivery.missing)
        if delivery is not None:
            self.spec = structs.replace(self.spec, description=f"{self.spec.description}{delivery.channels_text}")

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> JsonObject:
        """Send the message. Return the channel, the chat and the length of the content in bytes."""
        channel, chat_id, content = (str(arguments[name]) for name in ("channel", "chat_id", "content"))
        if self._delivery is None:  # the engine runs no tool whose `handling.missing` has a text
            raise ToolError("tool_not_available", f"The message was not sent: {self.handling.missing}.")
        about = (channel, chat_id, content, ctx.who.owner, ctx.session)
        await self._delivery.send(OutgoingMessage(*about, id=ctx.call_id))
        length = len(content.encode("utf-8", "replace"))
        return {"status": "sent", "channel": channel, "chat_id": chat_id, "content_length": length}
