"""The gateway's address: one form that people write, and the WebSocket and HTTP URLs made from it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    import ssl

Locate: TypeAlias = Callable[[], "tuple[str, ssl.SSLContext | None, str]"]
"""Returns the gateway's address, the TLS to use there (None: as this computer trusts), and the token. It may block."""

_SOCKET: Final = "/ws/chat"
_SCHEMES: Final = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class Address:
    """A gateway's address: http(s) or ws(s), with a path prefix, with or without `/ws/chat`."""

    def __init__(self, url: str) -> None:
        """Read the address. Raises `ValueError`, with what is wrong."""
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}" if parts.scheme else parts.path  # no secrets
            raise ValueError(f"{shown!r} is no gateway's address: write it like 'http://127.0.0.1:42617'")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "a gateway's address has no user, query or fragment: give the token as `token`, "
                "the session and the agent to `chat`"
            )
        self._is_secure = _SCHEMES[parts.scheme] == "wss"
        self._netloc = parts.netloc
        self._prefix = parts.path.rstrip("/").removesuffix(_SOCKET)
        self.is_local = parts.hostname in _LOOPBACK
        """Whether the gateway is on this computer: then no proxy is used."""

    def __str__(self) -> str:
        return self.http("")

    def socket(self, session: str = "", agent: str = "", name: str = "", kind: str = "chat") -> str:
        """Return the URL of the WebSocket (ws.md 1.1)."""
        given = {"session_id": session, "persona": agent, "name": name, "kind": kind.removeprefix("chat")}
        query = urlencode({key: value for key, value in given.items() if value})
        scheme = "wss" if self._is_secure else "ws"
        return f"{scheme}://{self._netloc}{self._prefix}{_SOCKET}{'?' if query else ''}{query}"

    def http(self, path: str) -> str:
        """Return the URL of a path below the prefix."""
        return f"{'https' if self._is_secure else 'http'}://{self._netloc}{self._prefix}{path}"


class GatewayPlace:
    """Where the gateway is now, the TLS to use there, and the token. `locate` says where a gateway is that may move."""

    def __init__(
        self, address: Address, token: str, tls: "ssl.SSLContext | None" = None, locate: Locate | None = None
    ) -> None:
        self.address = address
        self.token = token
        self.tls = tls
        self._locate = locate

    async def refresh(self) -> None:
        """Ask `locate` where the gateway is now, on a thread: it may read files and ask the network."""
        if self._locate is not None:
            url, self.tls, self.token = await asyncio.to_thread(self._locate)
            self.address = Address(url)

    async def find_new_token(self) -> bool:
        """Ask `locate` where the gateway is now. Return whether the token is another one than before."""
        before = self.token
        await self.refresh()
        return self.token != before
