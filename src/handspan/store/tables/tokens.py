"""The hashes of access tokens as rows, never the tokens themselves (SPEC S5)."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from handspan.core.errors import ToolError
from handspan.core.records import Token
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database
from handspan.store.tables.rows import Row

_COLUMNS: Final = "hash, owner, scopes, label, created, last_seen, revoked"
_SEEN_AGAIN: Final = 60.0
"""Seconds after which `last_seen` of a used token is written again."""
_ADD: Final = (
    "INSERT INTO tokens (hash, owner, scopes, label, created) VALUES (?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING"
)
_scopes: Final = msgspec.json.Decoder(tuple[str, ...])


class StoredTokens:
    """Stores tokens. Implements `TokenBook`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def add(self, token_hash: str, *, owner: str, scopes: tuple[str, ...], label: str = "") -> Token:
        now = self._clock()
        token = Token(token_hash, sanitize(owner), scopes, sanitize(label), created=now, last_seen=None, revoked=None)
        values = (token.hash, token.owner, encode(scopes), token.label, token.created)
        if await self._database.execute(_ADD, values) == 0:
            raise ToolError("invalid_arguments", "This token was used before: make a new one.")
        return token

    async def find(self, token_hash: str) -> Token | None:
        """Return the token of this hash, and note that it was used; None for one that is unknown or revoked."""
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE hash = ? AND revoked IS NULL"
        # `fetch_one` needs no thread: every connection and every request reads this one row.
        row = await self._database.fetch_one(sql, (sanitize(token_hash),))
        if row is None:
            return None
        token = _token(row)
        if (token.last_seen or 0) < self._clock() - _SEEN_AGAIN:
            self._update_last_seen(token.hash)
        return token

    async def all(self, *, owner: str) -> Sequence[Token]:
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE owner = ? ORDER BY created, hash"
        rows = await self._database.fetch_all(sql, (sanitize(owner),))
        return [_token(row) for row in rows]

    async def revoke(self, token_hash: str, *, owner: str) -> bool:
        sql = "UPDATE tokens SET revoked = ? WHERE hash = ? AND owner = ? AND revoked IS NULL"
        values = (self._clock(), sanitize(token_hash), sanitize(owner))
        return await self._database.execute(sql, values) == 1

    def _update_last_seen(self, token_hash: str) -> None:
        sql = "UPDATE tokens SET last_seen = ? WHERE hash = ?"
        now = self._clock()
        seen = self._database.execute(sql, (now, token_hash))
        seen.add_done_callback(lambda done: done.cancelled() or done.exception())  # a failure harms nothing


def _token(row: Row) -> Token:
    token_hash, owner, scopes, *rest = row
    return Token(token_hash, owner, _scopes.decode(scopes), *rest)
