"""Conversations that go on while the gateway is killed or ended, and what must be left of them."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Final

from websockets.exceptions import WebSocketException

from handspan.core.messages import AssistantMessage, Message, Text, UserMessage, check_all
from handspan.core.principals import OPERATOR
from handspan.core.values import JsonObject
from handspan.testing import FakeDevice, NotSaid, offer
from tests.stores import open_store

PARCEL: Final[JsonObject] = {
    "type": "object",
    "properties": {"parcel": {"type": "string", "description": "which parcel"}},
    "required": ["parcel"],
}
WEIGH: Final = offer("weigh", "Weigh a parcel.", PARCEL, timeout=30)
"""The tool that the offline model finds in what is said here."""
_BETWEEN_TRIES: Final = 0.02


class Talk:
    """One person who says one thing after another, and waits for the end of each answer."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.answered: list[str] = []
        """What was said and answered to its end."""
        self.of_others: list[str] = []
        """Answers that came first, and were to something else."""

    async def run(self, url: str, token: str, is_over: asyncio.Event) -> None:
        """Talk until it is over, over as many links as it takes."""
        async with FakeDevice(url, token) as chat:
            number = 0
            while not is_over.is_set():
                number += 1
                try:
                    await self._say(chat, f"weigh parcel {self.session}-{number}")
                except (OSError, WebSocketException, NotSaid, TimeoutError):
                    await chat.drop()
                    await asyncio.sleep(_BETWEEN_TRIES)

    async def _say(self, chat: FakeDevice, text: str) -> None:
        if not chat.is_connected:
            await chat.connect(role="chat", session_id=self.session)
        await chat.send({"type": "message", "content": text})
        while (frame := await chat.next()) is not None:
            if frame["type"] == "error":  # it could not begin: the turn before waits for a device
                return
            if frame["type"] == "done":
                if text.rpartition(" ")[2] in str(frame["full_response"]):
                    self.answered.append(text)
                    return
                self.of_others.append(f"{text!r} was answered: {frame['full_response']}")
        raise NotSaid("the link is gone")

    async def missing(self, state: Path) -> list[str]:
        """What was answered and is not kept; read from the disk of a gateway that does not run."""
        if not self.answered:
            return []
        async with open_store(state) as store:
            known = await store.conversations.get(self.session, owner=OPERATOR.owner)
            messages = await store.conversations.load(self.session, owner=OPERATOR.owner)
        check_all(messages)
        unfinished = [f"{self.session} is {known.state}"] if known.state != "idle" else []
        return unfinished + missing_from(messages, self.answered)


def missing_from(messages: list[Message] | tuple[Message, ...], answered: list[str]) -> list[str]:
    """What is not there exactly once, with an answer behind it."""
    said = [_words(message) for message in messages if isinstance(message, UserMessage)]
    followed = {
        _words(before)
        for before, after in pairwise(messages)
        if isinstance(before, UserMessage) and isinstance(after, AssistantMessage)
    }
    return [text for text in answered if said.count(text) != 1 or text not in followed]


def _words(message: UserMessage) -> str:
    return " ".join(part.text for part in message.parts if isinstance(part, Text))
