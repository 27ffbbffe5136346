"""Questions in chats: shown where the message came from, answered there by a button or a word (SPEC P5)."""

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import Struct

from handspan.agent.askers import Askers
from handspan.channels.bus import MessageBus, TwoWayChannel
from handspan.core.bus import Bus, QuestionEnded, QuestionOpened
from handspan.core.channels import IncomingMessage, OutgoingMessage
from handspan.core.errors import HandspanError, InvalidAnswer, ToolError
from handspan.core.question_rights import channel_person
from handspan.core.questions import Answer, Question
from handspan.core.tasks import Tasks
from handspan.gateway.channels.answers import buttons_of, mark_of, read_press, read_words, render_question
from handspan.gateway.sessions.questions import AwaitedQuestions

_log = logging.getLogger(__name__)
_OVER = "This question is not open any more."
_KEPT = "Your message comes after it."


class ChatPlace(Struct, frozen=True):
    """A chat of an owner."""

    channel: str
    chat_id: str
    owner: str


class WordsTaken(Struct, frozen=True):
    """What came of words that were written while a question is open."""

    text: str
    """What the person should read."""
    is_answer: bool
    """Whether the words were for the question. Others are a message, and are answered after it."""


class _Shown(Struct, frozen=True):
    place: ChatPlace
    reference: str


class ChannelQuestions:
    """Shows the questions of a session in the chat whose message the session answers."""

    def __init__(self, messages: MessageBus, questions: AwaitedQuestions, askers: Askers, bus: Bus) -> None:
        self._messages = messages
        self._questions = questions
        self._askers = askers
        self._places: dict[str, ChatPlace] = {}
        """The chats of the sessions that answer a message now."""
        self._shown: dict[str, _Shown | None] = {}
        """The questions that were shown in chats, by their ids; None while one is being sent."""
        self._tasks = Tasks()
        bus.subscribe(QuestionOpened, lambda event: self._do(self._open_in_chat(event.question)))
        bus.subscribe(QuestionEnded, lambda event: self._end(event.id))

    def watch(self, session: str, place: ChatPlace) -> None:
        """Show the questions of this session in this chat until `unwatch`."""
        self._places[session] = place

    def unwatch(self, session: str) -> None:
        """Show no more questions of this session."""
        self._places.pop(session, None)

    def shows(self, session: str) -> bool:
        """Whether questions of this session are shown in a chat now."""
        return session in self._places

    async def show_open(self, session: str) -> None:
        """Show the questions of this session that were asked before, perhaps by an earlier process."""
        place = self._places[session]
        for question in await self._open_in(place.owner, session):
            self._open(question, place)

    async def close(self) -> None:
        """Send nothing more."""
        await self._tasks.close()

    async def press(self, message: IncomingMessage, owner: str, session: str) -> str:
        """Answer the question whose button was pressed. Return what the person should read."""
        mark, _, word = message.pressed.partition(":")
        question = next((one for one in await self._open_in(owner, session) if mark_of(one) == mark), None)
        answer = None if question is None else read_press(question, word)
        return _OVER if question is None or answer is None else await self._answer(question, answer)

    async def take_words(self, message: IncomingMessage, owner: str, session: str) -> WordsTaken | None:
        """Answer the open question with these words. Return what came of them; None without a question."""
        found = await self._open_in(owner, session)
        if not found:
            return None
        number, _, rest = message.content.strip().partition(" ")
        if len(found) == 1:
            number, rest = "1", message.content
        if not (number.isdecimal() and 0 < int(number) <= len(found)):
            listed = "\n\n".join(f"[{n}] {render_question(one)}" for n, one in enumerate(found, 1))
            is_answer = any(read_words(one, message.content) is not None for one in found)
            kept = "" if is_answer else f" {_KEPT}"
            return WordsTaken(f"Several questions are open. Answer as in '1 yes'.{kept}\n\n{listed}", is_answer)
        question = found[int(number) - 1]
        answer = read_words(question, rest)
        if answer is None:
            return WordsTaken(
                f"I wait for your answer first (/stop ends this). {_KEPT}\n\n{render_question(question)}",
                is_answer=False,
            )
        return WordsTaken(await self._answer(question, answer), is_answer=True)

    async def _open_in(self, owner: str, session: str) -> Sequence[Question]:
        if not session:
            return ()
        found = await self._questions.visible_to(channel_person(owner))
        return [one for one in found if await self._session_of(one) == session]

    async def _session_of(self, question: Question) -> str:
        """Return the session that a person talks to: an agent may ask while it works for the agent of that session."""
        calls = await self._askers.calls(question.session, question.owner)
        return calls[-1].session if calls else question.session

    async def _answer(self, question: Question, answer: Answer) -> str:
        try:
            is_taken = await self._questions.answer(question.id, answer, channel_person(question.owner))
        except InvalidAnswer as error:
            return str(error)
        if not is_taken:
            return _OVER
        return "Thank you." if answer.decision == "allow" else "It will not be done."

    async def _open_in_chat(self, question: Question) -> None:
        place = self._places.get(await self._session_of(question)) if self._places else None
        if place is not None:
            self._open(question, place)

    def _open(self, question: Question, place: ChatPlace) -> None:
        if not channel_person(place.owner).may_answer(question):
            return
        if not question.device and question.id not in self._shown:
            self._shown[question.id] = None
            self._do(self._show(question, place))

    def _end(self, question_id: str) -> None:
        shown = self._shown.pop(question_id, None)
        if shown is not None and shown.reference:
            self._do(self._remove_buttons(shown))

    async def _show(self, question: Question, place: ChatPlace) -> None:
        """Show a question in the chat, unless it is over by then."""
        text, buttons = render_question(question), buttons_of(question)
        about = (place.channel, place.chat_id, text, place.owner, question.session)
        reference = await self._messages.send(OutgoingMessage(*about, buttons=buttons, id=mark_of(question)))
        shown = _Shown(place, reference)
        if question.id in self._shown:
            self._shown[question.id] = shown
        elif reference:  # it was answered elsewhere while it was sent
            await self._remove_buttons(shown)

    async def _remove_buttons(self, shown: _Shown) -> None:
        queue = self._messages.find(shown.place.channel)
        channel = None if queue is None else queue.channel
        if isinstance(channel, TwoWayChannel):
            await channel.remove_buttons(shown.place.chat_id, shown.reference)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(_log_failure(work))


async def _log_failure(work: Coroutine[Any, Any, None]) -> None:
    """Do this work. What fails is logged: the question is open on the page, too."""
    try:
        await work
    except ToolError as error:
        _log.warning("A question could not be shown in a chat: %s", error.message)
    except HandspanError as error:
        _log.error("A question could not be shown in a chat: %s", error)
