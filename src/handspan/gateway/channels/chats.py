"""Chats of people with agents: one worker for each chat answers its messages one after another.

A message stays in the store until its answer is delivered. After a crash it is said again under the same id: the
session answers it once, and an answer that it has is only sent.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from typing import Final

from handspan.agent.refusals import GatewayStops, SessionBusy, TurnRefused
from handspan.agent.sessions import Sessions
from handspan.channels.bus import ChannelQueue, MessageBus, Unsent
from handspan.core.channels import CHANNEL_SESSION, InboxMessage, OutgoingMessage
from handspan.core.errors import StoreError, ToolError
from handspan.core.events import Ended
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import Principal
from handspan.core.store import ChannelBook
from handspan.gateway.channels.held_messages import HeldMessages
from handspan.gateway.channels.questions import ChannelQuestions, ChatPlace
from handspan.gateway.sessions.turn_ends import TurnEnds

_log = logging.getLogger(__name__)
_SCOPES: Final = ("chat",)
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_LOOK_SECONDS: Final = 30.0
_NO_TEXT: Final = "(no answer)"


class ChannelChats:
    """The chats with messages that are not answered yet."""

    def __init__(
        self,
        messages: MessageBus,
        book: ChannelBook,
        sessions: Sessions,
        questions: ChannelQuestions,
        held: HeldMessages,
    ) -> None:
        self._messages = messages
        self._book = book
        self._held = held
        self._sessions = sessions
        self._questions = questions
        self._waiting: dict[ChatPlace, deque[InboxMessage]] = {}
        self._workers: dict[ChatPlace, asyncio.Task[None]] = {}
        self._is_open = True

    def count(self, channel: str) -> int:
        """Return how many messages of this channel wait for their answer."""
        return sum(len(waiting) for place, waiting in self._waiting.items() if place.channel == channel)

    async def session_of(self, place: ChatPlace, *, is_new: bool = False) -> str:
        """Return the session of this chat; with `is_new` another one from now on."""
        known = "" if is_new else await self._book.session_of(place.channel, place.chat_id, owner=place.owner)
        if known:
            return known
        made = f"{CHANNEL_SESSION}{place.channel}-{secrets.token_hex(12)}"
        await self._book.use_session(place.channel, place.chat_id, made, owner=place.owner)
        return made

    def add(self, entry: InboxMessage) -> None:
        """Answer this message after those that its chat has before it."""
        message = entry.message
        place = ChatPlace(message.channel, message.chat_id, entry.owner)
        self._waiting.setdefault(place, deque()).append(entry)
        if self._is_open and place not in self._workers:
            self._workers[place] = asyncio.create_task(self._answer_all(place))

    async def drain(self, seconds: float) -> None:
        """Wait so long for answers that are on their way. No turn begins any more."""
        if self._workers:
            await asyncio.wait(self._workers.values(), timeout=seconds)

    async def close(self) -> None:
        """Stop the workers. What is not answered stays in the store."""
        self._is_open = False
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _answer_all(self, place: ChatPlace) -> None:
        """Answer the messages of one chat one after another, until none waits."""
        waiting = self._waiting[place]
        try:
            while waiting and self._is_open:
                await self._answer_one(place, waiting[0])
                waiting.popleft()
        except GatewayStops:  # the next process answers the rest, or another node
            self._is_open = False
            await self._held.give_up(waiting)
        except Exception:  # a fault of ours must be seen, and the chat must go on with its next message
            _log.exception("The chat %r of %r failed", place.chat_id, place.channel)
            waiting.popleft()
        finally:
            del self._workers[place]
            if not waiting:
                del self._waiting[place]
            elif self._is_open:
                self._workers[place] = asyncio.create_task(self._answer_all(place))

    async def _answer_one(self, place: ChatPlace, entry: InboxMessage) -> None:
        """Run the turn of one message and send its answer. Raises `GatewayStops` when it has to wait."""
        queue = self._messages.find(place.channel)
        if queue is None or entry.state == "replying":  # sent before a crash: it may have arrived, so not again
            await self._held.finish(entry)
            return
        session = await self.session_of(place)
        self._questions.watch(session, place)
        try:
            text = await self._run_turn(queue, place, entry, session)
        finally:
            self._questions.unwatch(session)
        await self._reply(queue, place, entry, session, text=text)

    async def _run_turn(self, queue: ChannelQueue, place: ChatPlace, entry: InboxMessage, session: str) -> str:
        """Return the text of the answer. Tries again while the session is busy with something else."""
        while True:
            try:
                ended = await self._say(queue, entry, session)
            except GatewayStops:
                raise
            except SessionBusy:
                await asyncio.sleep(_FIRST_PAUSE)
                continue
            except (TurnRefused, StoreError) as refused:
                return f"I could not answer: {refused}"
            if ended.reason == "aborted" and not self._sessions.is_open:
                raise GatewayStops
            return _text_of(ended)

    async def _say(self, queue: ChannelQueue, entry: InboxMessage, session_id: str) -> Ended:
        """Run the turn of a message, and return how it ended. A turn that waits for a person is waited for, too."""
        message, session, ends = entry.message, self._sessions.get(session_id, entry.owner), TurnEnds()
        said = UserMessage((Text(message.content),), f"{message.channel}-{message.id}")
        unlisten = session.listen(ends)
        try:
            while True:
                handle = session.say(Principal(entry.owner, _SCOPES), said, ends, agent=queue.settings.agent)
                ended = await handle.wait_for_end(elsewhere=False)  # another node answers it then
                if ended.reason != "pending":
                    return ended
                await self._questions.show_open(session_id)  # an earlier process may have asked
                with contextlib.suppress(TimeoutError):  # then it is said again: the session may have been deleted
                    async with asyncio.timeout(_LOOK_SECONDS):
                        return await ends.wait(handle.turn.id)
        finally:
            unlisten()

    async def _reply(self, queue: ChannelQueue, place: ChatPlace, entry: InboxMessage, session: str, text: str) -> None:
        """Deliver the answer: of a long one the parts that have not gone out yet."""
        message, parts = entry.message, queue.split(text)
        try:
            for number, part in enumerate(parts[entry.sent :], entry.sent):
                about = (place.channel, place.chat_id, part, place.owner, session, message.reply_to)
                answer = OutgoingMessage(*about, id=f"{message.id}-answer{f'-{number + 1}' if number else ''}")
                await self._send_part(queue, answer, message.id, number, is_last=number == len(parts) - 1)
        except ToolError as error:
            _log.warning("An answer on the channel %r was not delivered: %s", place.channel, error.message)
        await self._held.finish(entry)

    async def _send_part(
        self, queue: ChannelQueue, part: OutgoingMessage, message_id: str, number: int, *, is_last: bool
    ) -> None:
        """Send one part. As long as it certainly did not arrive, it is tried again. Raises `ToolError` otherwise."""
        pause = _FIRST_PAUSE
        while True:
            # Stored first: after a crash, a part that may have arrived is not sent again.
            await self._book.set_state(queue.name, message_id, "replying" if is_last else "waiting", number + 1)
            try:
                await queue.send(part)
            except Unsent as error:
                await self._book.set_state(queue.name, message_id, "waiting", number)
                await asyncio.sleep(max(error.wait, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return


def _text_of(ended: Ended) -> str:
    match ended.reason:
        case "error":
            return f"I could not answer: {ended.text}"
        case "aborted":
            return f"{ended.text}\n(stopped)".strip()
        case _:
            return ended.text.strip() or _NO_TEXT
