"""What a client has already of the message that goes on, so that it is told only the rest."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from handspan.core.messages import AssistantMessage
from handspan.wire.ui_stream import UiMessage, UiPart

_FINAL: Final = frozenset(("output-available", "output-error", "output-denied"))
_GROWING: Final = frozenset(("streaming", "input-streaming"))


class SeenStep(Struct, frozen=True):
    """A round as the client has it."""

    calls: frozenset[str]
    is_whole: bool
    """Whether nothing of it was still growing when its stream broke off."""


class SeenMessage(Struct, frozen=True):
    """The client's last message of the assistant, as the client sent it back."""

    steps: Sequence[SeenStep] = ()
    open_calls: frozenset[str] = frozenset()
    """Calls without an outcome."""
    closed_calls: frozenset[str] = frozenset()
    """Calls with an outcome."""
    approvals: Mapping[str, str] = {}
    """The questions that a person was asked, by their calls."""
    is_last: bool = True
    """Whether it is the last message. An earlier one has what was told of its run, and a later one the rest."""

    def count_whole(self, replies: Sequence[AssistantMessage]) -> int:
        """Return how many of these replies the client has, from the first one on. A call of one may be missing."""
        if not self.is_last:
            return len(replies)
        count = 0
        for step, reply in zip(self.steps, replies, strict=False):
            calls = {call.id for call in reply.calls}
            if not step.is_whole or not step.calls <= calls or bool(step.calls) != bool(calls):
                break
            count += 1
        return count


NOTHING_SEEN: Final = SeenMessage()


def read_seen(message: UiMessage, *, is_last: bool) -> SeenMessage:
    """Return what the client has of this message."""
    groups: list[list[UiPart]] = []
    for part in message.parts:
        if part.type == "step-start" or not groups:
            groups.append([])
        groups[-1].append(part)
    tools = {part.toolCallId: part for part in message.parts if part.tool and part.toolCallId}
    closed = frozenset(key for key, one in tools.items() if one.state in _FINAL and not one.preliminary)
    return SeenMessage(
        [_read_step(group) for group in groups],
        open_calls=frozenset(tools) - closed,
        closed_calls=closed,
        approvals={key: one.approval.id for key, one in tools.items() if one.approval is not None},
        is_last=is_last,
    )


def _read_step(parts: Sequence[UiPart]) -> SeenStep:
    calls = frozenset(part.toolCallId for part in parts if part.tool and part.toolCallId)
    return SeenStep(calls, is_whole=not any(part.state in _GROWING for part in parts))
