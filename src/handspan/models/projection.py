"""A conversation in one API's words: encoded once, appended to, never rebuilt (SPEC M4)."""

from collections.abc import Sequence

from handspan.core.messages import AssistantMessage, Message, UnpairedCalls, UserMessage, check_next, merge_replies
from handspan.models.model import Codec


class EncodedProjection:
    """The conversation as the encoded items that `codec` makes of it. Only ever grows.

    Replies in a row, which old versions have stored, are encoded as one: not every API takes two.
    """

    def __init__(self, codec: Codec, instructions: str = "") -> None:
        self.instructions = instructions
        self.api = codec.api
        self._encode = codec.encode
        self._items: list[bytes] = []
        self._last: Message | None = None
        self._before_last: Message | None = None
        self._start_of_last = 0
        self._count = 0
        self._wire_ids: set[str] = set()
        self._keeps_wire_ids = True
        """Of the calls that came last."""

    def append(self, message: Message) -> None:
        """Add a message; `UnpairedCalls` when it must not stand there, and then nothing has changed."""
        both = merge_replies(self._last, message)
        if both is not None:  # only while a conversation of an old version is read: `check_next` lets none come
            message, self._last = both, self._before_last
            del self._items[self._start_of_last :]
        check_next(self._last, message)
        start = len(self._items)
        self._items.extend(self._encoded(message))
        self._before_last, self._last, self._start_of_last = self._last, message, start
        self._count += 1

    @property
    def items(self) -> Sequence[bytes]:
        """The items of the API's list, each as encoded JSON."""
        return self._items

    def check_complete(self) -> None:
        """Refuse to be sent while calls wait for their results: no API would take that."""
        if type(self._last) is AssistantMessage and self._last.calls:
            raise UnpairedCalls(f"the calls {[call.id for call in self._last.calls]} have no results yet")

    def __len__(self) -> int:
        return self._count

    def _encoded(self, message: Message) -> list[bytes]:
        """The message's items. A codec that sees the message before sends the model's own ids of calls back.

        It may not see it where an id came before: some servers count anew in every answer, and others refuse two
        calls of one id. Then the codec makes ids of ours, in the call and in its result.
        """
        if type(message) is AssistantMessage and message.calls:
            ids = [call.wire_id for call in message.calls]
            self._keeps_wire_ids = len(set(ids)) == len(ids) and self._wire_ids.isdisjoint(ids)
            self._wire_ids.update(ids)
        if self._keeps_wire_ids or type(message) is UserMessage:
            return self._encode(message, self._last)
        return self._encode(message)
