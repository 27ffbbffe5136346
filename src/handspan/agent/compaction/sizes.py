"""Sums of the sizes of messages, kept while messages come: no walk over all of them in each round (SPEC L1)."""

from array import array
from collections.abc import Sequence
from typing import Final

from handspan.agent.compaction.view import is_left_behind, is_long, is_long_message, shorten_message
from handspan.core.messages import (
    Api,
    AssistantMessage,
    CallPart,
    Media,
    Message,
    ResultsMessage,
    Text,
    Thinking,
    UserMessage,
)
from handspan.models.estimate import count_attachment, count_json, count_words

_OF_MESSAGE: Final = 8
"""Tokens for what stands around a message, and around each of its calls and results."""

_OF_SHORT: Final = 100
"""Tokens of the line in place of a long result."""


class MessageSizes:
    """About how many tokens messages have, for one API: `whole[n]` is the sum of the first n messages."""

    def __init__(self, api: Api | None = None) -> None:
        self.api = api
        self.whole = array("q", [0])
        self.short = array("q", [0])
        """The same with results of one line, and with long messages of the person short that got no answer."""

    def follow(self, messages: Sequence[Message]) -> int:
        """Add the messages that are new, and return the count of all."""
        known, count = len(self.whole) - 1, len(messages)
        while known < count:
            if is_left_behind(messages, known) and is_long_message(messages[known - 1]):
                self._shorten_last(messages[known - 1])
            whole, short = self._sizes(messages[known])
            self.whole.append(self.whole[known] + whole)
            self.short.append(self.short[known] + short)
            known += 1
        return count

    def _shorten_last(self, message: Message) -> None:
        """Note that the last message can be shown shorter: the person has written again before an answer."""
        assert type(message) is UserMessage
        known = len(self.short) - 1
        self.short[known] = self.short[known - 1] + self._sizes(shorten_message(message))[1]

    def of(self, place: int) -> tuple[int, int]:
        """Return the sizes of the message at this place, from 0: whole and short."""
        return self.whole[place + 1] - self.whole[place], self.short[place + 1] - self.short[place]

    def _sizes(self, message: Message) -> tuple[int, int]:
        """Return about how many tokens a message has: whole, and with results of one line."""
        if type(message) is AssistantMessage:
            size = _size_of_reply(message)
        elif type(message) is ResultsMessage:
            return self._size_of_results(message)
        else:
            assert type(message) is UserMessage
            size = _OF_MESSAGE + sum(map(self._size_of_part, message.parts))
        return size, size

    def _size_of_part(self, part: Text | Media) -> int:
        return count_words(part.text) if type(part) is Text else count_attachment(part.attachment, self.api)

    def _size_of_results(self, message: ResultsMessage) -> tuple[int, int]:
        """Return the size of these results, whole and with a line in place of each long one."""
        whole = short = 0
        for result in message.results:
            size = count_json(result.envelope) + _OF_MESSAGE
            for item in result.attachments:
                size += count_attachment(item, self.api)
            whole += size
            short += min(size, _OF_SHORT) if is_long(result) else size
        return whole, short


def _size_of_reply(message: AssistantMessage) -> int:
    """Return the size of a reply: as its API has counted it, thinking that goes back included, else by its parts."""
    if message.usage is not None and message.usage.output:
        return message.usage.output + _OF_MESSAGE
    size = _OF_MESSAGE
    for part in message.parts:
        if type(part) is CallPart:
            size += count_json(part.arguments) + count_words(part.name) + _OF_MESSAGE
        elif isinstance(part, Text | Thinking):
            size += count_words(part.text)
    return size
