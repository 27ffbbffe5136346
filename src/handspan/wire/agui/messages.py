"""Messages of AG-UI, as a client sends them and as a snapshot tells them."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType


class PartSource(Struct, frozen=True, rename="camel"):
    """Where a medium is: in `value` itself (`data`, base64), at an address (`url`), or stored (`file`, its id)."""

    type: str
    value: str
    mime_type: str | None = None


class InputPart(Struct, frozen=True, rename="camel"):
    """A part of a message. Which fields count depends on the type. `binary` is a part of versions before 1.0."""

    type: str
    text: str | None = None
    source: PartSource | None = None
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    id: str | None = None
    filename: str | None = None


class NamedCall(Struct, frozen=True):
    """The tool of a call, and its arguments as JSON."""

    name: str
    arguments: str = ""


class MadeCall(Struct, frozen=True):
    """A call of a reply."""

    id: str
    function: NamedCall
    type: str = "function"


class InputMessage(Struct, frozen=True, rename="camel"):
    """A message of the conversation, as the client has it. Which fields count depends on the role."""

    id: str
    role: str
    content: Any = None
    """A text, a list of parts, or what an application has made of it."""
    tool_calls: list[MadeCall] | None = None
    tool_call_id: str | None = None
    error: str | None = None

    @property
    def calls(self) -> list[MadeCall]:
        """The calls of a reply."""
        return self.tool_calls or []


class ThreadMessage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A message of the conversation, as a snapshot tells it."""

    id: str
    role: str
    content: Any = UNSET
    tool_calls: list[MadeCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET
