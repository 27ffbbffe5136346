"""The bus between nodes: events go to the listeners of this node, and over NATS to every node that is interested.

A node is interested in the events of an owner while that owner has a client, a session or a request on the node, and
in the turns of a session while a client of the node shows the session. An event may be lost. An event that comes twice
is dropped.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from handspan.bus.link import PREFIX, NatsLink, hash_name
from handspan.bus.memory import MemoryBus
from handspan.core.bounded import BoundedDict
from handspan.core.bus import BusEvent, TokenRevoked, TurnEvent

_ALL: Final = f"{PREFIX}.all"
_MAX_STREAMS: Final = 20_000
_log = logging.getLogger(__name__)
_E = TypeVar("_E", bound=BusEvent)


class _Published(Struct, frozen=True, array_like=True):
    """An event as it travels."""

    sender: str
    number: int
    """Grows with every message of the sender."""
    before: int
    """The number of the sender's message before this one on the same subject; 0: not known."""
    event: BusEvent


_decoder: Final = msgspec.msgpack.Decoder(_Published)
_encode: Final = msgspec.msgpack.Encoder().encode


class NatsBus:
    """A `Bus` between nodes. When `publish` returns, the listeners of this node have the event; others get it soon."""

    def __init__(self, *, strict: bool = False) -> None:
        """`strict`: see `MemoryBus`."""
        self._here = MemoryBus(strict=strict)
        self._link: NatsLink | None = None
        self._sender = ""
        self._number = 0
        self._sent: BoundedDict[object, int] = BoundedDict(_MAX_STREAMS)
        """The last number of each subject. The oldest subjects are forgotten."""
        self._received: BoundedDict[object, int] = BoundedDict(_MAX_STREAMS)
        """The last number of each sender on each subject."""
        self._followed: dict[str, int] = {}
        """How often each subject is followed."""
        self.is_remote = False
        """Whether the event that listeners get just now comes from another node."""

    def open(self, link: NatsLink, node: str) -> None:
        """Publish over this link, as this node."""
        self._link, self._sender = link, node
        link.follow(_ALL, self._on_event)
        for subject in self._followed:
            link.follow(subject, self._on_event)

    def rename(self, node: str) -> None:
        """Publish as this incarnation from now on."""
        self._sender = node

    def publish(self, event: BusEvent) -> None:
        """Call every listener for this kind of event, here and on the nodes that are interested. Never waits."""
        self._here.publish(event)
        self.publish_elsewhere(event)

    def publish_elsewhere(self, event: BusEvent) -> None:
        """Call the listeners of the other nodes that are interested. Never waits."""
        if self._link is None:
            return
        subject = _subject_of(event)
        self._number += 1
        before = _replace(self._sent, subject, self._number)
        self._link.publish(subject, _encode(_Published(self._sender, self._number, before, event)))

    def publish_here(self, event: BusEvent) -> None:
        """Call the listeners of this node only: the other nodes learn of it by themselves."""
        self._here.publish(event)

    def subscribe(self, kind: type[_E], listener: Callable[[_E], None]) -> Callable[[], None]:
        """Call the listener with every later event of this kind, until the returned function is called."""
        return self._here.subscribe(kind, listener)

    def subscribe_elsewhere(self, kind: type[_E], listener: Callable[[_E], None]) -> None:
        """Call the listener with every later event of this kind that comes from another node."""

        def on_event(event: _E) -> None:
            if self.is_remote:
                listener(event)

        self._here.subscribe(kind, on_event)

    def follow_owner(self, owner: str) -> Callable[[], None]:
        """Get the events of this owner from other nodes, until the returned function is called."""
        return self._follow(f"{PREFIX}.o.{hash_name(owner)}")

    def follow_session(self, session: str) -> Callable[[], None]:
        """Get the events of this session's turns on other nodes, until the returned function is called."""
        return self._follow(f"{PREFIX}.s.{hash_name(session)}")

    def _follow(self, subject: str) -> Callable[[], None]:
        """Let the events of this subject come here, until the returned function is called."""
        is_followed = True
        self._followed[subject] = self._followed.get(subject, 0) + 1
        if self._followed[subject] == 1 and self._link is not None:
            self._link.follow(subject, self._on_event)

        def unfollow() -> None:
            """Let the events come no more. A second call does nothing."""
            nonlocal is_followed
            if not is_followed:
                return
            is_followed = False
            self._followed[subject] -= 1
            if not self._followed[subject]:
                del self._followed[subject]
                if self._link is not None:
                    self._link.unfollow(subject)

        return unfollow

    def _on_event(self, subject: str, body: bytes) -> None:
        """Publish an event of another node here, unless it is an own one or came twice."""
        try:
            published = _decoder.decode(body)
        except msgspec.DecodeError as error:  # an event of a newer version
            _log.debug("An event of another node is not understood: %s", error)
            return
        if published.sender == self._sender:
            return
        if published.number <= _replace(self._received, (published.sender, subject), published.number):
            return  # it came twice
        self.is_remote = True
        try:
            self._here.publish(published.event)
        finally:
            self.is_remote = False


def _replace(numbers: BoundedDict[object, int], stream: object, number: int) -> int:
    """Store the last number of a stream. Return the number before it, or 0 if that is not known."""
    before = numbers.pop(stream, 0)
    numbers[stream] = max(number, before)
    return before


def _subject_of(event: BusEvent) -> str:
    if isinstance(event, TurnEvent):
        return f"{PREFIX}.s.{hash_name(event.session)}"
    if isinstance(event, TokenRevoked) or not event.owner:
        return _ALL
    return f"{PREFIX}.o.{hash_name(event.owner)}"
