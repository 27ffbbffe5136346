"""What a model is told, for who wants to see it (ws.md 3.6)."""

import msgspec
from msgspec import structs

from handspan.agent.conversation import Conversation
from handspan.agent.turn_events import Prompted
from handspan.core.messages import Message, UserMessage


def prompt_of(conversation: Conversation) -> Prompted:
    """What the model of this conversation is told now."""
    specs = conversation.caller.box.specs()
    tools = [{"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in specs]
    messages = [_for_model(message) for message in conversation.messages]
    told = {"instructions": conversation.caller.agent.instructions, "tools": tools, "messages": messages}
    encoded = msgspec.json.encode(told)
    return Prompted(encoded.decode(), len(encoded) // 4)


def _for_model(message: Message) -> Message:
    return structs.replace(message, id="", turn="") if type(message) is UserMessage else message
