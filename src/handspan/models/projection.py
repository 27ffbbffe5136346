"""A conversation in one API's format: encoded once, appended to, begun anew only when its context marks move (M4).

So the beginning of each request stays the same, and prompt caches hold. What is left out and summarised for the token
limit (context window) is decided before (`agent/compaction/`). An API that refuses a conversation all the same has the
error `too_long` (`faults.py`).
"""

from collections.abc import Sequence

from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Message, UnpairedCalls, UserMessage, check_next, merge_replies
from handspan.models.images import find_images, fit_images, note_images
from handspan.models.model import Codec


class EncodedProjection:
    """The conversation as the items that `codec` encodes. It only grows.

    A message with images waits until they are fitted, and so do the messages after it. Old versions stored several
    replies in a row. They are encoded as one, because not every API takes two.
    """

    def __init__(self, codec: Codec, instructions: str = "", *, sees_images: bool = True) -> None:
        """`sees_images`: whether the model does; else it gets a note in place of each."""
        self.instructions = instructions
        self._sees_images = sees_images
        self.api = codec.api
        self._limits = codec.images
        self._encode = codec.encode
        self._items: list[bytes] = []
        self._waiting: list[Message] = []
        """Messages that are not encoded yet."""
        self._image_bytes = 0
        self._text_bytes, self._images = 0, 0
        """The size of what is encoded: bytes without images, and their number."""
        self._encoded_last: Message | None = None
        """The last message that is encoded."""
        self._last: Message | None = None
        """The last message, encoded or waiting."""
        self._before_last: Message | None = None
        self._start_of_last = 0
        """Where the items of the last encoded message begin."""
        self._count = 0
        self._wire_ids: set[str] = set()
        """The model's own ids of all calls so far."""
        self._uses_wire_ids = True
        """Whether the last calls went out with the model's own ids."""

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it must not follow the last one; then nothing has changed."""
        merged = merge_replies(self._last, message)
        if merged is not None:  # old versions stored several replies in a row; no new ones can come
            message, self._last = merged, self._before_last
            self._drop_last()
        check_next(self._last, message)
        if not self._sees_images:
            self._add(note_images(message) if find_images(message) else message)
        elif self._waiting or find_images(message):
            self._waiting.append(message)
        else:
            self._add(message)
        self._before_last, self._last = self._last, message
        self._count += 1

    async def fit_images(self, reader: ImageReader) -> None:
        """Encode the messages that wait, with images that the API takes."""
        while self._waiting:
            message = self._waiting[0]
            limits = self._limits.for_next(len(find_images(message)), self._image_bytes)
            fitted = await fit_images(message, reader, limits)
            self._image_bytes += sum(len(image.data) for image in find_images(fitted))
            self._add(fitted)
            del self._waiting[0]

    @property
    def items(self) -> Sequence[bytes]:
        """Return the items of the API's list, each as encoded JSON. Images that still wait are taken as they are."""
        for message in self._waiting:
            self._add(message)
        self._waiting.clear()
        return self._items

    def check_complete(self) -> None:
        """Raise `UnpairedCalls` when the last calls have no results: no API takes such a conversation."""
        if type(self._last) is AssistantMessage and self._last.calls:
            raise UnpairedCalls(f"the calls {[call.id for call in self._last.calls]} have no results yet")

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> tuple[int, int]:
        """Return how many bytes are sent without the images, and how many images; those that still wait count."""
        waiting = sum(len(find_images(message)) for message in self._waiting)
        return self._text_bytes + len(self.instructions), self._images + waiting

    def _count_size(self, start: int, message: Message) -> None:
        """Count what was encoded of this message, from this item on. An image is sent in base64."""
        images = find_images(message)
        sent = sum(map(len, self._items[start:])) - sum(-(-len(image.data) // 3) * 4 for image in images)
        self._text_bytes += max(sent, 0)
        self._images += len(images)

    def _drop_last(self) -> None:
        """Remove the last message; it comes again, merged with the next one."""
        if self._waiting:
            self._waiting.pop()
        else:
            del self._items[self._start_of_last :]
            self._encoded_last = self._last

    def _add(self, message: Message) -> None:
        start = len(self._items)
        self._items.extend(self._encode_message(message))
        self._count_size(start, message)
        self._encoded_last, self._start_of_last = message, start

    def _encode_message(self, message: Message) -> list[bytes]:
        """Return the items of the message. The codec sends the model's own ids of calls if it sees the message before.

        The codec does not get that message when an id was used before: some servers count anew in every answer, and
        others refuse two calls with one id. Then the codec makes ids from ours, in the call and in its result.
        """
        if type(message) is AssistantMessage and message.calls:
            ids = [call.wire_id for call in message.calls]
            self._uses_wire_ids = len(set(ids)) == len(ids) and self._wire_ids.isdisjoint(ids)
            self._wire_ids.update(ids)
        if self._uses_wire_ids or type(message) is UserMessage:
            return self._encode(message, self._encoded_last)
        return self._encode(message)
