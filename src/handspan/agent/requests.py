"""What clients ask of a session, as values: each knows how its turn opens the conversation, begins and runs."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from handspan.agent.conversation import Conversation, open_calls, waits_for
from handspan.agent.refusals import NoUserMessage, SessionBusy
from handspan.agent.stored_turns import StoredTurn
from handspan.agent.turn import Turn
from handspan.agent.turn_events import last_turn
from handspan.core.errors import StoreError, ToolError
from handspan.core.events import Ended
from handspan.core.messages import Message, UserMessage
from handspan.core.principals import Principal

AddForTurn: TypeAlias = Callable[[Conversation], AbstractContextManager[None]]
"""Gives a conversation something for one turn, such as the tools of the client that made the request."""
First: TypeAlias = Callable[[], Awaitable[bool]]
"""Is called before a resumed turn goes on. Returns False when the turn must not go on."""

NOTHING_TO_DO: Final = Ended("pending")
"""The end of a request that found nothing to go on with."""
GIVEN_UP: Final = Ended("aborted")
"""The end of a turn that waited and was given up."""


class OpenedSession(NamedTuple):
    """A conversation that is ready for a turn."""

    conversation: Conversation
    is_waiting: bool = False
    """Whether a turn of the session waits for results of calls."""


class RequestedSession(Protocol):
    """What a request needs of its session."""

    async def open(self, who: Principal, agent: str, name: str) -> OpenedSession:
        """Return the conversation. A missing session is made."""
        ...

    async def reopen(self, who: Principal | None = None) -> Conversation | None:
        """Return the conversation; None when the session does not exist."""
        ...

    @property
    def waiting(self) -> str:
        """The id of the turn that waits for results of calls; empty if it did not run on this node."""
        ...

    async def finish_waiting(self, turn: Turn, conversation: Conversation, waiting: str) -> None:
        """Run the rest of the waiting turn of this id, if its calls have their results."""
        ...

    async def answer_known(self, turn: Turn, conversation: Conversation, message: UserMessage) -> Ended | None:
        """Tell the sender of a stored message its answer, and return its end; None if the message has no answer yet."""
        ...


class SayRequest(Struct, frozen=True):
    """Answer this message in a turn."""

    who: Principal
    message: UserMessage
    agent: str = ""
    name: str = ""
    add_for_turn: AddForTurn | None = None
    gives_up: bool = False
    history: Sequence[Message] = ()
    replaces: int = 0

    checks_first: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True

    @property
    def raises(self) -> tuple[type[ToolError], ...]:
        """The failures that the handle's end raises."""
        return (StoreError,) if self.gives_up else ()

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation. A missing session is made."""
        return await session.open(self.who, self.agent, self.name)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin the turn, after a turn that waits. Return the end of a message that was answered before."""
        conversation, is_waiting = opened
        is_known = conversation.find_message(self.message.id) is not None
        if is_known and (ended := await session.answer_known(turn, conversation, self.message)) is not None:
            return ended
        if not is_known and is_waiting and not self.gives_up:
            await session.finish_waiting(turn, conversation, session.waiting or last_turn(conversation.messages))
            if waited_for := open_calls(conversation.last):
                raise SessionBusy(waits_for(waited_for))
        turn.begin(conversation)
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """Add the message and answer it. A known message is answered if its turn was cut off."""
        conversation = stored.conversation
        if conversation.find_message(self.message.id) is not None:  # another node may have stored it meanwhile
            ended = await session.answer_known(turn, conversation, self.message)
            return ended or await stored.finish(turn, cut_off=True) or NOTHING_TO_DO
        if self.gives_up and stored.waits:
            await stored.give_up()
        elif (waited_for := open_calls(conversation.last)) and (await stored.advance(turn.emit)).reason == "pending":
            raise ToolError("busy", waits_for(waited_for))
        conversation.end_turn_skills()  # of a turn that ended just before
        if self.replaces:
            await stored.rewind(before=self.replaces)
        for earlier in () if conversation.messages else self.history:
            await conversation.append(earlier)
        await conversation.append(self.message)
        return await stored.advance(turn.emit)


class RegenerateRequest(Struct, frozen=True):
    """Answer the last message again, in place of its old answer."""

    who: Principal
    add_for_turn: AddForTurn | None = None

    checks_first: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = ()

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin the turn."""
        turn.begin(opened.conversation)
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """Remove the old answer, and answer the message again."""
        stored.refuse_waiting()
        await stored.rewind()
        return await stored.advance(turn.emit)


class UndoRequest(Struct, frozen=True):
    """Remove the person's last message and all that follows it."""

    who: Principal

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin nothing: the model is not asked."""
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """Remove the messages."""
        stored.refuse_waiting()
        await stored.rewind(with_message=True)
        return NOTHING_TO_DO


class ResumeRequest(Struct, frozen=True):
    """Go on with a waiting turn if all its calls have their results."""

    who: Principal | None = None
    add_for_turn: AddForTurn | None = None
    first: First | None = None
    cut_off: bool = False
    """Whether a turn whose process has ended goes on, too."""

    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = (StoreError,)

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation, if the turn may go on."""
        conversation = await session.reopen(self.who)
        if conversation is None or not (self.first is None or await self.first()):
            return None
        turn.id = session.waiting or last_turn(conversation.messages) or turn.id  # a resumed turn keeps its id
        return OpenedSession(conversation)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin nothing yet: a message that comes again before there is something to run gets a turn of its own."""
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """Run the rest of the turn."""
        return await stored.finish(turn, cut_off=self.cut_off) or NOTHING_TO_DO


class TakeOverRequest(Struct, frozen=True):
    """Go on with a turn that another node has handed over."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = ()

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation."""
        conversation = await session.reopen()
        return None if conversation is None else OpenedSession(conversation)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin nothing yet: another node may be faster."""
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """Run the rest of the turn."""
        turn.id = last_turn(stored.conversation.messages) or turn.id  # a turn that was handed over keeps its id
        turn.begin(stored.conversation)
        return await stored.advance(turn.emit)


class GiveUpRequest(Struct, frozen=True):
    """End a turn that waits for a page."""

    who: Principal
    expired: bool = False
    """Whether to end it only if none of its calls is open any more."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: RequestedSession, turn: Turn) -> OpenedSession | None:
        """Return the conversation."""
        conversation = await session.reopen(self.who)
        return None if conversation is None else OpenedSession(conversation)

    async def begin(self, session: RequestedSession, turn: Turn, opened: OpenedSession) -> Ended | None:
        """Begin nothing yet: perhaps no turn waits."""
        return None

    async def run(self, session: RequestedSession, turn: Turn, stored: StoredTurn) -> Ended:
        """End the calls and the turn."""
        if not (await stored.can_go_on() if self.expired else stored.waits):
            return NOTHING_TO_DO
        turn.begin(stored.conversation)
        await stored.give_up(GIVEN_UP)
        return GIVEN_UP


SessionRequest: TypeAlias = (
    SayRequest | RegenerateRequest | UndoRequest | ResumeRequest | TakeOverRequest | GiveUpRequest
)


async def _reopen_with_message(session: RequestedSession, who: Principal) -> OpenedSession:
    conversation = await session.reopen(who)
    if conversation is None:
        raise NoUserMessage
    return OpenedSession(conversation)
