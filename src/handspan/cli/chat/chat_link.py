"""A chat as the terminal needs it: over a connection, or with a session in this process."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from handspan.core.events import Event
from handspan.core.questions import Answer
from handspan.wire.ws_frames import ChannelMessage, MediaPart


class ChatLink(Protocol):
    """One session. `client.chat.Chat` and `gateway.inside_chat.InsideChat` fill it."""

    @property
    def session_id(self) -> str:
        """The id of the session, also of a new one."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it can't be used any more."""
        ...

    def send(self, text: str, *, parts: Sequence[MediaPart] = ()) -> AsyncIterator[Event]:
        """Send a message, and iterate over the events of the turn that answers it, up to its `Ended`."""
        ...

    def regenerate(self) -> AsyncIterator[Event]:
        """Let the model give its last answer again."""
        ...

    async def abort(self) -> bool:
        """Stop the turn. Return False when no turn ran."""
        ...

    async def give(self, question_id: str, answer: Answer) -> None:
        """Answer a question. Raises `InvalidAnswer` when the answer does not fit."""
        ...

    async def closed(self, question_id: str) -> bool:
        """Wait until a question is closed. Return whether the answer of this chat was the one that counts."""
        ...


class ChatWatcher(Protocol):
    """What a chat tells beside the events of turns."""

    def on_state(self, state: str) -> None:
        """The state of the connection is this one now, such as "reconnecting"; never called without a connection."""
        ...

    def on_message(self, message: ChannelMessage) -> None:
        """An agent has written to the person, outside of any answer."""
        ...


OpenChat: TypeAlias = Callable[[str, str, ChatWatcher], AbstractAsyncContextManager[ChatLink]]
"""Opens a session, or a new one for an empty id, with this agent; an empty name: the agent that the session has."""
