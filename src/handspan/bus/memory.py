"""The bus inside one process: `publish` calls the listeners, one after the other, in the order of their subscription.

The rules for listeners:
- A listener does not wait. If it has much to do, it puts the event into its own queue, or starts a task.
- A listener that raises is logged. It disturbs neither the other listeners nor the publisher.
- Slow listeners are logged, too: everything in the process waits for them.
"""

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from handspan.core.bus import BusEvent

STRICT_VARIABLE: Final = "STRICT_BUS"
"""The environment variable that makes the gateway's bus strict; for tests."""
_SLOW: Final = 0.5
"""Seconds that the listeners for one event may take together."""

_log = logging.getLogger(__name__)
_E = TypeVar("_E", bound=BusEvent)


class MemoryBus:
    """A `Bus` without a network: an event has reached its listeners when `publish` returns."""

    def __init__(self, *, strict: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """`strict`: each event is encoded and decoded, so that only values arrive that could leave the process."""
        self._strict = strict
        self._clock = clock
        self.is_remote = False
        """There are no other nodes."""
        self._listeners: dict[type, tuple[Callable[[Any], None], ...]] = {}

    def publish(self, event: BusEvent) -> None:
        """Call every listener for this kind of event. In strict mode, raises `TypeError` for values that are not plain.

        Plain values are those that JSON can hold.
        """
        listeners = self._listeners.get(type(event))
        if self._strict:
            event = _encode_and_decode(event)
        if not listeners:
            return
        began = self._clock()
        for listener in listeners:
            try:
                listener(event)
            except Exception:  # a listener's own code
                _log.exception("A listener for %s failed: %r", type(event).__name__, listener)
        if (took := self._clock() - began) > _SLOW:
            _log.warning("The listeners for %s took %.1f s: a listener must not wait.", type(event).__name__, took)

    def subscribe(self, kind: type[_E], listener: Callable[[_E], None]) -> Callable[[], None]:
        """Call the listener with every later event of this kind, until the returned function is called."""
        is_subscribed = True

        def unsubscribe() -> None:
            nonlocal is_subscribed
            if is_subscribed:
                is_subscribed = False
                left = list(self._listeners[kind])
                left.remove(listener)  # a listener that subscribed twice stays once
                self._listeners[kind] = tuple(left)

        self._listeners[kind] = (*self._listeners.get(kind, ()), listener)
        return unsubscribe

    def follow_session(self, session: str) -> Callable[[], None]:
        """Do nothing: all turns run here."""
        return lambda: None


def _encode_and_decode(event: BusEvent) -> BusEvent:
    return _decoder().decode(msgspec.json.encode(event))


@functools.cache
def _decoder() -> msgspec.json.Decoder[BusEvent]:
    """Return the decoder. It is made for the first event of a strict bus, because that takes a millisecond."""
    return msgspec.json.Decoder(BusEvent)
