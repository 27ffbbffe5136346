"""`message`: through the bus to a channel, or a clear no."""

import pytest

from handspan.core.channels import OutgoingMessage
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.tools.message import SendMessage

pytestmark = pytest.mark.anyio

ARGUMENTS = {"channel": "telegram", "chat_id": "42", "content": "Grüße"}


class Outbox:
    """A bus that knows one channel and keeps what it was given."""

    channels_text = " Channels: telegram."

    def __init__(self, missing: str = "") -> None:
        self.missing = missing
        self.sent: list[OutgoingMessage] = []

    async def send(self, message: OutgoingMessage) -> str:
        if message.channel != "telegram":
            raise ToolError("execution_failed", f"There is no channel {message.channel!r}.")
        self.sent.append(message)
        return ""


async def test_without_a_channel_the_tool_says_what_it_misses(ctx: ToolContext) -> None:
    assert SendMessage().handling.missing == "no channel is configured"
    assert SendMessage(Outbox("its token is missing")).handling.missing == "its token is missing"
    assert SendMessage(Outbox()).handling.missing == ""
    with pytest.raises(ToolError, match="The message was not sent: no channel is configured") as refused:
        await SendMessage().run(ARGUMENTS, ctx)
    assert refused.value.code == "tool_not_available"


async def test_what_the_bus_refuses_is_refused(ctx: ToolContext) -> None:
    outbox = Outbox()
    with pytest.raises(ToolError, match="no channel 'pigeon'"):
        await SendMessage(outbox).run({**ARGUMENTS, "channel": "pigeon"}, ctx)
    assert outbox.sent == []


async def test_a_message_goes_to_its_chat_and_the_answer_says_so(ctx: ToolContext) -> None:
    outbox = Outbox()
    answer = await SendMessage(outbox).run(ARGUMENTS, ctx)
    assert outbox.sent == [OutgoingMessage("telegram", "42", "Grüße", ctx.who.owner, ctx.session, id=ctx.call_id)]
    assert answer == {"status": "sent", "channel": "telegram", "chat_id": "42", "content_length": 7}


def test_it_reaches_people_outside() -> None:
    assert SendMessage(Outbox()).spec.description.endswith(" Channels: telegram.")
    assert SendMessage.spec.annotations.open_world
    assert not SendMessage.spec.annotations.read_only
