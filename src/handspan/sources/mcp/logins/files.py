"""The logins at MCP servers as files that only their owner can read: tokens and our registrations (SPEC S6)."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from handspan.config.private_files import make_private, read_private, replace_private
from handspan.core.errors import ConfigError
from handspan.core.values import JsonObject


class StoredLogin(Struct, frozen=True):
    """Our registration at the login page of one server, and the tokens of a login."""

    url: str
    """The server's address. The tokens go to no other address."""
    client: JsonObject
    """The registration, as the SDK has it."""
    token_address: str
    """Where tokens are refreshed."""
    resource: str = ""
    """What the tokens are for, in the words of the server (RFC 8707)."""
    tokens: JsonObject | None = None
    """None: we are registered, and no person has logged in yet."""
    refresh_at: float | None = None
    """When the access token is to be refreshed, in seconds since 1970; None: it does not say when it ends."""

    def __repr__(self) -> str:
        """Without registration and tokens (SPEC S5)."""
        return f"StoredLogin(url={self.url!r}, has_tokens={self.tokens is not None})"


class LoginFiles:
    """One file for each owner and server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, owner: str, name: str, url: str) -> StoredLogin | None:
        """Return the login at this server; None if there is none, or it was made at another address."""
        try:
            found = await asyncio.to_thread(read_private, self._path(owner, name))
            login = None if found is None else msgspec.json.decode(found, type=StoredLogin)
        except (OSError, msgspec.DecodeError):  # as good as none: the person logs in again
            return None
        return login if login is not None and login.url == url else None

    async def write(self, owner: str, name: str, login: StoredLogin) -> None:
        """Store this login. Raises `ConfigError` when that is not possible."""
        path = self._path(owner, name)
        try:
            await asyncio.to_thread(_write, path, msgspec.json.encode(login))
        except OSError as error:
            raise ConfigError(f"The login can't be stored: {path} can't be written: {error.strerror}.") from None

    async def remove(self, owner: str, name: str) -> bool:
        """Remove the login at this server. Return False if there is none."""
        try:
            await asyncio.to_thread(self._path(owner, name).unlink)
        except FileNotFoundError:
            return False
        return True

    def _path(self, owner: str, name: str) -> Path:
        return self._folder / quote(owner, safe="") / f"{quote(name, safe='')}.json"


def _write(path: Path, content: bytes) -> None:
    make_private(path.parent.parent)
    make_private(path.parent)
    replace_private(path, content)
