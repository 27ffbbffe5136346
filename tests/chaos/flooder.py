"""A program that floods a gateway on this computer: `python -m tests.chaos.flooder URL TOKEN KIND SECONDS`.

It ends by itself after so many seconds, or `MAX_BYTES`. It prints how many bytes it sent and how often it connected.
"""

import json
import select
import socket
import sys
import time
from typing import Final
from urllib.parse import urlsplit

MAX_BYTES: Final = 64 * 1024 * 1024
IDLE_SOCKETS: Final = 300
_PIECE: Final = 64 * 1024
_MASK: Final = b"\x01\x02\x03\x04"
_FRAMES: Final = {
    "fragments": b"\x00\x81" + _MASK + b"x",
    "empty fragments": b"\x00\x80" + _MASK,
    "pings": b"\x89\x80" + _MASK,
    "small messages": b"\x81\x82" + _MASK + bytes(a ^ b for a, b in zip(b"{}", _MASK, strict=False)),
}
KINDS: Final = ("pipelined requests", *_FRAMES, "idle sockets")


class Flood:
    """Sends as fast as the gateway reads, and connects again when it is closed."""

    def __init__(self, url: str, token: str, kind: str, seconds: float) -> None:
        place = urlsplit(url)
        if place.hostname != "127.0.0.1":
            raise SystemExit("A flood goes to 127.0.0.1 only.")
        self._place = ("127.0.0.1", place.port or 80)
        self._token = token
        self._kind = kind
        self._until = time.monotonic() + seconds
        self.sent = 0
        self.connections = 0

    def run(self) -> None:
        """Flood until the time is over, or enough was sent."""
        while not self._is_over:
            try:
                with self._connect() as connection:
                    self._pour(connection)
            except OSError:  # the gateway has closed it
                time.sleep(0.01)

    def hold(self) -> None:
        """Keep idle sockets open until the time is over; each that is closed is opened again."""
        held: list[socket.socket] = []
        while not self._is_over:
            while len(held) < IDLE_SOCKETS:
                held.append(self._connect())
            readable, _, _ = select.select(held, [], [], 0.1)
            for one in readable:
                held.remove(one)
                one.close()

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._until or self.sent > MAX_BYTES

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._place, timeout=10)
        self.connections += 1
        if self._kind in _FRAMES:
            connection.sendall(
                f"GET /ws/chat HTTP/1.1\r\nHost: {self._place[0]}:{self._place[1]}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {self._token}\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
            )
            connection.recv(4096)
            if "fragments" in self._kind:
                connection.sendall(b"\x01\x80" + _MASK)  # the beginning of the endless message
        return connection

    def _pour(self, connection: socket.socket) -> None:
        one = _FRAMES.get(self._kind, b"GET / HTTP/1.1\r\nHost: unknown\r\n\r\n")
        piece = one * (_PIECE // len(one))
        connection.setblocking(False)
        left = b""
        while not self._is_over:
            readable, writable, _ = select.select([connection], [connection], [], 0.1)
            if readable and not connection.recv(1 << 20):
                return
            if writable:
                left = left or piece
                count = connection.send(left)
                self.sent += count
                left = left[count:]


def main() -> None:
    """Flood, and print what was done."""
    url, token, kind, seconds = sys.argv[1:]
    flood = Flood(url, token, kind, float(seconds))
    if kind == "idle sockets":
        flood.hold()
    else:
        flood.run()
    sys.stdout.write(json.dumps({"sent": flood.sent, "connections": flood.connections}))


if __name__ == "__main__":
    main()
