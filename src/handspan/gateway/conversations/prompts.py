"""What a model is told, for who wants to see it (ws.md 3.6)."""

import msgspec
from msgspec import structs

from handspan.agent.session import Session
from handspan.core.messages import Message, UserMessage
from handspan.gateway.conversations.turn_events import Prompted


def prompt_of(session: Session) -> Prompted:
    """What the session's model is told now."""
    specs = session.caller.box.specs()
    tools = [{"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in specs]
    messages = [_for_model(message) for message in session.messages]
    told = {"instructions": session.caller.agent.instructions, "tools": tools, "messages": messages}
    encoded = msgspec.json.encode(told)
    return Prompted(encoded.decode(), len(encoded) // 4)


def _for_model(message: Message) -> Message:
    return structs.replace(message, id="", turn="") if type(message) is UserMessage else message
