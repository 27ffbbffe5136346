"""One session of a gateway in this process, as a chat: messages in, events out, by calls in place of frames."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from handspan.agent.refusals import TurnRefused
from handspan.agent.sessions import Bound
from handspan.agent.turn import Turn
from handspan.agent.turn_events import MessageStored, QuestionOver, SessionEvent
from handspan.channels.page import EVERY_CLIENT
from handspan.core.bus import MessagePosted, MessageShown
from handspan.core.calls import new_call_id
from handspan.core.events import Ended, Event, QuestionAsked
from handspan.core.messages import Media, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.tasks import Tasks
from handspan.gateway.parts import GatewayParts
from handspan.sources.ws.outcome import attachment
from handspan.wire.ws_chat_frames import ChannelMessage
from handspan.wire.ws_frames import MediaPart

_NOT_ACCEPTED: Final = "The message came when its turn was over, and was not accepted: send it again."


class InsideChat:
    """A session of the operator. It gives and takes what `client.chat.Chat` does: commands use either of them."""

    is_over = False
    """A session in this process is there as long as the process."""

    def __init__(self, parts: GatewayParts, bound: Bound, on_message: Callable[[ChannelMessage], None]) -> None:
        """`on_message` gets what agents write to the person."""
        self.session_id = bound.session_id
        self._parts = parts
        self._bound = bound
        self._on_message = on_message
        self._id = new_call_id()
        """Says of an answer to a question that it came from here."""
        self._person = person(OPERATOR)
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        """The events of the open turn that are not read yet; None: no more come."""
        self._turn = ""
        """The id of the open turn, once its message is stored; empty: none is open."""
        self._questions: dict[str, asyncio.Future[bool]] = {}
        """The open questions by id, each with the future of `closed`."""
        self._answers = Tasks()
        self._session = parts.sessions.get(bound.session_id, OPERATOR.owner)
        self._unsubscribe = (
            self._session.listen(self._on_event),
            parts.bus.subscribe(MessagePosted, self._on_posted),
        )

    def close(self) -> None:
        """Stop listening. A turn that runs goes on to its end, and is stored."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._events.put_nowait(None)

    async def send(self, text: str, *, parts: Sequence[MediaPart] = ()) -> AsyncGenerator[Event]:
        """Send a message, and yield the events of the turn that answers it, up to its `Ended`.

        Raises `ToolError` when a file of the message is not stored.
        """
        artifacts = self._parts.app.artifacts
        media = [Media(await attachment(part, artifacts, OPERATOR.owner)) for part in parts]
        message = UserMessage((*((Text(text),) if text.strip() else ()), *media), new_call_id())
        with self._new_turn():
            bound = self._bound
            handle = self._session.say(
                OPERATOR, message, self._on_event, agent=bound.named_agent, name=bound.name, kind=bound.kind
            )
            self._follow(handle.turn)
        async for event in self._read():
            yield event

    async def regenerate(self) -> AsyncGenerator[Event]:
        """Let the model give its last answer again, and yield the events as `send` does."""
        with self._new_turn():
            turn = self._session.regenerate(OPERATOR, self._on_event).turn
            self._turn = turn.id
            self._follow(turn)
        async for event in self._read():
            yield event

    async def abort(self) -> bool:
        """Stop the session's turns. Return False when no turn ran."""
        return self._session.abort()

    async def give(self, question_id: str, answer: Answer) -> None:
        """Answer a question. An answer that has expired does nothing: only time decides that.

        Raises `InvalidAnswer` when the answer does not fit. A caller that is cancelled has answered nevertheless.
        """
        if answer.decision != "expired":
            await asyncio.shield(self._answers.start(self._answer(question_id, answer)))

    async def closed(self, question_id: str) -> bool:
        """Wait until a question is closed. Return whether the answer of this chat was the one that counts."""
        closing = self._questions.get(question_id)
        return closing is not None and await asyncio.shield(closing)

    async def _answer(self, question_id: str, answer: Answer) -> None:
        if not await self._parts.questions.answer(question_id, answer, self._person, by=self._id):
            self._close_question(question_id, is_ours=False)

    def _close_question(self, question_id: str, *, is_ours: bool) -> None:
        closing = self._questions.pop(question_id, None)
        if closing is not None and not closing.done():
            closing.set_result(is_ours)

    # The open turn.

    @contextmanager
    def _new_turn(self) -> Iterator[None]:
        """Open a block that begins a turn. A turn that is refused in it ends with that error.

        What an earlier turn has left is forgotten: its caller did not wait for its end.
        """
        self._events, self._turn = asyncio.Queue(), ""
        try:
            yield
        except TurnRefused as refused:
            self._events.put_nowait(Ended("error", str(refused)))

    def _follow(self, turn: Turn) -> None:
        """Let the caller get an end of the turn in any case."""
        turn.task.add_done_callback(partial(self._end, turn, self._events))

    def _end(self, turn: Turn, events: asyncio.Queue[Event | None], _: object) -> None:
        """Give the caller the end of a turn that was refused, or whose message is not part of the session.

        The end of any other turn came as an event.
        """
        try:
            ended = turn.ended
        except TurnRefused as refused:
            events.put_nowait(Ended("error", str(refused)))
            return
        if events is self._events and self._turn != turn.id:
            text = ended.text if ended.reason == "error" else _NOT_ACCEPTED
            events.put_nowait(Ended("aborted") if ended.reason == "aborted" else Ended("error", text))

    async def _read(self) -> AsyncGenerator[Event]:
        """Yield the events of the open turn, up to its end. A turn that waits goes on later."""
        while (event := await self._events.get()) is not None:
            yield event
            if isinstance(event, Ended) and event.reason != "pending":
                return

    def _on_event(self, event: SessionEvent, turn: str) -> None:
        """Take an event of the session. Those of other turns are not shown, questions that belong to no turn are."""
        match event:
            case MessageStored():
                self._turn = turn
            case QuestionOver(id=question_id, by=by):
                self._close_question(question_id, is_ours=by == self._id)
            case QuestionAsked(question=question):
                if question.id in self._questions or not self._person.may_answer(question):
                    return
                self._questions[question.id] = asyncio.get_running_loop().create_future()
        if isinstance(event, Event) and self._turn and turn in ("", self._turn):
            self._events.put_nowait(event)

    def _on_posted(self, posted: MessagePosted) -> None:
        """Show what an agent writes to the person, if it is meant for this session."""
        if posted.owner == OPERATOR.owner and posted.chat_id in (EVERY_CLIENT, self.session_id):
            self._on_message(ChannelMessage(posted.channel, posted.chat_id, posted.content))
            self._parts.bus.publish(MessageShown(posted.owner, posted.id))
