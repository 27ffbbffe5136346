"""One session in this process: its queue of turns, its listeners and, once it is loaded, its conversation.

A door makes a request and gets a handle with the end of the turn that answers it. All requests (`requests.py`) go
through one queue: one turn at a time, in the order of the requests. A turn belongs to its session, not to the client
that asked for it. A request that is refused raises `TurnRefused`; a turn that has begun always ends with `Ended`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from handspan.agent.conversation import Conversation, open_calls
from handspan.agent.listeners import Listeners
from handspan.agent.queue import TurnQueue
from handspan.agent.refusals import TurnHandedOver
from handspan.agent.requests import (
    NOTHING_TO_DO,
    AddForTurn,
    CompactRequest,
    First,
    GiveUpRequest,
    GoBackRequest,
    LookRequest,
    OpenedSession,
    RegenerateRequest,
    ResumeRequest,
    SayRequest,
    SessionRequest,
    TakeOverRequest,
)
from handspan.agent.stored_turns import StoredTurn
from handspan.agent.turn import Handle, Listener, Turn
from handspan.agent.turn_events import find_answer
from handspan.core.bus import AbortRequested
from handspan.core.children import asking_call
from handspan.core.errors import TakenOver, ToolError
from handspan.core.events import Ended
from handspan.core.messages import Message, UserMessage
from handspan.core.principals import Principal
from handspan.core.records import SessionKind

if TYPE_CHECKING:
    from handspan.agent.sessions import Sessions


class Session:
    """One session. Any client of its owner can make requests at any time."""

    __slots__ = ("__weakref__", "_host", "_queue", "id", "listeners", "owner", "turns")

    def __init__(self, session_id: str, owner: str, host: "Sessions") -> None:
        self.id = session_id
        self.owner = owner
        self._host = host
        self._queue = TurnQueue(self, host)
        self.turns = self._queue.turns
        """The first turn runs, the others wait in their order."""
        self.listeners = Listeners(session_id, owner, host, self.turns)

    @property
    def is_used(self) -> bool:
        """Whether a turn or a listener needs this session."""
        return bool(self.turns) or len(self.listeners) > 0

    @property
    def conversation(self) -> Conversation | None:
        """Its messages and its agent. Loaded for the first turn; the host may release it and load it again."""
        return self._host.find_conversation(self.id)

    # Requests.

    def say(
        self,
        who: Principal,
        message: UserMessage,
        listener: Listener,
        *,
        agent: str = "",
        name: str = "",
        kind: SessionKind = "chat",
        join: bool = False,
        debug: bool = False,
        add_for_turn: AddForTurn | None = None,
        gives_up: bool = False,
        history: Sequence[Message] = (),
        before: Sequence[UserMessage] = (),
        replaces: int = 0,
    ) -> Handle:
        """Answer this message in a turn.

        A message with a known id is not added twice: its sender gets the answer that it has, or will have.

        `agent`, `name` and `kind`: the agent of a new session, the session's name, and the kind of a new one. `join`:
        the message becomes part of the running turn, if there is one. `debug`: the listener gets the model's prompt,
        too. `add_for_turn`: see `AddForTurn`. `gives_up`: a turn that waits for a page is ended first (graph.md 4.8),
        and the handle's end raises a `StoreError`. `history`: messages that a new session begins with. `before`:
        messages of the person that come right before this one. `replaces`: the number of an earlier message of the
        person; that message and all that follows it are removed.
        """
        running, turn_of_message = self._queue.running, self._queue.turn_of(message.id)
        if turn_of_message is not None:  # the message was sent before
            turn_of_message.listen_again(message, listener)
            return Handle(turn_of_message, is_own=False)
        if running is not None and running.knows(message.id):
            return Handle(running, is_own=False, ended=running.say_again(message, listener))
        if join and not replaces and running is not None and running.can_be_joined:
            return Handle(running, is_own=False, joined=running.join(message, listener))
        request = SayRequest(
            who,
            message,
            agent=agent,
            name=name,
            kind=kind,
            add_for_turn=add_for_turn,
            gives_up=gives_up,
            history=history,
            before=before,
            replaces=replaces,
        )
        turn = Turn(request, self.listeners, listener, shows_prompt=debug)
        request = structs.replace(request, message=turn.add(message, listener))
        return self._queue.add(turn, partial(self._run, request))

    def regenerate(
        self, who: Principal, listener: Listener, *, debug: bool = False, add_for_turn: AddForTurn | None = None
    ) -> Handle:
        """Answer the last message again, in place of its old answer. The handle's end raises `NoUserMessage`."""
        return self._add(RegenerateRequest(who, add_for_turn), listener, shows_prompt=debug)

    def resume(
        self,
        who: Principal | None = None,
        listener: Listener | None = None,
        add_for_turn: AddForTurn | None = None,
        first: First | None = None,
        *,
        cut_off: bool = False,
    ) -> Handle:
        """Resume a waiting turn if all its calls have their results; otherwise the end is `NOTHING_TO_DO`.

        `first` is called when no other turn runs, and may give the calls their results: a request that is refused
        before that changes nothing. `cut_off`: also resume a turn whose process has ended. The handle's end raises a
        `StoreError`.
        """
        return self._add(ResumeRequest(who, add_for_turn, first, cut_off), listener)

    def resume_once(self) -> Turn:
        """Resume a waiting turn as `resume` does, and return the turn. The session's listeners get its events.

        If such a request still waits in the queue, no second one is made: that request sees every result that is stored
        before it runs.
        """
        queued = next((turn for turn in self.turns[1:] if turn.request == ResumeRequest()), None)
        return self.resume().turn if queued is None else queued

    def take_over_turn(self) -> None:
        """Go on with a turn that another node has handed over, if there is one. The session's listeners get its events.

        If a request to take over is in the queue, no second one is made.
        """
        request = TakeOverRequest()
        if not any(turn.request == request for turn in self.turns):
            self._add(request)

    def give_up(self, who: Principal, *, expired: bool = False, all_calls: bool = False) -> Handle:
        """End a turn that waits for a page: the end is `GIVEN_UP`, or `NOTHING_TO_DO` when no turn waits.

        `expired`: only if none of the turn's calls is open when this request runs (graph.md 5.5). `all_calls`: also a
        turn that waits for a person, a device or another agent. The handle's end raises a `ToolError`.
        """
        return self._add(GiveUpRequest(who, expired, all_calls))

    def undo(self, who: Principal) -> Handle:
        """Remove the person's last message and all that follows it; the end is `NOTHING_TO_DO`.

        What the calls of that turn did stays done. The handle's end raises `NoUserMessage`, and `SessionBusy` while a
        call is open.
        """
        return self._add(GoBackRequest(who))

    def choose_version(self, who: Principal, branch: int) -> Handle:
        """Go on with this version of the conversation; the end is `NOTHING_TO_DO`. Its handle's end raises as `undo`'s.

        It raises `ToolError` (`file_not_found`) for an unknown version, too.
        """
        return self._add(GoBackRequest(who, branch))

    def compact(self, who: Principal, keep: str = "", listener: Listener | None = None) -> Handle:
        """Summarise all before the last turn for the model; the end is `NOTHING_TO_DO` (SPEC L2).

        `keep`: what the person wants to be in the summary. What is done is told as `Compacted`. The handle's end raises
        `NoUserMessage`.
        """
        return self._add(CompactRequest(who, keep), listener)

    def look(self, who: Principal) -> Handle:
        """Load the conversation; the end is `NOTHING_TO_DO`. The handle's end raises `NoUserMessage`."""
        return self._add(LookRequest(who))

    def _add(self, request: SessionRequest, listener: Listener | None = None, *, shows_prompt: bool = False) -> Handle:
        turn = Turn(request, self.listeners, listener, shows_prompt=shows_prompt)
        return self._queue.add(turn, partial(self._run, request))

    def abort(self) -> bool:
        """Stop the running and the waiting turns. Return False when there is no turn. The text so far is stored."""
        stopped = [turn.abort() for turn in self.turns]  # a list: `any` alone would end with the first turn
        if self.listeners.elsewhere and self._host.bus is not None:
            self._host.bus.publish(AbortRequested(self.owner, self.id))
            return True
        return any(stopped)

    async def abort_waiting(self) -> bool:
        """Stop a turn that waits for another agent, here or on another node. Return False when there is none."""
        return await self._host.abort_anywhere(self.id, self.owner)

    def hand_over_turns(self) -> None:
        """Let other nodes take over the running turn, after its step."""
        self.listeners.watch()
        for turn in self.turns[:1]:
            turn.hand_over()

    def stop_turns(self) -> None:
        """Cancel the step of the running turn, because the gateway stops: see `Turn.stop`."""
        for turn in self.turns[:1]:
            if asking_call(self.id):  # no person says it again: the next process goes on with it
                turn.hand_over()
            turn.stop()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Give this listener all events of the session, until the returned function is called.

        A client that also makes requests gets each event once, if it makes them with the same listener.
        """
        remove = self.listeners.add(listener)

        def unlisten() -> None:
            remove()
            self.release()

        return unlisten

    # The work of turns.

    async def _run(self, request: SessionRequest, turn: Turn) -> Ended:
        """Run the turn of this request, and return its end."""
        try:
            opened = await request.open(self, turn)
            if opened is None:
                return NOTHING_TO_DO
            with nullcontext() if request.add_for_turn is None else request.add_for_turn(opened.conversation):
                ended = await request.answer(self, turn, opened)
        except TurnHandedOver:
            return await self._follow_handed_over(turn)
        except TakenOver:
            if not turn.can_be_handed_over:
                raise
            return await self._follow_taken_over(turn)
        except ToolError as error:
            if isinstance(request, TakeOverRequest) and error.code == "busy" and not turn.has_published:
                return NOTHING_TO_DO  # another node was faster
            raise
        return ended if ended is NOTHING_TO_DO else self.end_turn(turn, ended)

    # Turns that another node goes on with.

    async def _follow_handed_over(self, turn: Turn) -> Ended:
        """Return the end of a turn that another node takes over.

        Raises `TurnHandedOver` if no request waits for it, if there is no other node, and if the turn waits: that may
        last.
        """
        waits = self.conversation is not None and bool(open_calls(self.conversation.last))
        self.listeners.elsewhere = turn.id
        is_handed_over = self._host.nodes.hand_over_turn(self.id, self.owner)
        if waits or not is_handed_over or not turn.is_awaited_elsewhere:
            raise TurnHandedOver
        try:
            return await self.listeners.wait_elsewhere(turn.id)
        except asyncio.CancelledError:
            raise TurnHandedOver from None

    async def _follow_taken_over(self, turn: Turn) -> Ended:
        """Return the end of a turn that another node has taken over. If no node goes on with it, this one does."""
        host = self._host
        conversation = await host.reopen(self)
        if conversation is None:  # the session was deleted
            return self.end_turn(turn, self.listeners.aborted_end())
        await host.stored_turns.wait_for_others(conversation)
        ended = self.listeners.find_end(turn.id) or await self.finish(turn, conversation, cut_off=True)
        if ended is None:
            await host.stored_turns.load_ends(conversation)
            ended = self._tell_stored_end(turn, conversation)
        return ended

    def _tell_stored_end(self, turn: Turn, conversation: Conversation) -> Ended:
        """Give the listeners of this node the end of a turn that is over in the store, unless they have it."""
        if (ended := self.listeners.find_end(turn.id)) is not None:
            return ended
        asked = next((one for one in reversed(conversation.messages) if isinstance(one, UserMessage)), None)
        messages, limits, ends = conversation.messages, conversation.limits, conversation.ends
        answered = None if asked is None else find_answer(asked, messages, limits, ends)
        if answered is None:  # the turn waits for the result of a call: its end comes later
            return NOTHING_TO_DO
        turn.is_over = True
        self.listeners.tell_stored_end(turn, answered, answered.ended)  # with the whole text
        return answered.ended

    # What requests use.

    async def open(self, who: Principal, message_id: str, *, agent: str, name: str, kind: SessionKind) -> OpenedSession:
        """Return the conversation, for the answer to this message. A missing session is made."""
        conversation, record = await self._host.open(self, who, message_id, agent=agent, name=name, kind=kind)
        return OpenedSession(conversation, record.state == "waiting")

    async def reopen(self, who: Principal | None = None) -> Conversation | None:
        """Return the conversation; None when the session does not exist."""
        return await self._host.reopen(self, who)

    def begin_stored(
        self, conversation: Conversation, *, takes_over: bool = False
    ) -> AbstractAsyncContextManager[StoredTurn]:
        """Begin a turn in the store as `StoredTurns.turn` does."""
        return self._host.stored_turns.turn(conversation, self.listeners.aborted_end, takes_over=takes_over)

    async def finish(self, turn: Turn, conversation: Conversation, *, cut_off: bool) -> Ended | None:
        """Run the rest of a turn as `StoredTurn.finish` does."""
        async with self.begin_stored(conversation) as stored:
            return await stored.finish(turn, cut_off=cut_off)

    async def finish_waiting(self, turn: Turn, conversation: Conversation, waiting: str) -> None:
        """Run the rest of the waiting turn of this id, if its calls have their results."""
        turn.resumed_turn = waiting
        turn.begin(conversation)
        await self.finish(turn, conversation, cut_off=False)
        turn.resumed_turn = ""

    async def answer_known(self, turn: Turn, conversation: Conversation, message: UserMessage) -> Ended | None:
        """Tell the sender of a stored message its answer, and return its end; None if the message has no answer yet."""
        before = conversation.find_message(message.id)
        turn.id = before.turn if before is not None and before.turn else turn.id
        await self._host.stored_turns.load_ends(conversation)
        ended = turn.report_known(conversation, message)
        turn.is_over = ended is not None
        return ended

    # What the queue uses.

    def end_turn(self, turn: Turn, ended: Ended) -> Ended:
        """Publish the end of a turn, if the loop has not, and return the end."""
        if not turn.is_over:
            turn.is_over = True
            self.listeners.publish(ended, turn.id)
        return ended

    def release(self) -> None:
        """Release the session if neither a turn nor a listener needs it any more."""
        if not self.is_used:
            self.listeners.release()
            self._host.release(self)
