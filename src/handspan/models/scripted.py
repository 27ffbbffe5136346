"""A model that plays a script, for your tests and ours (SPEC M5).

    model = Scripted([
        call("get_current_time", timezone="Asia/Tokyo"),
        "It is late in Tokyo.",
    ])
    projection = model.projection("You are helpful.")
    projection.append(UserMessage((Text("What time is it in Tokyo?"),)))
    async for event in model.reply(projection, [GetCurrentTime.spec]):
        ...                               # CallDelta, CallDelta, Replied
    model.requests[0].tools               # ("get_current_time",)

A turn is one of these: a text, a call, a list of texts, thoughts and calls, a `ScriptedReply` (with usage or a stop
reason), an exception (such as `ModelError`), or a function that gets the messages so far and returns one of them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias, final

import msgspec
from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, Message, Part, StopReason, Text, Thinking, Usage
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.kept_messages import KeptMessages, message_events
from handspan.models.model import ModelEvent, Projection


@final
class Call(Struct, frozen=True):
    """A tool call of a script. Arguments that are text are sent as they are, even if they are no JSON."""

    name: str
    arguments: JsonObject | str = msgspec.field(default_factory=dict)


def call(name: str, /, **arguments: Json) -> Call:
    """Return a tool call with these arguments: `call("read_file", path="notes.txt")`."""
    return Call(name, dict(arguments))


ScriptedPart: TypeAlias = str | Thinking | Call


@final
class ScriptedReply(Struct, frozen=True):
    """One answer of the model."""

    parts: Sequence[ScriptedPart] = ()
    usage: Usage | None = None
    stop: StopReason | None = None
    """None means `calls` when there are calls, else `end`."""


PlainTurn: TypeAlias = ScriptedPart | Sequence[ScriptedPart] | ScriptedReply | Exception
ScriptTurn: TypeAlias = PlainTurn | Callable[[Sequence[Message]], PlainTurn]


@final
class ModelRequest:
    """A request that the model got."""

    def __init__(self, projection: KeptMessages, tools: tuple[str, ...]) -> None:
        self.tools = tools
        self.instructions = projection.instructions
        self._kept = projection.messages
        self._count = len(projection)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation at the time of the request. It only grows, so its length is enough to know it."""
        return tuple(self._kept[: self._count])


class ScriptOver(HandspanError):
    """The model was asked more often than its script has turns."""


@final
class Scripted:
    """A model that plays these turns, one for each `reply`. `requests` holds what it got."""

    def __init__(self, turns: Sequence[ScriptTurn], *, loop: bool = False, name: str = "scripted") -> None:
        """With `loop`, the script begins again after its last turn; else `ScriptOver` is raised."""
        self._turns = tuple(turns)
        self._loops = loop and bool(turns)
        self.name = name
        self.requests: list[ModelRequest] = []

    def projection(self, instructions: str = "") -> KeptMessages:
        """Return an empty conversation."""
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Play the next turn. If the turn is an exception, it is raised."""
        assert isinstance(projection, KeptMessages), "a projection belongs to the model that made it"
        self.requests.append(ModelRequest(projection, tuple(spec.name for spec in specs)))
        for event in message_events(_build_message(self._next_turn(projection.messages), self.name)):
            yield event

    def _next_turn(self, messages: Sequence[Message]) -> PlainTurn:
        """Return the next turn of the script. Raises `ScriptOver` when there is none."""
        place, count = len(self.requests) - 1, len(self._turns)
        if place >= count and not self._loops:
            last = repr(messages[-1]) if messages else "none"
            quoted = last if len(last) <= 300 else f"{last[:300]}…"
            raise ScriptOver(
                f"The script of model {self.name!r} is over: it has {count} turn{'s' if count != 1 else ''}, and this "
                f"is request {place + 1}. Add a turn, or pass loop=True. The last message: {quoted}"
            )
        turn = self._turns[place % count]
        return turn(messages) if callable(turn) else turn


def _build_message(turn: PlainTurn, model: str) -> AssistantMessage:
    """Return the reply that a turn of the script stands for. Raises it if it is an exception."""
    match turn:
        case Exception():
            raise turn
        case ScriptedReply():
            parts = tuple(_build_part(part) for part in turn.parts)
            has_calls = any(type(part) is CallPart for part in parts)
            return AssistantMessage(parts, turn.stop or ("calls" if has_calls else "end"), model, turn.usage)
        case str() | Thinking() | Call():
            return _build_message(ScriptedReply((turn,)), model)
        case _:
            return _build_message(ScriptedReply(turn), model)


def _build_part(part: ScriptedPart) -> Part:
    """Return the part of a reply that this entry of the script stands for."""
    match part:
        case str():
            return Text(part)
        case Call(name=name, arguments=arguments):
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            return CallPart(new_call_id(), name, text)
        case _:
            return part
