"""The session of a chat as a request finds it, and the end of the turn that runs in it."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from handspan.agent.requests import NOTHING_TO_DO, SayRequest
from handspan.agent.sessions import Sessions
from handspan.agent.turn import Turn
from handspan.agent.turn_events import SessionEvent
from handspan.core.events import Ended
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.records import SessionState
from handspan.core.store import Store
from handspan.gateway.runs.runs import RunPlace


class KnownChat(Struct, frozen=True):
    """The session of a chat, as it is when a request comes."""

    id: str
    state: SessionState
    messages: Sequence[Message]
    removed: int = 0

    @property
    def has_answer(self) -> bool:
        """Whether the last message ends a turn."""
        last = self.messages[-1]
        return isinstance(last, AssistantMessage) and not last.calls

    @property
    def place(self) -> RunPlace:
        """The place of a run that goes on here."""
        return RunPlace(self.id, self.removed, resumes=True)


async def look_at_chat(store: Store, sessions: Sessions, session_id: str, owner: str) -> KnownChat | None:
    """Return the session as it is now. Of one that is at work, this process knows more than the store."""
    await sessions.until_stored(session_id, owner)
    record = await store.conversations.find(session_id, owner=owner)
    stored = [] if record is None else await store.conversations.load(session_id, owner=owner)
    session = sessions.find(session_id, owner)
    if session is not None and session.turns:
        conversation = session.conversation
        messages = stored if conversation is None else conversation.messages
        return KnownChat(session_id, "running", [*messages, *queued_messages(session.turns, messages)])
    return None if record is None else KnownChat(session_id, record.state, stored, record.removed)


def queued_messages(turns: Sequence[Turn], messages: Sequence[Message]) -> list[UserMessage]:
    """Return the messages of turns that are requested, and not among these messages yet."""
    known = {message.turn for message in messages if isinstance(message, UserMessage)}
    requests = [turn.request for turn in turns if turn.id not in known]
    return [message for one in requests if isinstance(one, SayRequest) for message in (*one.before, one.message)]


class EndWatch:
    """Notes the end of the running turn."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.ended = NOTHING_TO_DO

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Take one event of the session."""
        if isinstance(event, Ended):
            self.ended = event
            self.is_over.set()
