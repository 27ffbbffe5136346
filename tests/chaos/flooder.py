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
_PIPELINED: Final = "pipelined requests"
_CHUNKS: Final = "tiny chunks"
_POURED: Final = {_PIPELINED: b"GET / HTTP/1.1\r\nHost: unknown\r\n\r\n", _CHUNKS: b"1\r\nx\r\n", **_FRAMES}
_ASKED: Final = "requests on many connections"
_UPGRADES: Final = "refused upgrades"
_ASKING: Final = {_ASKED: 100, _UPGRADES: 50}
"""How many connections ask at once. None of them shows a token."""
_IDLE: Final = "idle sockets"
KINDS: Final = (_PIPELINED, _CHUNKS, _ASKED, _UPGRADES, *_FRAMES, _IDLE)


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
                if self._kind == _IDLE:
                    self._hold()
                elif self._kind in _ASKING:
                    self._ask()
                else:
                    with self._connect() as connection:
                        self._pour(connection)
            except OSError:  # the gateway has closed it
                time.sleep(0.01)

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._until or self.sent > MAX_BYTES

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._place, timeout=10)
        self.connections += 1
        return connection

    def _head(self, request: str, *lines: str) -> bytes:
        host = f"Host: {self._place[0]}:{self._place[1]}"
        return "\r\n".join((f"{request} HTTP/1.1", host, *lines, "", "")).encode()

    def _upgrade(self, *lines: str) -> bytes:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        return self._head(
            "GET /ws/chat", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", key, *lines
        )

    # Bytes without end on one connection.

    def _begin(self, connection: socket.socket) -> None:
        """Send what has to come before the flood."""
        if self._kind == _CHUNKS:
            connection.sendall(self._head("POST /api/tools/echo/call", "Transfer-Encoding: chunked"))
        elif self._kind in _FRAMES:
            connection.sendall(self._upgrade(f"Authorization: Bearer {self._token}"))
            connection.recv(4096)
            if "fragments" in self._kind:
                connection.sendall(b"\x01\x80" + _MASK)  # the beginning of the endless message

    def _pour(self, connection: socket.socket) -> None:
        self._begin(connection)
        one = _POURED[self._kind]
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

    # Many connections.

    def _ask(self) -> None:
        """Ask on every connection, and again after each answer; one that is closed is opened again."""
        request = self._upgrade() if self._kind == _UPGRADES else self._head("GET /health")
        asking: list[socket.socket] = []
        while not self._is_over:
            while len(asking) < _ASKING[self._kind]:
                asking.append(self._connect())
                asking[-1].sendall(request)
            readable, _, _ = select.select(asking, [], [], 0.1)
            for one in readable:
                try:
                    if not one.recv(1 << 16):
                        raise ConnectionError
                    one.sendall(request)
                    self.sent += len(request)
                except OSError:  # the gateway has closed it
                    asking.remove(one)
                    one.close()

    def _hold(self) -> None:
        """Keep idle sockets open; each that is closed is opened again."""
        held: list[socket.socket] = []
        while not self._is_over:
            while len(held) < IDLE_SOCKETS:
                held.append(self._connect())
            readable, _, _ = select.select(held, [], [], 0.1)
            for one in readable:
                held.remove(one)
                one.close()


def main() -> None:
    """Flood, and print what was done."""
    url, token, kind, seconds = sys.argv[1:]
    flood = Flood(url, token, kind, float(seconds))
    flood.run()
    sys.stdout.write(json.dumps({"sent": flood.sent, "connections": flood.connections}))


if __name__ == "__main__":
    main()
