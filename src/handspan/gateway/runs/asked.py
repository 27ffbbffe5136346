"""The calls of a suspended run that wait for its client."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from handspan.agent.conversation import Conversation
from handspan.core.calls import CallRecord
from handspan.core.messages import AssistantMessage, CallPart, Message, UserMessage
from handspan.core.store import Ledger
from handspan.core.values import JsonObject
from handspan.gateway.runs.client import RunClient
from handspan.sources.graph import GraphTool
from handspan.wire.ws import arguments_object


class AskedCall(Struct, frozen=True):
    """A call that the client has to run: as the ledger has it, with what hooks and persons have changed."""

    place: int
    """Its place among the calls of the reply."""
    name: str
    """The client's own name of the tool."""
    record: CallRecord

    @property
    def arguments(self) -> JsonObject:
        """The arguments as an object."""
        return arguments_of(self.record)


async def find_asked_calls(
    conversation: Conversation,
    tools: Mapping[str, GraphTool],
    ledger: Ledger,
    client: RunClient,
    *,
    known: Collection[str] = (),
) -> list[AskedCall]:
    """Return the calls of the last reply that wait for this client. The ledger decides.

    `tools`: the client's tools by their names for models. `known`: ids of calls that the client has already.
    """
    found: list[AskedCall] = []
    for place, call in enumerate(calls_of(conversation.last)):
        record = None if call.id in known else await ledger.find(call.id)
        if record is not None and record.state == "pending" and client.runs(record):
            tool = tools.get(record.name)
            found.append(AskedCall(place, record.name if tool is None else tool.own_name, record))
    return found


def arguments_of(record: CallRecord) -> JsonObject:
    """Return the arguments of a call as an object, whatever form they are stored in."""
    match record.arguments:
        case bytes() as raw:
            return arguments_object(raw.decode(errors="replace"))
        case str() as text:
            return arguments_object(text)
        case arguments:
            return dict(arguments)


def calls_of(last: Message | None) -> tuple[CallPart, ...]:
    """Return the calls of this message; none of one that is no reply."""
    return last.calls if isinstance(last, AssistantMessage) else ()


def count_before_turn(messages: Sequence[Message]) -> int:
    """Return how many messages come before the person's last one; without one, the count of all."""
    places = (place for place in range(len(messages), 0, -1) if type(messages[place - 1]) is UserMessage)
    return next(places, len(messages) + 1) - 1
