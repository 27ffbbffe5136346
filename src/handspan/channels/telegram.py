"""Telegram: messages of a bot, and what people write to it, by long polling."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from handspan.channels.telegram_api import TelegramApi, split_text
from handspan.core.channels import Inbox, IncomingMessage, MessageTaken, OutgoingMessage
from handspan.core.errors import ToolError
from handspan.core.values import Json, JsonObject, strip_invisible

_MOST_UNITS: Final = 4096
_MOST_LABEL: Final = 60
_POLL_SECONDS: Final = 50
_ANSWER_SECONDS: Final = 15
_UPDATES: Final = 50
_WANTED: Final[list[Json]] = ["message", "callback_query"]
_PAUSE: Final = 1.0
"""Seconds until a full inbox is asked again."""

Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _User(Struct):
    id: Number
    is_bot: bool = False
    first_name: str = ""
    username: str = ""


class _Chat(Struct):
    id: Number


class _Message(Struct):
    message_id: Number
    chat: _Chat
    sender: _User | None = field(default=None, name="from")
    text: str = ""


class _Callback(Struct):
    id: str
    sender: _User = field(name="from")
    message: _Message | None = None
    data: str = ""


class _Update(Struct):
    update_id: Number
    message: _Message | None = None
    callback_query: _Callback | None = None


class TelegramChannel:
    """One bot."""

    def __init__(self, name: str, api: TelegramApi, queue: int) -> None:
        """`queue`: how many messages the inbox takes; more at once would never find room there."""
        self._name = name
        self._api = api
        self._most_updates = min(queue, _UPDATES)

    def split(self, content: str) -> Sequence[str]:
        """Return the parts of this text, each short enough for Telegram."""
        return split_text(strip_invisible(content) or "…", _MOST_UNITS)

    async def deliver(self, message: OutgoingMessage) -> str:
        """Send the message, a long one in parts, and return the id of the last part. Raises `ToolError`."""
        *first, last = self.split(message.content)
        reply: JsonObject = {}
        if message.reply_to.isdecimal():
            reply = {"reply_parameters": {"message_id": int(message.reply_to), "allow_sending_without_reply": True}}
        for part in first:
            await self._send(message.chat_id, part, reply)
        return await self._send(message.chat_id, last, reply | _keyboard(message))

    async def remove_buttons(self, chat_id: str, message_ref: str) -> None:
        """Remove the buttons of this message."""
        if message_ref.isdecimal():
            parameters: JsonObject = {"chat_id": chat_id, "message_id": int(message_ref)}
            await self._api.call("editMessageReplyMarkup", parameters)

    async def close(self) -> None:
        """Close the connections to Telegram."""
        await self._api.close()

    async def listen(self, inbox: Inbox, note_up: Callable[[], None]) -> None:
        """Receive the messages that people write, until it is cancelled. Raises `ToolError` when Telegram is down."""
        position, seconds = await inbox.position(self._name), 0  # the first answer comes at once
        while True:
            updates = await self._updates(position, seconds)
            note_up()
            position = await self._pass_on(inbox, updates, position)
            seconds = _POLL_SECONDS

    async def _updates(self, position: str, seconds: int) -> "Sequence[_Update]":
        """Return the next updates after so many seconds at most. Telegram keeps each until a later one is asked for."""
        asked: JsonObject = {"timeout": seconds, "limit": self._most_updates, "allowed_updates": _WANTED}
        if position.isdecimal():
            asked["offset"] = int(position)
        return _read_updates(await self._api.call("getUpdates", asked, seconds + _ANSWER_SECONDS))

    async def _pass_on(self, inbox: Inbox, updates: "Sequence[_Update]", position: str) -> str:
        """Return the position after these updates, which the inbox has stored."""
        if not updates:
            return position
        after = str(max(update.update_id for update in updates) + 1)
        messages = [one for update in updates if (one := self._incoming(update)) is not None]
        try:
            taken = await inbox.receive(self._name, messages, after)
        except ToolError as error:
            if error.code != "busy":
                raise
            await asyncio.sleep(_PAUSE)  # they stay at Telegram meanwhile
            return position
        await self._tell_senders(updates, messages, taken)
        return after

    def _incoming(self, update: _Update) -> IncomingMessage | None:
        """Return the message, or the button that was pressed, of this update; None for one that is neither."""
        callback, message = update.callback_query, update.message
        if callback is not None and callback.message is not None:
            chat = str(callback.message.chat.id)
            about = (str(update.update_id), str(callback.sender.id), chat, "")
            return IncomingMessage(self._name, *about, _name(callback.sender), pressed=callback.data)
        if message is None or message.sender is None or message.sender.is_bot:
            return None
        about = (str(update.update_id), str(message.sender.id), str(message.chat.id), message.text)
        return IncomingMessage(self._name, *about, _name(message.sender), reply_to=str(message.message_id))

    async def _tell_senders(
        self, updates: Sequence[_Update], messages: Sequence[IncomingMessage], taken: Sequence[MessageTaken]
    ) -> None:
        """Show each sender what came of the message. That a sender can't be told stops no one else."""
        callbacks = {str(one.update_id): one.callback_query.id for one in updates if one.callback_query is not None}
        for message, outcome in zip(messages, taken, strict=True):
            with contextlib.suppress(ToolError):
                if callback := callbacks.get(message.id):
                    parameters: JsonObject = {"callback_query_id": callback, "text": outcome.text[:200]}
                    await self._api.call("answerCallbackQuery", parameters)
                elif outcome.text:
                    await self._send(message.chat_id, outcome.text, {})

    async def _send(self, chat_id: str, text: str, more: JsonObject) -> str:
        sent = await self._api.call("sendMessage", {"chat_id": chat_id, "text": text, **more})
        return str(sent.get("message_id", "")) if isinstance(sent, dict) else ""


def _keyboard(message: OutgoingMessage) -> JsonObject:
    if not message.buttons:
        return {}
    rows: list[Json] = [[{"text": one.label[:_MOST_LABEL], "callback_data": one.data}] for one in message.buttons]
    return {"reply_markup": {"inline_keyboard": rows}}


def _read_updates(found: Json) -> "Sequence[_Update]":
    """Return the updates. One of a form that we do not know still moves the position on."""
    updates = []
    for one in found if isinstance(found, list) else ():
        try:
            updates.append(msgspec.convert(one, _Update))
        except msgspec.ValidationError:
            with contextlib.suppress(msgspec.ValidationError):
                updates.append(_Update(msgspec.convert(one, _Position).update_id))
    return updates


class _Position(Struct):
    update_id: Number


def _name(user: _User) -> str:
    return " ".join(strip_invisible(user.first_name or user.username).split())[:60]
