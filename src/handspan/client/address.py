"""Where the gateway is: one address as people write it, and the two that are needed."""

from typing import Final
from urllib.parse import SplitResult, urlencode, urlsplit

_SOCKET: Final = "/ws/chat"
_SCHEMES: Final = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class Address:
    """A gateway's address: http(s) or ws(s), with its path prefix, with or without `/ws/chat`."""

    def __init__(self, url: str) -> None:
        """Read it; `ValueError` says what is wrong with it."""
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError(f"{_shown(parts)!r} is no gateway's address: write it like 'http://127.0.0.1:42617'")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "a gateway's address has no user, query or fragment: give the token as `token`, "
                "the session and the agent to `chat`"
            )
        self._is_secure = _SCHEMES[parts.scheme] == "wss"
        self._place = parts.netloc
        self._prefix = parts.path.rstrip("/").removesuffix(_SOCKET)
        self.is_local = parts.hostname in _LOOPBACK
        """On this machine: no proxy stands in between."""

    def __str__(self) -> str:
        return self.http("")

    def socket(self, session: str = "", agent: str = "", name: str = "") -> str:
        """Where the socket is opened (ws.md 1.1)."""
        wanted = {"session_id": session, "persona": agent, "name": name}
        query = urlencode({key: value for key, value in wanted.items() if value})
        scheme = "wss" if self._is_secure else "ws"
        return f"{scheme}://{self._place}{self._prefix}{_SOCKET}{'?' if query else ''}{query}"

    def http(self, path: str) -> str:
        """The address of a path below the prefix."""
        return f"{'https' if self._is_secure else 'http'}://{self._place}{self._prefix}{path}"


def _shown(parts: SplitResult) -> str:
    """The address without what may be a secret."""
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}" if parts.scheme else parts.path
