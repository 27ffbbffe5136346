"""Who may come in: the hashes of tokens, never the tokens themselves (SPEC S5)."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from handspan.core.errors import ToolError
from handspan.core.records import Token
from handspan.core.values import encode, plain
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.rows import Row

_COLUMNS: Final = "hash, owner, scopes, label, created, last_seen, revoked"
_SEEN_AGAIN: Final = 60.0
_scopes: Final = msgspec.json.Decoder(tuple[str, ...])


class StoredTokens:
    """Tokens as rows. A revoked one stays to be seen, and opens nothing any more."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def add(self, token_hash: str, *, owner: str, scopes: tuple[str, ...], label: str = "") -> Token:
        """Let the token with this hash in. `ToolError` when it is known already, even if revoked."""
        token = Token(token_hash, plain(owner), scopes, plain(label), self._clock(), None, None)
        values = (token.hash, token.owner, encode(scopes), token.label, token.created)
        sql = "INSERT OR IGNORE INTO tokens (hash, owner, scopes, label, created) VALUES (?, ?, ?, ?, ?)"
        if await self._database.write(lambda connection: connection.execute(sql, values).rowcount) == 0:
            raise ToolError("invalid_arguments", "This token was used before: make a new one.")
        return token

    async def find(self, token_hash: str) -> Token | None:
        """The token, unless it is unknown or revoked. That it was seen is noted soon, to the minute."""
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE hash = ? AND revoked IS NULL"
        # Here and now: every connection and every request asks for this one row.
        row = self._database.read_now(lambda connection: connection.execute(sql, (plain(token_hash),)).fetchone())
        if row is None:
            return None
        token = _token(row)
        if (token.last_seen or 0) < self._clock() - _SEEN_AGAIN:
            self._note(token.hash)
        return token

    async def all(self, *, owner: str) -> Sequence[Token]:
        """The owner's tokens, revoked ones too, the first one first."""
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE owner = ? ORDER BY created, hash"
        rows = await self._database.read(lambda connection: connection.execute(sql, (plain(owner),)).fetchall())
        return [_token(row) for row in rows]

    async def revoke(self, token_hash: str, *, owner: str) -> bool:
        """Let it in no more; False when the owner has no such token, or it was revoked before."""
        sql = "UPDATE tokens SET revoked = ? WHERE hash = ? AND owner = ? AND revoked IS NULL"
        values = (self._clock(), plain(token_hash), plain(owner))
        return await self._database.write(lambda connection: connection.execute(sql, values).rowcount) == 1

    def _note(self, token_hash: str) -> None:
        sql = "UPDATE tokens SET last_seen = ? WHERE hash = ?"
        now = self._clock()
        seen = self._database.write(lambda connection: connection.execute(sql, (now, token_hash)).rowcount)
        seen.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits, nobody is told


def _token(row: Row) -> Token:
    token_hash, owner, scopes, *rest = row
    return Token(token_hash, owner, _scopes.decode(scopes), *rest)
