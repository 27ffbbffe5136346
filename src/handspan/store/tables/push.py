"""Browsers that get notifications, as rows, and the secret with which the gateway signs for them (SPEC J4)."""

import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import structs

from handspan.core.records import PushSubscription
from handspan.core.values import sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import Row

_SECRET_BYTES: Final = 32
_FIND: Final = (
    "SELECT id, push.owner, token, endpoint, p256dh, auth, push.label, push.created, last_success,"
    " COALESCE(tokens.last_seen, tokens.created), scopes"
    " FROM push_subscriptions AS push JOIN tokens ON tokens.hash = push.token WHERE tokens.revoked IS NULL"
)
_REMOVE_REVOKED: Final = (
    "DELETE FROM push_subscriptions WHERE owner = ? AND token IN (SELECT hash FROM tokens WHERE revoked IS NOT NULL)"
)
_KNOWN: Final = "SELECT id FROM push_subscriptions WHERE owner = ? AND endpoint = ?"
_RENEW: Final = "UPDATE push_subscriptions SET token = ?, p256dh = ?, auth = ?, label = ? WHERE id = ?"
_COUNT: Final = "SELECT COUNT(*) FROM push_subscriptions WHERE owner = ?"
_ADD: Final = (
    "INSERT INTO push_subscriptions (id, owner, token, endpoint, p256dh, auth, label, created)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_scopes: Final = msgspec.json.Decoder(tuple[str, ...])


class StoredPush:
    """Stores subscriptions. Implements `PushBook`. A revoked token takes its subscriptions along."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def secret(self) -> bytes:
        async def work(connection: TableConnection) -> bytes:
            made = "INSERT INTO push_secret (id, secret) VALUES (1, ?) ON CONFLICT (id) DO NOTHING"
            await connection.execute(made, (secrets.token_bytes(_SECRET_BYTES),))
            return bytes(await connection.fetch_value("SELECT secret FROM push_secret WHERE id = 1"))

        return await self._database.write(work)

    async def all(self, *, owner: str) -> Sequence[PushSubscription]:
        sql = f"{_FIND} AND push.owner = ? ORDER BY push.created, id"
        return [_subscription(row) for row in await self._database.fetch_all(sql, (sanitize(owner),))]

    async def find(self, subscription_id: str) -> PushSubscription | None:
        row = await self._database.fetch_one(f"{_FIND} AND id = ?", (sanitize(subscription_id),))
        return None if row is None else _subscription(row)

    async def add(self, given: PushSubscription, most: int) -> str:
        owner, keys = sanitize(given.owner), (given.p256dh, given.auth, sanitize(given.label))

        async def work(connection: TableConnection) -> str:
            await connection.execute(_REMOVE_REVOKED, (owner,))
            known: str | None = await connection.fetch_value(_KNOWN, (owner, given.endpoint))
            if known is not None:
                await connection.execute(_RENEW, (given.token, *keys, known))
                return known
            if await connection.fetch_value(_COUNT, (owner,)) >= most:
                return ""
            await connection.execute(_ADD, (given.id, owner, given.token, given.endpoint, *keys, self._clock()))
            return given.id

        return await self._database.write(work)

    async def remove(self, subscription_id: str, *, owner: str) -> bool:
        sql = "DELETE FROM push_subscriptions WHERE id = ? AND owner = ?"
        return await self._database.execute(sql, (sanitize(subscription_id), sanitize(owner))) == 1

    async def note_success(self, subscription_id: str) -> None:
        sql = "UPDATE push_subscriptions SET last_success = ? WHERE id = ?"
        await self._database.execute(sql, (self._clock(), subscription_id))


def _subscription(row: Row) -> PushSubscription:
    return structs.replace(PushSubscription(*row[:-1]), scopes=_scopes.decode(row[-1]))
