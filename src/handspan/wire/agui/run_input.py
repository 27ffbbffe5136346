"""The input of a run: who asks, the conversation so far, the client's tools, and answers to interrupts."""

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from handspan.core.errors import WireError
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json
from handspan.wire.agui.messages import InputMessage
from handspan.wire.json_size import MAX_VALUES

VERSION: Final = "1.0"
"""The version of the protocol that is spoken here."""
_Kind = TypeVar("_Kind")


class FrontendTool(Struct, frozen=True):
    """A tool that the client offers."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None


class ContextEntry(Struct, frozen=True):
    """What the application tells the agent beside the conversation."""

    description: str
    value: str


class ResumeEntry(Struct, frozen=True, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunInput(Struct, frozen=True, rename="camel"):
    """The input of a run."""

    thread_id: str
    run_id: str
    messages: list[InputMessage]
    protocol_version: str | None = None
    tools: list[FrontendTool] | None = None
    context: list[ContextEntry] | None = None
    resume: list[ResumeEntry] | None = None
    sent: list[JsonObject] = []
    """The messages as they came, without their nulls: a snapshot repeats what is the client's own."""

    @property
    def knows_new_words(self) -> bool:
        """Whether the client knows what version 1.0 has added: it says that it speaks it, or a later one."""
        major = (self.protocol_version or "").partition(".")[0]
        return major.isdecimal() and int(major) >= 1


class _Sent(Struct, frozen=True):
    messages: list[JsonObject]


def read_run_input(raw: bytes) -> RunInput:
    """Return the input of a run. Raises `WireError`, which names the place that is wrong."""
    value = strict_json.parse(raw, max_values=MAX_VALUES)
    read = convert(value, RunInput)
    if not read.thread_id or not read.run_id:
        raise WireError("threadId and runId must not be empty: give the conversation and the run a name.")
    return structs.replace(read, sent=[_without_nulls(message) for message in convert(value, _Sent).messages])


def _without_nulls(message: JsonObject) -> JsonObject:
    return {name: value for name, value in message.items() if value is not None}


def convert(value: Json, kind: type[_Kind], place: str = "The request") -> _Kind:
    """Return the value as this type. Raises `WireError`, which names the place that is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise WireError(f"{place} can't be read. {error}.") from None
