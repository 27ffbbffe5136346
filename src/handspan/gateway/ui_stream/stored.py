"""What is stored of an answer, and what is known of it at its end."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from handspan.core.events import UsageCounted
from handspan.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage
from handspan.gateway.runs.usage import UsageMeter
from handspan.wire.ui_stream import MessageMetadata, UiUsage


class StoredCall(Struct, frozen=True):
    """What the ledger has of a call."""

    own_name: str = ""
    """The client's name of its own tool; empty: the tool is ours."""
    envelope: str = ""
    """Empty: it has no result."""
    status: str = ""


def persons(messages: Sequence[Message]) -> list[UserMessage]:
    """Return the messages of the person."""
    return [message for message in messages if isinstance(message, UserMessage)]


def replies_to_last(messages: Sequence[Message]) -> list[tuple[AssistantMessage, ResultsMessage | None]]:
    """Return the replies after the person's last message, each with the results of its calls, if they are stored."""
    places = [place for place, message in enumerate(messages, 1) if isinstance(message, UserMessage)]
    found: list[tuple[AssistantMessage, ResultsMessage | None]] = []
    for message in messages[places[-1] if places else 0 :]:
        if isinstance(message, AssistantMessage):
            found.append((message, None))
        elif isinstance(message, ResultsMessage) and found:
            found[-1] = (found[-1][0], message)
    return found


def last_asked(messages: Sequence[Message]) -> str:
    """Return the id of the person's last message, or of its turn if it has none."""
    asked = next((one for one in reversed(messages) if isinstance(one, UserMessage)), None)
    return "" if asked is None else asked.id or asked.turn


def until_next_turn(messages: Sequence[Message], asked: str) -> Sequence[Message]:
    """Return the messages up to the end of the turn of this message of the person, or of this turn."""
    said = [(place, one) for place, one in enumerate(messages) if isinstance(one, UserMessage)]
    turn = next((one.turn for _, one in reversed(said) if asked in (one.id, one.turn)), None)
    places = [place for place, one in said if one.turn == turn]
    if turn is None or not places:
        return messages
    return messages[: next((place for place, _ in said if place > places[-1]), len(messages))]


def metadata_of(messages: Sequence[Message], costs: Sequence[float | UnsetType]) -> MessageMetadata:
    """Return the usage of all rounds of the last answer, and the model of the last one.

    `costs`: those of the rounds, where all of them were heard.
    """
    replies = [reply for reply, _ in replies_to_last(messages)]
    meter = UsageMeter()
    known = costs if len(costs) == len(replies) else [UNSET] * len(replies)
    for reply, cost in zip(replies, known, strict=True):
        if reply.usage is not None:
            meter.add(UsageCounted(reply.model, reply.usage, cost=cost))
    total = meter.total
    if total is None or total.input is None or total.output is None:
        return MessageMetadata(replies[-1].model or UNSET if replies else UNSET)
    both = total.input + total.output
    usage = UiUsage(total.input, total.output, both, total.cached or 0, reasoningTokens=total.reasoning or 0)
    return MessageMetadata(meter.model or UNSET, usage, UNSET if meter.cost is None else meter.cost)
