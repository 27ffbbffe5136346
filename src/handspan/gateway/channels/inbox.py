"""What people write on channels: who may, how much, and what each message means."""

import math
import shlex
from collections.abc import Sequence
from functools import partial
from typing import Final

from handspan.agent.sessions import Sessions
from handspan.channels.bus import ChannelQueue, MessageBus
from handspan.core.channels import ANYONE, InboxMessage, IncomingMessage, MessageTaken
from handspan.core.errors import ToolError
from handspan.core.nodes import Nodes
from handspan.core.principals import OPERATOR
from handspan.core.store import ChannelBook
from handspan.core.values import strip_invisible
from handspan.gateway.channels.chats import ChannelChats
from handspan.gateway.channels.held_messages import HeldMessages
from handspan.gateway.channels.questions import ChannelQuestions, ChatPlace
from handspan.gateway.entry.rate_limit import TryLimit

_MINUTE: Final = 60.0
_TOLD_SECONDS: Final = 600.0
"""An unknown sender is told how to be paired once in this time."""
_LONGEST: Final = 32_000
_LONGEST_ID: Final = 200
_COMMANDS: Final = frozenset(("/start", "/help", "/new", "/stop"))
_HELP: Final = (
    "Write to me as to any agent. I ask before I do something that can't be undone: answer with the buttons, or with "
    "yes or no. /new begins a new conversation, /stop ends what I do now."
)


class ChannelInbox:
    """Takes what channels receive: stores it first, then answers questions, runs commands or begins turns."""

    def __init__(
        self,
        messages: MessageBus,
        book: ChannelBook,
        sessions: Sessions,
        chats: ChannelChats,
        questions: ChannelQuestions,
        held: HeldMessages,
        nodes: Nodes,
    ) -> None:
        self._messages = messages
        self._held = held
        self._book = book
        self._sessions = sessions
        self._chats = chats
        self._questions = questions
        self._rates = {
            queue.name: TryLimit(
                queue.settings.per_minute, _MINUTE, share=partial(nodes.work.share_tries, f"channel {queue.name}")
            )
            for queue in messages
        }
        self._told = TryLimit(1, _TOLD_SECONDS, share=partial(nodes.work.share_tries, "stranger"))

    async def recover(self, entry: InboxMessage) -> None:
        """Go on with a message that an earlier process or another node had taken and not answered."""
        await self._route(entry, is_new=False)

    async def position(self, channel: str) -> str:
        """Return the position that was stored last; empty at the first start."""
        return await self._book.position(channel)

    async def receive(
        self, channel: str, messages: Sequence[IncomingMessage], position: str = ""
    ) -> Sequence[MessageTaken]:
        """Return what came of each message, once all are stored with the position. Raises `ToolError` (`busy`)."""
        queue = self._messages.find(channel)
        assert queue is not None, "a channel receives only while it is on the bus"
        self._check_room(queue, len(messages))
        judged = [await self._judge(queue, one) for one in messages]
        accepted = [one for one in judged if isinstance(one, InboxMessage)]
        receipts = iter(await self._book.take(channel, accepted, position))
        taken: list[MessageTaken] = []
        for one in judged:
            if isinstance(one, MessageTaken):
                taken.append(one)
                continue
            receipt = next(receipts)
            if receipt == "new":
                queue.received += 1
                taken.append(await self._route(one) if await self._held.hold(one) else MessageTaken("accepted"))
            else:
                taken.append(MessageTaken("duplicate" if receipt == "known" else "replayed"))
        return taken

    def _check_room(self, queue: ChannelQueue, count: int) -> None:
        if self._chats.count(queue.name) + count > queue.settings.queue:
            text = f"inbound channel full (backpressure): {queue.settings.queue} messages of {queue.name!r} wait."
            raise ToolError("busy", f"{text} Try again later.")

    async def _judge(self, queue: ChannelQueue, message: IncomingMessage) -> InboxMessage | MessageTaken:
        """Return the message with its owner, or why it is not accepted. Nothing has happened yet."""
        owner = await self._owner_of(queue, message)
        who = f"{message.sender_id}@{queue.name}"
        if owner is None:
            return self._refuse_unknown(queue, message, who)
        if wait := self._rates[queue.name].wait(who):
            text = f"Too many messages: wait {math.ceil(wait)} s."
            return MessageTaken("limited", text if self._may_tell(queue, f"{who} rate") else "")
        self._rates[queue.name].note(who)
        if not message.content.strip() and not message.pressed:
            return MessageTaken("refused", "I can read text only.")
        if len(message.content) > _LONGEST:
            return MessageTaken("refused", f"This is too long: {_LONGEST} characters at most.")
        return InboxMessage(message, owner)

    async def _owner_of(self, queue: ChannelQueue, message: IncomingMessage) -> str | None:
        if message.sender_id in queue.settings.allow or ANYONE in queue.settings.allow:
            return OPERATOR.owner if queue.settings.owner == ANYONE else queue.settings.owner
        sender = await self._book.find_sender(queue.name, message.sender_id)
        return None if sender is None else sender.owner

    def _refuse_unknown(self, queue: ChannelQueue, message: IncomingMessage, who: str) -> MessageTaken:
        """Refuse a sender that was not let in, and say now and then how the operator can do that."""
        sender = " ".join(strip_invisible(message.sender_id).split())[:_LONGEST_ID]
        text = f"I don't know you yet. Your id is {sender}."
        if sender == message.sender_id:
            words = shlex.join((queue.name, *(["--"] if sender.startswith("-") else []), sender))
            text += f" The operator of this gateway can let you in with:\nhandspan channels pair {words}"
        else:
            text += (
                " It is too long, or has characters that can't be shown: the operator of this gateway can't type it."
            )
        return MessageTaken("refused", text if self._may_tell(queue, who) else "")

    def _may_tell(self, queue: ChannelQueue, who: str) -> bool:
        """Whether this person was not told lately: a flood gets no flood of answers. A webhook's program gets each."""
        if queue.kind == "webhook":
            return True
        may = not self._told.wait(who)
        if may:
            self._told.note(who)
        return may

    async def _route(self, entry: InboxMessage, *, is_new: bool = True) -> MessageTaken:
        """Answer a question, run a command, or begin a turn.

        `is_new`: only a message that has just come may answer a question. One of an earlier process may be the very
        message for whose turn the question was asked.
        """
        message = entry.message
        place = ChatPlace(message.channel, message.chat_id, entry.owner)
        if entry.state == "replying":
            self._chats.add(entry)
            return MessageTaken("accepted")
        session = await self._book.session_of(place.channel, place.chat_id, owner=place.owner)
        word = message.content.strip().split("@")[0].split(" ")[0].lower()
        if message.pressed:
            text = await self._questions.press(message, entry.owner, session)
        elif word in _COMMANDS:
            text = await self._run_command(word, place, session)
        else:
            words = await self._questions.take_words(message, entry.owner, session) if is_new else None
            if words is None or not words.is_answer:
                self._chats.add(entry)
                return MessageTaken("accepted", words.text if words else "")
            text = words.text
        await self._held.finish(entry)
        return MessageTaken("answered", text)

    async def _run_command(self, command: str, place: ChatPlace, session: str) -> str:
        """Do what this word asks for, and return the answer."""
        match command:
            case "/new":
                await self._chats.session_of(place, is_new=True)
                return "A new conversation. What can I do?"
            case "/stop":
                is_stopped = bool(session) and await self._sessions.abort_anywhere(session, place.owner)
                return "Stopped." if is_stopped else "Nothing runs now."
            case _:
                return _HELP
