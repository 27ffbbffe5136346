"""A turn in the store: it begins, loads messages that other processes added, names the session, and ends (SPEC A2)."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from handspan.agent.conversation import Conversation, open_calls, waits_for
from handspan.agent.loop import Loop
from handspan.agent.refusals import NoUserMessage, TurnHandedOver
from handspan.agent.turn import Turn
from handspan.agent.turn_events import failed_end
from handspan.core.budgets import Payer, paying
from handspan.core.errors import TakenOver, ToolError
from handspan.core.events import Ended, Event, SessionChange, Titled, TurnEnd
from handspan.core.messages import UserMessage
from handspan.core.nodes import Nodes
from handspan.core.principals import OPERATOR
from handspan.core.records import ContextMarks, SessionRecord
from handspan.core.store import ContextBook, Conversations
from handspan.core.tasks import finish
from handspan.core.titles import make_title

_UNKNOWN: Final = -1
"""Stands for the number of removed messages when the store failed: the next turn loads all messages."""
WAIT_SECONDS: Final = 30.0
"""Seconds that a turn waits for the turn before it."""
_log = logging.getLogger(__name__)


class StoredTurn:
    """A turn that the store knows: what is done in it decides how it ends in the store."""

    def __init__(
        self,
        conversation: Conversation,
        conversations: Conversations,
        contexts: ContextBook,
        loop: Loop,
        aborted: Callable[[], Ended],
    ) -> None:
        self.conversation = conversation
        self._conversations = conversations
        self._contexts = contexts
        self._loop = loop
        self._aborted = aborted
        self._length = len(conversation.messages)
        self.waits = bool(open_calls(conversation.last))
        """Whether the session waits for results of calls after this turn."""
        self.ended: Ended | None = None
        """How the turn has ended, if the model was asked, or a message was stored."""
        self.emit: Callable[[Event | SessionChange], None] | None = None
        """Takes the events of the turn, once the loop has begun."""
        self.is_handed_over = False
        """Whether another node takes the turn over."""

    async def advance(self, emit: Callable[[Event | SessionChange], None]) -> Ended:
        """Advance the conversation until the turn ends, and return the end, which will be stored."""
        self.waits, self.emit = False, emit
        try:
            self.ended = await self._loop.advance(self.conversation, emit)
        except (TurnHandedOver, TakenOver):  # its end is another node's
            raise
        except Exception as error:  # the queue publishes this end
            self.ended = failed_end(error)
            raise
        self.waits = self.ended.reason == "pending"
        return self.ended

    async def finish(self, turn: Turn, *, cut_off: bool) -> Ended | None:
        """Begin the turn and run the rest of it. Return None without beginning when a call has no result yet.

        `cut_off`: also run the rest of a turn whose process has ended.
        """
        if not (cut_off and self.conversation.is_cut_off) and not await self.can_go_on():
            return None
        turn.begin(self.conversation)
        return await self.advance(turn.emit)

    async def can_go_on(self) -> bool:
        """Whether the conversation ends with calls that all have their results."""
        return await self._loop.can_go_on(self.conversation)

    def refuse_waiting(self) -> None:
        """Raise `ToolError` (`busy`) if calls have no results yet."""
        if waited_for := open_calls(self.conversation.last):
            raise ToolError("busy", waits_for(waited_for))

    async def rewind(self, *, before: int = 0, with_message: bool = False) -> None:
        """Remove the messages after the person's last message. No call is left that the session could wait for.

        `with_message`: remove the person's last message, too. `before`: remove the person's message of this number and
        all after it instead. Raises `NoUserMessage` when there is no such message.
        """
        conversation, messages = self.conversation, self.conversation.messages
        places = [place for place, message in enumerate(messages, 1) if isinstance(message, UserMessage)]
        if not places or (before and before not in places):
            raise NoUserMessage
        left = before - 1 if before else places[-1] - with_message
        await self._conversations.rewind(conversation.id, left, owner=conversation.owner)
        marks = await load_marks(conversation, self._contexts)
        conversation.rewrite(messages[:left], conversation.removed + len(messages) - left, marks)
        self.waits = False

    async def choose_version(self, branch: int) -> None:
        """Replace the messages by those of this version. Raises `ToolError` (`file_not_found`) for an unknown one."""
        store, session, owner = self._conversations, self.conversation.id, self.conversation.owner
        await store.choose_version(session, branch, owner=owner)
        record = await store.get(session, owner=owner)
        marks = await load_marks(self.conversation, self._contexts)
        self.conversation.rewrite(await store.load(session, owner=owner), record.removed, marks)

    async def compact(self, keep: str, emit: Callable[[Event | SessionChange], None]) -> None:
        """Make what the model sees shorter. `keep`: what the person wants to be in the summary."""
        await self._loop.compact(self.conversation, keep, emit)

    async def give_up(self, ended: Ended | None = None, *, all_calls: bool = False) -> None:
        """End the calls that a page did not answer. `ended`: how the turn ends, if no message follows.

        `all_calls`: end all open calls, whatever they wait for.
        """
        await self._loop.give_up(self.conversation, all_calls=all_calls)
        self.waits, self.ended = False, ended

    def note_cancel(self) -> None:
        """Note that the turn was aborted, if it has begun: the loop was at work, or a message was stored."""
        if self.emit is not None or len(self.conversation.messages) > self._length:
            self.ended = self._aborted()


def payer_of(conversation: Conversation) -> Payer:
    """Return for whom models are asked in this conversation. Only the operator, or an administrator, adds money."""
    who, agent = conversation.caller.who, conversation.agent
    may_add = who.owner == OPERATOR.owner or "admin" in who.scopes
    return Payer(who.owner, agent.name, conversation.id, agent.budget, may_add=may_add)


class StoredTurns:
    """Begins and ends turns in the store. In one session, only one process at a time runs a turn."""

    def __init__(self, conversations: Conversations, contexts: ContextBook, loop: Loop, nodes: Nodes) -> None:
        self._conversations = conversations
        self._contexts = contexts
        self._loop = loop
        self._nodes = nodes

    @asynccontextmanager
    async def turn(
        self, conversation: Conversation, aborted: Callable[[], Ended], *, takes_over: bool = False
    ) -> AsyncIterator[StoredTurn]:
        """Begin a turn, update the conversation, run the block, and end the turn; a first turn names the session.

        Raises `ToolError` (`busy`) while another turn runs. `aborted` returns the end of a turn that is cancelled now.
        `takes_over`: only take over a turn that another node has handed over. A block that raises `TurnHandedOver`
        hands its turn over.
        """
        record = await self._begin(conversation, self._take_over if takes_over else self._begin_when_free)
        before = paying.set(payer_of(conversation))
        stored = StoredTurn(conversation, self._conversations, self._contexts, self._loop, aborted=aborted)
        try:
            await self._catch_up(conversation, record)
            stored = StoredTurn(conversation, self._conversations, self._contexts, self._loop, aborted=aborted)
            yield stored
        except TurnHandedOver:
            stored.is_handed_over = True
            raise
        except asyncio.CancelledError:
            stored.note_cancel()
            raise
        finally:
            paying.reset(before)
            if not stored.waits:
                conversation.end_turn_skills()
            try:
                if conversation.inbox and not open_calls(conversation.last):  # the turn failed: store what joined it
                    await self._loop.take_inbox(conversation)
            finally:
                try:
                    if stored.is_handed_over:
                        await self._hand_over(conversation)
                    else:
                        await self._name_and_end(conversation, stored, has_name=bool(record.name))
                except ToolError:
                    conversation.removed = _UNKNOWN
                    raise

    async def load_ends(self, conversation: Conversation) -> None:
        """Let the conversation know how its turns ended, also in other processes."""
        conversation.ends = await self._conversations.ends(conversation.id, owner=conversation.owner)

    async def wait_for_others(self, conversation: Conversation) -> None:
        """Wait until no other node runs a turn of this session."""
        while True:
            record = await self._conversations.find(conversation.id, owner=conversation.owner)
            if record is None or record.state != "running" or not await self._nodes.wait_for_turn(conversation.id):
                return

    async def _name_and_end(self, conversation: Conversation, stored: StoredTurn, *, has_name: bool) -> None:
        """End the turn in the store. Name a session that has no name, however its turn ended, and tell the name."""
        is_over = stored.ended is not None and not stored.waits
        name = ""
        try:
            if is_over and not has_name:
                name = await finish(self._give_name(conversation))  # goes on when the caller is cancelled
        finally:  # also when the caller is cancelled meanwhile, as by a command that has its answer
            await self._end(conversation, waiting=stored.waits, ended=stored.ended)
        if name and stored.emit is not None:
            stored.emit(Titled(name))

    async def _give_name(self, conversation: Conversation) -> str:
        """Give the session a first name made of its messages, and return the name; empty when the session got none."""
        name = make_title(conversation.messages)
        try:
            if name and await self._conversations.give_name(conversation.id, name, owner=conversation.owner):
                return name
        except ToolError as error:  # the turn is stored all the same
            _log.warning("The session %s got no name: %s", conversation.id, error.message)
        return ""

    async def _begin(
        self, conversation: Conversation, begin: Callable[[Conversation], Coroutine[Any, Any, SessionRecord]]
    ) -> SessionRecord:
        """Mark the session as running by `begin`, and return its record. A cancelled caller removes the mark."""
        beginning = asyncio.ensure_future(begin(conversation))
        try:
            return await finish(beginning)
        except asyncio.CancelledError:
            if not beginning.cancelled() and beginning.exception() is None:
                await self._end(conversation, waiting=bool(open_calls(conversation.last)))
            raise

    async def _begin_when_free(self, conversation: Conversation) -> SessionRecord:
        """Mark the session as running, and return its record. Waits for a turn that another node runs."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return await self._conversations.begin_turn(conversation.id, owner=conversation.owner)
            except ToolError as error:
                if error.code != "busy" or time.monotonic() >= end:
                    raise
                if not await self._nodes.wait_for_turn(conversation.id):
                    raise

    async def _take_over(self, conversation: Conversation) -> SessionRecord:
        """Take over a turn that was handed over, and return the record of its session. Raises `ToolError` (`busy`)."""
        record = await self._conversations.take_over_turn(conversation.id, owner=conversation.owner)
        if record is None:
            raise ToolError("busy", f"Another node goes on with the session {conversation.id!r}.")
        return record

    async def _end(self, conversation: Conversation, *, waiting: bool, ended: Ended | None = None) -> None:
        """End the turn in the store, even if the caller is cancelled: the next turn depends on that."""
        end = None if ended is None or waiting else TurnEnd.of(ended, conversation.model.name, time.time())
        await finish(self._conversations.end_turn(conversation.id, owner=conversation.owner, waiting=waiting, end=end))

    async def _hand_over(self, conversation: Conversation) -> None:
        """Hand the turn over in the store, even if the caller is cancelled: the turn is handed over all the same."""
        try:
            await finish(self._conversations.hand_over(conversation.id, owner=conversation.owner))
        except asyncio.CancelledError:
            raise TurnHandedOver from None
        finally:
            conversation.handover = "none"

    async def _catch_up(self, conversation: Conversation, record: SessionRecord) -> None:
        """Load the messages that other processes have added; all messages if some were removed or a write failed."""
        store, length = self._conversations, len(conversation.messages)
        has_moved = record.compacted != conversation.compacted
        if (record.removed, record.length) == (conversation.removed, length) and not has_moved:
            return
        conversation.compacted = record.compacted
        marks = await load_marks(conversation, self._contexts)
        if record.removed != conversation.removed or record.length < length:  # after a failed write the store has fewer
            conversation.rewrite(await store.load(conversation.id, owner=record.owner), record.removed, marks)
        elif record.length > length:
            newer = await store.load(conversation.id, owner=record.owner, after=length)
            conversation.rewrite([*conversation.messages, *newer], record.removed, marks)
        else:
            conversation.use_marks(marks, record.compacted)


async def load_marks(conversation: Conversation, contexts: ContextBook) -> ContextMarks:
    """Return the marks of this conversation as the store has it. One that never became long has none."""
    if not conversation.compacted:
        return ContextMarks()
    return await contexts.marks(conversation.id, owner=conversation.owner)
