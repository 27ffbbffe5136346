"""A model that does what the person's message says: for tests that only talk to the gateway from outside.

    call get_browser_locale
    call read_file {"path": "notes.txt"}
    then
    They answered {results}

A line `call NAME` is a call, with its arguments as JSON behind the name. All calls of one round are made at once. A
line `then` begins the next round. Every other line is text of the answer: `{results}` in it stands for the results of
the round before, `{tools}` for the names of the offered tools, both as JSON lists. After the last round, and in an
empty round, the answer is "done". Without tools it calls nothing, as any model.

The round depends on the conversation alone, so a restart in the middle of it changes nothing.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, Message, Part, ResultsMessage, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.models.kept_messages import KeptMessages, message_events
from handspan.models.model import ModelEvent, Projection

_CALL: Final = re.compile(r"call\s+(\S+)\s*(.*)")


@final
class ScriptRound(Struct, frozen=True):
    """What the model does in one answer."""

    lines: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments; the arguments are sent unchanged, also when they are broken."""


@final
class Spoken:
    """A model whose script is the last message of the person. It has no state of its own."""

    @property
    def name(self) -> str:
        return "spoken"

    def projection(self, instructions: str = "") -> KeptMessages:
        """Return an empty conversation."""
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Do what the next round of the script says."""
        assert isinstance(projection, KeptMessages), "a projection belongs to the model that made it"
        for event in message_events(_answer(projection.messages, [spec.name for spec in specs], self.name)):
            yield event


def rounds(script: str) -> list[ScriptRound]:
    """Return the rounds of a script, in order."""
    return [_read_round(part.splitlines()) for part in re.split(r"(?m)^\s*then\s*$", script)]


def _read_round(lines: Sequence[str]) -> ScriptRound:
    read = [(line, _CALL.fullmatch(line)) for line in map(str.strip, lines) if line]
    texts = tuple(line for line, called in read if called is None)
    return ScriptRound(texts, tuple((called[1], called[2]) for _, called in read if called is not None))


def _answer(messages: Sequence[Message], tools: list[str], model: str) -> AssistantMessage:
    """Return the reply that the person's message asks for in this round."""
    script, later = _last_script(messages)
    planned = rounds(script)
    index = sum(isinstance(message, AssistantMessage) for message in later)
    now = planned[index] if index < len(planned) else ScriptRound()
    calls = tuple(CallPart(new_call_id(), name, arguments) for name, arguments in now.calls) if tools else ()
    values = {"{results}": _last_results(later), "{tools}": msgspec.json.encode(tools).decode()}
    text = re.sub(r"\{(?:results|tools)\}", lambda found: values[found[0]], "\n".join(now.lines))
    parts: tuple[Part, ...] = (Text(text),) if text else ()
    return AssistantMessage((*parts, *calls) or (Text("done"),), "calls" if calls else "end", model)


def _last_script(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return the last message of the person, and the messages after it."""
    for index, message in reversed([*enumerate(messages, 1)]):
        if isinstance(message, UserMessage):
            return "\n".join(part.text for part in message.parts if isinstance(part, Text)), messages[index:]
    return "", messages


def _last_results(later: Sequence[Message]) -> str:
    last = later[-1] if later else None
    envelopes = [result.envelope for result in last.results] if isinstance(last, ResultsMessage) else []
    return f"[{','.join(envelopes)}]"
