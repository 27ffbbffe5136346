"""What clients ask of a session, as values: each knows how its turn opens the conversation, and answers."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

from msgspec import Struct

from handspan.agent.conversation import Conversation, open_calls, waits_for
from handspan.agent.refusals import NoUserMessage, SessionBusy
from handspan.agent.stored_turns import StoredTurn
from handspan.agent.turn import Turn
from handspan.agent.turn_events import last_turn
from handspan.core.errors import StoreError, ToolError
from handspan.core.events import Ended, WentBack
from handspan.core.messages import Message, UserMessage
from handspan.core.principals import Principal
from handspan.core.records import SessionKind

if TYPE_CHECKING:
    from handspan.agent.session import Session

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


class SayRequest(Struct, frozen=True):
    """Answer this message in a turn."""

    who: Principal
    message: UserMessage
    agent: str = ""
    name: str = ""
    kind: SessionKind = "chat"
    add_for_turn: AddForTurn | None = None
    gives_up: bool = False
    history: Sequence[Message] = ()
    before: Sequence[UserMessage] = ()
    replaces: int = 0

    checks_first: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True

    @property
    def raises(self) -> tuple[type[ToolError], ...]:
        """The failures that `Handle.wait_for_end` raises."""
        return (StoreError,) if self.gives_up else ()

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation. A missing session is made."""
        return await session.open(self.who, self.message.id, agent=self.agent, name=self.name, kind=self.kind)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Run the turn, after a turn that waits. Return the end of a message that was answered before."""
        conversation, is_waiting = opened
        is_known = conversation.find_message(self.message.id) is not None
        if is_known and (ended := await session.answer_known(turn, conversation, self.message)) is not None:
            return ended
        if not is_known and is_waiting and not self.gives_up:
            waiting = session.listeners.waiting or last_turn(conversation.messages)
            await session.finish_waiting(turn, conversation, waiting)
            if waited_for := open_calls(conversation.last):
                raise SessionBusy(waits_for(waited_for))
        turn.begin(conversation)
        async with session.begin_stored(conversation) as stored:
            return await self._run(session, turn, stored)

    async def _run(self, session: "Session", turn: Turn, stored: StoredTurn) -> Ended:
        """Add the message and answer it. A known message is answered if its turn was cut off."""
        conversation = stored.conversation
        if conversation.find_message(self.message.id) is not None:  # another node may have stored it meanwhile
            return await self._answer_known(session, turn, stored)
        if stored.waits:
            await self._end_waiting(turn, stored)
        conversation.end_turn_skills()  # of a turn that ended just before
        if self.replaces:
            await stored.rewind(before=self.replaces)
            turn.emit(WentBack(len(stored.conversation.messages)))
        for earlier in (*(() if conversation.messages else self.history), *self.before):
            await conversation.append(earlier)
        await conversation.append(self.message)
        return await stored.advance(turn.emit)

    async def _answer_known(self, session: "Session", turn: Turn, stored: StoredTurn) -> Ended:
        """Return the end of a message that is stored already. Run the rest of its turn first if that was cut off."""
        ended = await session.answer_known(turn, stored.conversation, self.message)
        if ended is None:
            ended = await stored.finish(turn, cut_off=True)
        return NOTHING_TO_DO if ended is None else ended

    async def _end_waiting(self, turn: Turn, stored: StoredTurn) -> None:
        """Give up the turn that waits, or run the rest of it. Raises `ToolError` (`busy`) if it still waits then."""
        if self.gives_up:
            await stored.give_up()
            return
        waited_for = open_calls(stored.conversation.last)
        ended = await stored.advance(turn.emit)
        if ended.reason == "pending":
            raise ToolError("busy", waits_for(waited_for))


class RegenerateRequest(Struct, frozen=True):
    """Answer the last message again, in place of its old answer."""

    who: Principal
    add_for_turn: AddForTurn | None = None

    checks_first: ClassVar[bool] = False
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = ()

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Remove the old answer, and answer the message again."""
        turn.begin(opened.conversation)
        async with session.begin_stored(opened.conversation) as stored:
            stored.refuse_waiting()
            await stored.rewind()
            turn.emit(WentBack(len(stored.conversation.messages)))
            return await stored.advance(turn.emit)


class GoBackRequest(Struct, frozen=True):
    """Take the person's last message and all that follows it back, or go on with another version (SPEC L8)."""

    who: Principal
    branch: int | None = None
    """The version to go on with; None: take the last message back."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Change the messages. The model is not asked."""
        async with session.begin_stored(opened.conversation) as stored:
            stored.refuse_waiting()
            if self.branch is None:
                await stored.rewind(with_message=True)
            else:
                await stored.choose_version(self.branch)
            turn.emit(WentBack(len(stored.conversation.messages)))
        return NOTHING_TO_DO


class CompactRequest(Struct, frozen=True):
    """Make what the model sees shorter, because a person asks for it (SPEC L2)."""

    who: Principal
    keep: str = ""
    """What the person wants to be in the summary."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Ask the model for a summary. No message is added."""
        async with session.begin_stored(opened.conversation) as stored:
            await stored.compact(self.keep, turn.emit)
        return NOTHING_TO_DO


class LookRequest(Struct, frozen=True):
    """Load the conversation, so that it can be looked at."""

    who: Principal

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation. Raises `NoUserMessage` when the session does not exist."""
        return await _reopen_with_message(session, self.who)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Change nothing."""
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

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation, if the turn may go on."""
        conversation = await session.reopen(self.who)
        if conversation is None or not (self.first is None or await self.first()):
            return None
        turn.id = (
            session.listeners.waiting or last_turn(conversation.messages) or turn.id
        )  # a resumed turn keeps its id
        return OpenedSession(conversation)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Run the rest of the turn. It begins only then: a message that comes again before gets a turn of its own."""
        return await session.finish(turn, opened.conversation, cut_off=self.cut_off) or NOTHING_TO_DO


class TakeOverRequest(Struct, frozen=True):
    """Go on with a turn that another node has handed over."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = True
    raises: ClassVar[tuple[type[ToolError], ...]] = ()

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation."""
        conversation = await session.reopen()
        return None if conversation is None else OpenedSession(conversation)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """Run the rest of the turn, unless another node was faster."""
        async with session.begin_stored(opened.conversation, takes_over=True) as stored:
            turn.id = last_turn(stored.conversation.messages) or turn.id  # a turn that was handed over keeps its id
            turn.begin(stored.conversation)
            return await stored.advance(turn.emit)


class GiveUpRequest(Struct, frozen=True):
    """End a turn that waits for a page."""

    who: Principal
    expired: bool = False
    """Whether to end it only if none of its calls is open any more."""
    all_calls: bool = False
    """Whether to end it whatever its calls wait for."""

    add_for_turn: ClassVar[None] = None
    checks_first: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    raises: ClassVar[tuple[type[ToolError], ...]] = (ToolError,)

    async def open(self, session: "Session", turn: Turn) -> OpenedSession | None:
        """Return the conversation."""
        conversation = await session.reopen(self.who)
        return None if conversation is None else OpenedSession(conversation)

    async def answer(self, session: "Session", turn: Turn, opened: OpenedSession) -> Ended:
        """End the calls and the turn, if one waits."""
        async with session.begin_stored(opened.conversation) as stored:
            if not (await stored.can_go_on() if self.expired else stored.waits):
                return NOTHING_TO_DO
            turn.begin(stored.conversation)
            await stored.give_up(GIVEN_UP, all_calls=self.all_calls)
            return GIVEN_UP


SessionRequest: TypeAlias = (
    SayRequest
    | RegenerateRequest
    | GoBackRequest
    | CompactRequest
    | LookRequest
    | ResumeRequest
    | TakeOverRequest
    | GiveUpRequest
)
"""`checks_first`: the turn first checks that there is work; until it has begun, no message can join it.

`asks_model`: the model has to answer; if not, the request only changes what is stored. `raises`: failures of the turn
that the handle's end raises, in place of an end with the reason `error`. `add_for_turn`: see `AddForTurn`.
"""


async def _reopen_with_message(session: "Session", who: Principal) -> OpenedSession:
    conversation = await session.reopen(who)
    if conversation is None:
        raise NoUserMessage
    return OpenedSession(conversation)
