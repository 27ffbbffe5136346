"""The signatures of messages between nodes: what another program writes to NATS changes nothing (SPEC K).

Every message carries a signature with a key that only nodes know; the signature covers its sender and a number, too. So
not even a copy of what a node has written counts (`senders.py`).
"""

import hashlib
import hmac
import logging
from collections.abc import Callable
from typing import Any, Final

from handspan.bus.senders import ReceivedNumbers, Senders

SIGNATURE_BYTES: Final = 16
_NUMBER_BYTES: Final = 8
_NUMBERED: Final = b"numbered"
"""Keeps the signatures of messages with a number apart from those of messages and responses without."""
_log = logging.getLogger(__name__)


class Signing:
    """Signs the messages of this node, and accepts those of the others."""

    def __init__(self, senders: Senders) -> None:
        """`senders` says whose messages count."""
        self.senders = senders
        self._key = b""
        self._head = b""
        """The name of this node, as its messages begin with it."""
        self.sent = 0
        """The number of the last message."""
        self.forged = 0
        """Messages whose signature was wrong."""
        self.repeated = 0
        """Messages that came before, or whose numbers were too low."""

    def use_key(self, key: bytes) -> None:
        """Sign with the key of all nodes."""
        self._key = key

    def use_name(self, node: str) -> None:
        """Sign as this incarnation from now on."""
        name = node.encode()
        self._head = bytes((len(name),)) + name

    def sign_message(self, subject: str, body: bytes) -> bytes:
        """Return a message with the signature, the name and the next number of this node."""
        self.sent += 1
        if not self.senders.uses_numbers:  # a node of an older version would take it for forged
            return self.sign(subject, body)
        content = self._head + self.sent.to_bytes(_NUMBER_BYTES, "big") + body
        return self._signature(subject, content, _NUMBERED) + content

    def sign(self, subject: str, body: bytes) -> bytes:
        """Return a response, or a message without a number, with its signature."""
        return self._signature(subject, body) + body

    def _signature(self, subject: str, content: bytes, purpose: bytes = b"") -> bytes:
        signing = hashlib.blake2b(subject.encode(), key=self._key, digest_size=SIGNATURE_BYTES, person=purpose)
        signing.update(b"\0")
        signing.update(content)
        return signing.digest()

    def accept(self, received: ReceivedNumbers, message: Any, take: Callable[[Any, bytes], None]) -> None:
        """Call `take` with the body of a message that a living node has signed and that did not come before."""
        subject, data = message.subject, message.data
        content = data[SIGNATURE_BYTES:]
        if not hmac.compare_digest(data[:SIGNATURE_BYTES], self._signature(subject, content, _NUMBERED)):
            if not self.senders.takes_plain:
                self._count_forged()
            elif (body := self.check(subject, data)) is not None:
                take(message, body)
            return
        end = 1 + content[0]
        sender, start = content[1:end], end + _NUMBER_BYTES
        if sender not in self.senders.highest:
            self.senders.look_for(sender, lambda: self.accept(received, message, take))
        elif received.add(sender, int.from_bytes(content[end:start], "big")):
            take(message, content[start:])
        else:
            self.repeated += 1

    def check(self, subject: str, data: bytes) -> bytes | None:
        """Return the body of a response, or of a message without a number, if a node has signed it; else None."""
        body = data[SIGNATURE_BYTES:]
        if hmac.compare_digest(data[:SIGNATURE_BYTES], self._signature(subject, body)):
            return body
        self._count_forged()
        return None

    def _count_forged(self) -> None:
        self.forged += 1
        if self.forged in (1, 10, 100) or self.forged % 1000 == 0:
            _log.warning("%d messages on NATS were signed by no node of this cluster, and dropped.", self.forged)
