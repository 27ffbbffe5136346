"""The state of channels, as rows: people, chats, messages that wait for their answer, positions."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from handspan.core.channels import ChannelSender, InboxMessage, InboxState, IncomingMessage, Receipt
from handspan.core.values import encode, sanitize
from handspan.store.tables.database import Database, TableConnection
from handspan.store.tables.rows import Row, put_row

_SENDER: Final = "channel, sender, owner, name, at"
_PAIR: Final = put_row("channel_senders", "channel, sender", "owner, name, at")
_USE_SESSION: Final = put_row("channel_chats", "channel, chat, owner", "session")
_SET_POSITION: Final = put_row("channel_positions", "channel", "position")
_ENTER: Final = "INSERT INTO channel_inbox (channel, id, proof, owner, at, number, state, body) VALUES"
_KNOWN_SECONDS: Final = 24 * 3600.0
"""How long the ids and signatures of answered messages are stored. A signature is valid for minutes only."""
_message: Final = msgspec.json.Decoder(IncomingMessage)


class StoredChannels:
    """Stores the state of channels. Implements `ChannelBook`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def senders(self, channel: str) -> Sequence[ChannelSender]:
        sql = f"SELECT {_SENDER} FROM channel_senders WHERE channel = ? ORDER BY at, sender"
        return [ChannelSender(*row) for row in await self._database.fetch_all(sql, (channel,))]

    async def find_sender(self, channel: str, sender: str) -> ChannelSender | None:
        sql = f"SELECT {_SENDER} FROM channel_senders WHERE channel = ? AND sender = ?"
        row = await self._database.fetch_one(sql, (channel, sanitize(sender)))
        return None if row is None else ChannelSender(*row)

    async def pair(self, sender: ChannelSender) -> None:
        texts = (sender.channel, sender.sender, sender.owner, sender.name)
        await self._database.execute(_PAIR, (*map(sanitize, texts), sender.at or self._clock()))

    async def unpair(self, channel: str, sender: str) -> bool:
        sql = "DELETE FROM channel_senders WHERE channel = ? AND sender = ?"
        return await self._database.execute(sql, (channel, sanitize(sender))) > 0

    async def session_of(self, channel: str, chat: str, *, owner: str) -> str:
        sql = "SELECT session FROM channel_chats WHERE channel = ? AND chat = ? AND owner = ?"
        row = await self._database.fetch_one(sql, (channel, sanitize(chat), sanitize(owner)))
        return "" if row is None else str(row[0])

    async def use_session(self, channel: str, chat: str, session: str, *, owner: str) -> None:
        await self._database.execute(_USE_SESSION, (channel, sanitize(chat), sanitize(owner), session))

    async def chats(self, channel: str, *, owner: str) -> Sequence[str]:
        sql = "SELECT chat FROM channel_chats WHERE channel = ? AND owner = ? ORDER BY chat"
        return [chat for (chat,) in await self._database.fetch_all(sql, (channel, sanitize(owner)))]

    async def position(self, channel: str) -> str:
        sql = "SELECT position FROM channel_positions WHERE channel = ?"
        row = await self._database.fetch_one(sql, (channel,))
        return "" if row is None else str(row[0])

    async def take(self, channel: str, messages: Sequence[InboxMessage], position: str = "") -> Sequence[Receipt]:
        """Store new messages together with the position behind them, so that none is lost or comes twice."""
        now = self._clock()

        async def work(connection: TableConnection) -> list[Receipt]:
            await connection.execute(
                "DELETE FROM channel_inbox WHERE channel = ? AND state = 'done' AND at < ?",
                (channel, now - _KNOWN_SECONDS),
            )
            receipts = [await _enter(connection, one, now, number) for number, one in enumerate(messages)]
            if position:
                await connection.execute(_SET_POSITION, (channel, position))
            return receipts

        return await self._database.write(work)

    async def unanswered_messages(self, channel: str) -> Sequence[InboxMessage]:
        sql = (
            "SELECT body, owner, state, sent FROM channel_inbox WHERE channel = ? AND state <> 'done'"
            " AND body IS NOT NULL ORDER BY at, number"
        )
        return [_decode(row) for row in await self._database.fetch_all(sql, (channel,))]

    async def set_state(self, channel: str, message_id: str, state: InboxState, sent: int = 0) -> None:
        cleared = ", body = NULL" if state == "done" else ""
        sql = f"UPDATE channel_inbox SET state = ?, sent = ?{cleared} WHERE channel = ? AND id = ?"
        await self._database.execute(sql, (state, sent, channel, sanitize(message_id)))


async def _enter(connection: TableConnection, taken: InboxMessage, now: float, number: int) -> Receipt:
    """Enter a message, unless its id or its proof (the signature of a webhook) came before."""
    message = taken.message
    channel, message_id, proof = message.channel, sanitize(message.id), sanitize(message.proof)
    replayed = "SELECT 1 FROM channel_inbox WHERE channel = ? AND proof = ?"
    if proof and await connection.fetch_one(replayed, (channel, proof)) is not None:
        return "replayed"
    known = "SELECT 1 FROM channel_inbox WHERE channel = ? AND id = ?"
    if await connection.fetch_one(known, (channel, message_id)) is not None:
        return "known"
    body = None if taken.state == "done" else encode(message)
    values = (channel, message_id, proof, sanitize(taken.owner), now, number, taken.state, body)
    await connection.execute(f"{_ENTER} (?, ?, ?, ?, ?, ?, ?, ?)", values)
    return "new"


def _decode(row: Row) -> InboxMessage:
    body, owner, state, sent = row
    return InboxMessage(_message.decode(body), owner, state, sent)
