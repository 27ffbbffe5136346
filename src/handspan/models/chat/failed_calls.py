"""A call that the server refused because the model wrote it wrongly: Groq's error `tool_use_failed`.

It becomes a call that the engine refuses. So the model reads why it failed and goes on, as after every failed call.
"""

import re
from typing import Final

from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart
from handspan.core.values import JsonObject
from handspan.models.json_values import json_object, json_text, mend_text, read_json

_CODE: Final = "tool_use_failed"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST: Final = 8000


def read_failed_call(answer: JsonObject, names: dict[str, str]) -> CallPart | None:
    """Return the call that this error is about; None for another error, or when it names no offered tool.

    The call's arguments are the server's words, which are no JSON on purpose: a call that was refused must not run.
    """
    error = json_object(answer.get("error"))
    if error.get("code") != _CODE:
        return None
    message, written = json_text(error.get("message")), json_text(error.get("failed_generation"))
    words = [word for text in (written, message) for word in _NAME.findall(text)]
    name = next((word for word in words if word in names), None)
    if name is None:
        return None
    refusal = mend_text(f"The server refused this call. {message} {written}".strip())
    return CallPart(new_call_id(), names[name], refusal[:_LONGEST])


def read_failed_reply(body: bytes, names: dict[str, str], model: str) -> AssistantMessage | None:
    """Return a reply with the refused call, in place of this error answer; None for another error."""
    call = read_failed_call(json_object(read_json(body)), names)
    return None if call is None else AssistantMessage((call,), "calls", model)
