"""A conversation in one API's format: encoded once, appended to, never rebuilt (SPEC M4)."""

from collections.abc import Sequence

from handspan.core.messages import AssistantMessage, Message, UnpairedCalls, UserMessage, check_next, merge_replies
from handspan.models.model import Codec


class EncodedProjection:
    """The conversation as the items that `codec` encodes. It only grows.

    Old versions stored several replies in a row. They are encoded as one, because not every API takes two.
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
        self._uses_wire_ids = True
        """Whether the last calls went out with the model's own ids."""

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it must not follow the last one; then nothing has changed."""
        merged = merge_replies(self._last, message)
        if merged is not None:  # only in conversations of old versions: `check_next` refuses a new one
            message, self._last = merged, self._before_last
            del self._items[self._start_of_last :]
        check_next(self._last, message)
        start = len(self._items)
        self._items.extend(self._encode_message(message))
        self._before_last, self._last, self._start_of_last = self._last, message, start
        self._count += 1

    @property
    def items(self) -> Sequence[bytes]:
        """Return the items of the API's list, each as encoded JSON."""
        return self._items

    def check_complete(self) -> None:
        """Raise `UnpairedCalls` when the last calls have no results: no API takes such a conversation."""
        if type(self._last) is AssistantMessage and self._last.calls:
            raise UnpairedCalls(f"the calls {[call.id for call in self._last.calls]} have no results yet")

    def __len__(self) -> int:
        return self._count

    def _encode_message(self, message: Message) -> list[bytes]:
        """Return the items of the message. The codec sends the model's own ids of calls if it sees the message before.

        It does not see that message when an id came before: some servers count anew in every answer, and others refuse
        two calls with one id. Then the codec makes ids from ours, in the call and in its result.
        """
        if type(message) is AssistantMessage and message.calls:
            ids = [call.wire_id for call in message.calls]
            self._uses_wire_ids = len(set(ids)) == len(ids) and self._wire_ids.isdisjoint(ids)
            self._wire_ids.update(ids)
        if self._uses_wire_ids or type(message) is UserMessage:
            return self._encode(message, self._last)
        return self._encode(message)
