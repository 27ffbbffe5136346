"""A turn as the store sees it: begun, caught up with what other processes said, named, ended (SPEC A2)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from handspan.agent.conversation import Conversation, open_calls
from handspan.agent.loop import Loop
from handspan.agent.refusals import NoUserMessage
from handspan.core.errors import ToolError
from handspan.core.events import Ended
from handspan.core.messages import Message, Text, UserMessage
from handspan.core.records import SessionRecord
from handspan.core.store import Conversations
from handspan.core.values import strip_invisible

_NO_NAME_AFTER: Final = ("error", "aborted", "pending")
_UNKNOWN: Final = -1
"""How much a session has lost when the store could not say what it has kept of it."""
_log = logging.getLogger(__name__)


class StoredTurn:
    """How a turn stands, for the end of it."""

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits
        """Whether the session waits for the outcome of calls when this is over."""
        self.ended: Ended | None = None
        self.title = ""
        """The first name of the session, if it got one by this turn; there when the turn is over."""

    def end(self, ended: Ended) -> Ended:
        """Note how the loop has ended."""
        self.ended, self.waits = ended, ended.reason == "pending"
        return ended


class StoredTurns:
    """Begins and ends turns in the store. In one session one process at a time runs a turn."""

    def __init__(self, conversations: Conversations, loop: Loop) -> None:
        self._conversations = conversations
        self._loop = loop

    @asynccontextmanager
    async def turn(self, conversation: Conversation) -> AsyncIterator[StoredTurn]:
        """A turn in this conversation, which has caught up. Raises `ToolError` (`busy`) while another one runs."""
        record = await self._begin(conversation)
        stored = StoredTurn(waits=bool(open_calls(conversation.last)))
        try:
            await self._catch_up(conversation, record)
            stored.waits = bool(open_calls(conversation.last))
            yield stored
            if not record.name and stored.ended is not None and stored.ended.reason not in _NO_NAME_AFTER:
                stored.title = await self._name(conversation)
        finally:
            try:
                if conversation.inbox and not open_calls(conversation.last):  # the turn broke off: keep what was said
                    await self._loop.take_inbox(conversation)
            finally:
                try:
                    await self._end(conversation, waiting=stored.waits)
                except ToolError:
                    conversation.removed = _UNKNOWN
                    raise

    async def rewind(self, conversation: Conversation) -> None:
        """Drop what came after the last message of a person. Raises `NoUserMessage` when there is none."""
        messages = conversation.messages
        said = [place for place, message in enumerate(messages, 1) if type(message) is UserMessage]
        if not said:
            raise NoUserMessage
        await self._conversations.rewind(conversation.id, said[-1], owner=conversation.owner)
        conversation.rewrite(messages[: said[-1]], conversation.removed + len(messages) - said[-1])

    async def _name(self, conversation: Conversation) -> str:
        """The session's first name, made of what was said; empty when it has one, or gets none."""
        title = make_title(conversation.messages)
        try:
            if title and await self._conversations.give_name(conversation.id, title, owner=conversation.owner):
                return title
        except ToolError as error:  # the turn is stored all the same
            _log.warning("The session %s got no name: %s", conversation.id, error.message)
        return ""

    async def _begin(self, conversation: Conversation) -> SessionRecord:
        """The session, running from now on. If this is cancelled, no session is left that seems to run."""
        beginning = asyncio.ensure_future(self._conversations.begin_turn(conversation.id, owner=conversation.owner))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await asyncio.wait([beginning])
            if beginning.exception() is None:
                await self._end(conversation, waiting=bool(open_calls(conversation.last)))
            raise

    async def _end(self, conversation: Conversation, *, waiting: bool) -> None:
        """The turn is over in the store when this is, even if this is cancelled: the next turn looks at it."""
        ending = asyncio.ensure_future(
            self._conversations.end_turn(conversation.id, owner=conversation.owner, waiting=waiting)
        )
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _catch_up(self, conversation: Conversation, record: SessionRecord) -> None:
        """Take over what was said in the session elsewhere; something may also have been taken out of it."""
        kept, length = self._conversations, len(conversation.messages)
        if record.removed != conversation.removed or record.length < length:  # the latter: the disk did not take it
            conversation.rewrite(await kept.load(conversation.id, owner=record.owner), record.removed)
        elif record.length > length:
            newer = await kept.load(conversation.id, owner=record.owner, after=length)
            conversation.rewrite([*conversation.messages, *newer], record.removed)


_MOST_TITLE: Final = 60


def make_title(messages: Iterable[Message]) -> str:
    """The first words that a person said; empty when there are none, as with a picture alone."""
    said = (message for message in messages if isinstance(message, UserMessage))
    words = (shorten(" ".join(part.text for part in one.parts if isinstance(part, Text)), _MOST_TITLE) for one in said)
    return next(filter(None, words), "")


def shorten(text: str, most: int) -> str:
    """The text on one line, without what nobody sees, at most so long: cut between words where that can be."""
    line = " ".join(strip_invisible(text[: 100 * most]).split())
    if len(line) <= most:
        return line
    head, _, _ = line[:most].rpartition(" ")
    return f"{(head if len(head) >= most // 2 else line[: most - 1]).rstrip(' ,;:.-')}…"
