"""The conversation as messages of AG-UI: with the client's ids where it has a message, and with ids of ours elsewhere.

A client keeps the messages of its thread, and replaces them by those of a snapshot. So each message has one id for
ever: a person's message has that of the client, a reply that of its turn and its place in it, a result that of its
call. What is from before our first turn, and instructions, are the client's own: a snapshot repeats them as they came.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from handspan.core.messages import AssistantMessage, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.values import Json, JsonObject
from handspan.gateway.runs.entries import is_same
from handspan.wire.agui.messages import MadeCall, NamedCall, ThreadMessage

OwnName: TypeAlias = Callable[[str], str]
"""Returns the client's own name of a tool of its own, by the name for models; empty for tools of the gateway."""
_INSTRUCTIONS: Final = ("system", "developer")
_NEVER_COMPARED: Final = ("reasoning", "activity")
"""Roles that a snapshot leaves alone."""
_Entry = TypeVar("_Entry")


class ClientThread:
    """What the client has of its thread, and what it should have."""

    def __init__(self, session: str, sent: Sequence[JsonObject], said: Sequence[UserMessage]) -> None:
        """`sent`: the messages of the client as they came. `said`: those of the person among them."""
        self._session, self._said = session, said
        self._sent = [message for message in sent if message.get("role") not in _NEVER_COMPARED]
        self._results = {str(one["toolCallId"]): one for one in self._sent if "toolCallId" in one}
        self.calls = {call for message in self._sent for call in calls_in(message)}
        """The ids of calls that the client has."""

    @property
    def results(self) -> set[str]:
        """The ids of calls whose results the client has."""
        return {*self._results}

    def add_result(self, call_id: str, envelope: str) -> None:
        """Note the result of a call whose round is not complete: the conversation does not have it yet."""
        made = ThreadMessage(result_id(call_id), "tool", envelope, tool_call_id=call_id)
        self._results.setdefault(call_id, _as_json(made))

    def snapshots(self, messages: Sequence[Message], own_name: OwnName) -> list[list[JsonObject]]:
        """Return the snapshots after which the client has these messages; none if it has them."""
        wanted = self.render(messages, own_name)
        if [*map(_key, wanted)] == [*map(_key, self._sent)]:
            return []
        ids = [one["id"] for one in wanted]
        known = set(ids)
        kept = [one["id"] for one in self._sent if one["id"] in known]
        # A client puts what it does not know behind what it knows: where that is not the order, it forgets all first.
        is_order = ids[: len(kept)] == kept
        return [wanted] if is_order else [[], wanted]

    def render(self, messages: Sequence[Message], own_name: OwnName) -> list[JsonObject]:
        """Return the conversation as the client should have it."""
        sent = _by_person(self._sent, lambda one: one.get("role") == "user")
        stored = _by_person(messages, lambda one: isinstance(one, UserMessage))
        first = max(0, len(stored) - len(sent))  # a client that knows less knows the end
        shown, counts = [*sent[0]], dict[str, int]()
        for place, (asked, *answer) in enumerate(stored[1:], 1):
            assert isinstance(asked, UserMessage), "each part begins with one"
            turn = asked.turn or f"{self._session}-{place}"
            same = sent[place - first] if place > first else []
            if same and not is_same(asked, self._said[place - first - 1]):
                same = []
            if same and not asked.turn:
                shown += same
                continue
            shown.append(same[0] if same else _render_user(asked, f"{turn}-person-{place}"))
            shown += [one for one in same[1:] if one.get("role") in _INSTRUCTIONS]
            for number, message in enumerate(answer):
                if isinstance(message, AssistantMessage):
                    counts[turn] = counts.get(turn, 0) + 1
                    results = next(iter(answer[number + 1 : number + 2]), None)
                    shown += self._render_reply(message, f"{turn}-{counts[turn]}", results, own_name)
        return [*shown, *(one for part in sent[len(stored) :] for one in part)]

    def _render_reply(
        self, message: AssistantMessage, message_id: str, following: Message | None, own_name: OwnName
    ) -> Iterator[JsonObject]:
        """Yield a reply and the results of its calls, as far as the client may have them."""
        results = following.results if isinstance(following, ResultsMessage) else ()
        envelopes = {result.call_id: result.envelope for result in results}
        told = [
            MadeCall(call.id, NamedCall(own_name(call.name) or call.name, call.arguments or "{}"))
            for call in message.calls
            if not own_name(call.name) or call.id in self.calls or call.id in envelopes
        ]
        if message.text or told:
            yield _as_json(ThreadMessage(message_id, "assistant", message.text or UNSET, told or UNSET))
        for call in told:
            if call.id in self._results:
                yield self._results[call.id]
            elif call.id in envelopes:
                yield _as_json(ThreadMessage(result_id(call.id), "tool", envelopes[call.id], tool_call_id=call.id))


def result_id(call_id: str) -> str:
    """Return the id of the message that holds the result of this call."""
    return f"{call_id}-result"


def reply_id(messages: Sequence[Message], *, is_next: bool) -> str:
    """Return the id of the last reply; `is_next`: of the one that the model is making."""
    asked = next((one for one in reversed(messages) if isinstance(one, UserMessage)), None)
    turn, count, is_of_turn = "" if asked is None else asked.turn, 0, False
    for message in messages:
        if isinstance(message, UserMessage):
            is_of_turn = message.turn == turn
        elif isinstance(message, AssistantMessage) and is_of_turn:
            count += 1
    return f"{turn}-{count + is_next}"


def _by_person(messages: Sequence[_Entry], begins: Callable[[_Entry], bool]) -> list[list[_Entry]]:
    """Return the messages in parts: what comes before the first message of the person, then what begins with each."""
    parts: list[list[_Entry]] = [[]]
    for message in messages:
        if begins(message):
            parts.append([])
        parts[-1].append(message)
    return parts


def _render_user(message: UserMessage, message_id: str) -> JsonObject:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    media = [f"[{part.attachment.kind} {part.attachment.name}]" for part in message.parts if isinstance(part, Media)]
    return _as_json(ThreadMessage(message_id, "user", "\n".join([*texts, *media])))


def _as_json(message: ThreadMessage) -> JsonObject:
    made: JsonObject = msgspec.to_builtins(message)
    return made


def _key(message: JsonObject) -> Json:
    """Return what has to be the same in a message of the client."""
    said = (message.get("content") or "") if message.get("role") == "assistant" else ""
    return [message["id"], said, *calls_in(message)]


def calls_in(message: JsonObject) -> list[str]:
    """Return the ids of the calls of a message."""
    calls = message.get("toolCalls")
    return [str(call["id"]) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
