"""The logins at MCP servers as files that only their owner can read: tokens and our registrations (SPEC S6)."""

import asyncio
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from handspan.config.private_files import make_private, read_private, replace_private
from handspan.config.tool_settings import McpOauth
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
    """The logins of one owner: a file for each server."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder / quote(owner, safe="")

    async def read(self, name: str, url: str, client: McpOauth) -> StoredLogin | None:
        """Return the login at this server; None if there is none, or it is of another address or `client`.

        Without an id, any registration fits.
        """
        try:
            found = await asyncio.to_thread(read_private, self._path(name))
            login = None if found is None else msgspec.json.decode(found, type=StoredLogin)
        except (OSError, msgspec.DecodeError):  # as good as none: the person logs in again
            return None
        if login is None or login.url != url:
            return None
        if not client.client_id:
            return login
        if login.client.get("client_id") != client.client_id:
            return None
        return replace(login, client={**login.client, "client_secret": client.client_secret or None})

    async def save(self, name: str, client: McpOauth, login: StoredLogin | None) -> None:
        """Store this login; None: forget it. A secret of the settings is not stored.

        Raises `ConfigError` when that is not possible.
        """
        if login is None:
            await self.remove(name)
            return
        if client.client_id:
            login = replace(login, client={**login.client, "client_secret": None})
        path = self._path(name)
        try:
            await asyncio.to_thread(_write, path, msgspec.json.encode(login))
        except OSError as error:
            raise ConfigError(f"The login can't be stored: {path} can't be written: {error.strerror}.") from None

    async def remove(self, name: str) -> bool:
        """Remove the login at this server. Return False if there is none."""
        try:
            await asyncio.to_thread(self._path(name).unlink)
        except FileNotFoundError:
            return False
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.json"


def _write(path: Path, content: bytes) -> None:
    make_private(path.parent.parent)
    make_private(path.parent)
    replace_private(path, content)
