"""A conversation with an agent of a gateway: its words, its questions, its end (SPEC A2, A4, P5)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from handspan.cli import late
from handspan.cli.chat.lines import ChatBegan, ChatImage, ChatNote, LinkChanged, Show
from handspan.cli.ctrl_c import hear_ctrl_c
from handspan.cli.requests import AUTO, RemoteRefused, Requests, find_agent, segment
from handspan.cli.terminal_questions import TerminalQuestions, ask_here
from handspan.core.errors import HandspanError, ToolError
from handspan.core.events import CallFinished, Ended, Event, QuestionAsked
from handspan.core.questions import Answer, Question, Questions
from handspan.wire.rest.agents import AgentView
from handspan.wire.rest.models import ChosenModel
from handspan.wire.rest.sessions import ChangedSession
from handspan.wire.rest.skills import SessionSkills
from handspan.wire.ws_chat_frames import ChannelMessage
from handspan.wire.ws_frames import MediaPart

if TYPE_CHECKING:
    from handspan.cli.requests import ChatLink
    from handspan.client.chat import ChatKind
    from handspan.wire.rest.sessions import SessionView

_CLOSED: Final = Ended(
    "error", "The gateway has ended this conversation. Begin it again: its messages are stored there."
)
_WAIT_SECONDS: Final = 1.0
_NO_WORD: Final = "(no word from the gateway yet; Ctrl-C again does not wait for it)"
_IMAGE: Final = '"kind":"image"'
"""What the envelope of a result with an image has."""


@contextlib.asynccontextmanager
async def open_chat(
    requests: Requests,
    show: Show,
    questions: Questions,
    agent: str | None,
    *,
    session_id: str | None,
    model: str,
    waits: bool,
    shows_images: bool,
) -> "AsyncIterator[TerminalChat]":
    """Begin a session, or go on with one: with the agent that it has, unless another is named.

    `model` answers for every agent; empty: the session's or the agent's own. `waits`: it is for a single question, and
    first finds out whether a local model answers; a conversation begins without knowing. `shows_images`: of messages
    and results.
    """
    session = await late.session_text.find_session(requests, session_id) if session_id else None
    acting = await _find_agent(requests, agent, session)
    of_session = session.session_id if session and not agent else ""
    chosen = await _choose(requests, model, acting.name, of_session, at_once=not waits)
    talk = TerminalChat(
        requests,
        show,
        questions,
        acting,
        chosen=chosen,
        model=model,
        kind="one_shot" if waits else "chat",
        shows_images=shows_images,
    )
    try:
        await talk.begin(session, agent or "", waits=waits)
        yield talk
    finally:
        await talk.close()


class TerminalChat:
    """A conversation at a terminal. The link to the gateway comes back by itself."""

    def __init__(
        self,
        requests: Requests,
        show: Show,
        questions: Questions,
        agent: AgentView,
        *,
        chosen: ChosenModel,
        model: str,
        kind: "ChatKind",
        shows_images: bool,
    ) -> None:
        self.requests = requests
        self.show = show
        self.session_id = self.named_agent = ""
        self.on_link: Callable[[bool], None] = lambda is_up: None
        """Called when the link is lost or there again, in addition to `show`."""
        self.write_above: Callable[[Callable[[], None]], None] = lambda write: write()
        """Runs a function that writes lines, so that the prompt is below them."""
        self._held: list[ChannelMessage] = []
        """Messages that came while the person was asked."""
        self._asked_here = 0
        """How many questions the person is being asked."""
        self._questions = questions
        self._agent = agent
        self._chosen = chosen
        self._model = model
        self._kind = kind
        self._shows_images = shows_images
        self._link: ChatLink | None = None
        self._opened = AsyncExitStack()
        """Closes the link."""
        self._choosing: asyncio.Task[ChosenModel] | None = None
        """Finds out which model answers, while the conversation begins without knowing (SPEC M5)."""
        self._running: asyncio.Task[Ended] | None = None
        """The turn that runs."""
        self._aborting: list[asyncio.Task[None]] = []
        """The task that aborts it."""
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        """The tasks that ask the person, by the ids of the call and of the question."""
        self._is_lost = False
        """Whether the last turn was left before its end. Its connection would wait for that: a new one is opened."""
        self._was_up = True
        self._attached: list[MediaPart] = []
        self._with_images: set[str] = set()
        """Calls of this turn whose results have images."""

    async def begin(self, session: "SessionView | None", named_agent: str, *, waits: bool) -> None:
        """Open the link, and show what the conversation is. `waits`: the model was waited for (`open_chat`)."""
        if not waits:
            self._choosing = asyncio.create_task(self._choose())
        await self._connect(session.session_id if session else "", named_agent)
        self.show(ChatBegan(self.session_id, self._agent.name, self._chosen.why))
        if session is not None and not waits:
            await self._show_last_end()
        if self._agent.skills:
            for note in (await self.skills()).notes:
                self._note(f"({note})")

    async def close(self) -> None:
        """Leave the session, and end what moves on the terminal."""
        self.show.rest()
        if self._choosing is not None:
            await _cancel(self._choosing)
        await self._leave()

    @property
    def agent_name(self) -> str:
        """The agent that answers."""
        return self._agent.name

    async def say(self, text: str) -> Ended:
        """Run one turn and return its end. Ctrl-C aborts the turn; a second one does not wait for the gateway."""
        link = await self._ready_link()
        attached, self._attached = self._attached, []
        try:
            return await self._run_turn(link, link.send(text, parts=attached))
        except HandspanError:  # the message was not sent: the next one gets the files
            self._attached = [*attached, *self._attached]
            raise

    async def retry(self) -> Ended:
        """Let the model answer the last message again."""
        link = await self._ready_link()
        return await self._run_turn(link, link.regenerate())

    async def enter(self, session_id: str, agent: str) -> None:
        """Go on with this session, or begin a new one: with this agent, or the session's own."""
        goes_on = session_id and not agent
        session = await late.session_text.find_session(self.requests, session_id) if goes_on else None
        self._agent = await _find_agent(self.requests, agent, session)
        if session_id != self.session_id:
            self._attached.clear()  # these files belong to the session before
        await self._leave()
        await self._connect(session_id, agent)
        if session is not None:
            await self._show_last_end()

    async def choose_model(self, name: str) -> ChosenModel:
        """Return the model that answers; with a name, after this conversation was given that one.

        The name `auto` forgets the choice: the agent's own model answers again.
        """
        if name and self._model:
            raise HandspanError("This conversation was begun with --model: leave that out to choose another one here.")
        if name:
            path = f"/api/sessions/{segment(self.session_id)}"
            await self.requests.change("PUT", path, ChangedSession, {"model": "" if name == AUTO else name})
        if self._choosing is not None:
            await _cancel(self._choosing)
            self._choosing = None
        self._chosen = await self._choose()
        return self._chosen

    async def skills(self) -> SessionSkills:
        """Return the skills that are on in the session, and the tools that its agent may use."""
        path = f"/api/sessions/{segment(self.session_id)}/skills"
        return await self.requests.get(path, SessionSkills, agent=self.named_agent)

    async def attach(self, path: Path) -> str:
        """Take a file for the next message, and return a line about it."""
        file = await late.attachments.attach_file(self.requests, path, self.session_id)
        self._attached.append(file)
        if file.kind == "image" and self._shows_images:
            await self._show_image(path.name, await asyncio.to_thread(path.read_bytes))
        return f"{path.name} goes with your next message"

    async def attach_data(self, name: str, data: bytes) -> None:
        """Take these bytes for the next message, as a file of this name."""
        part = await late.attachments.attach_data(self.requests, name, data, self.session_id)
        self._attached.append(part)

    def attached_files(self) -> Sequence[str]:
        """Return the names of the files for the next message."""
        return [file.name for file in self._attached]

    async def _show_last_end(self) -> None:
        """Show how the last turn of the session ended, if not with a whole answer."""
        if end := await late.session_text.describe_last_end(self.requests, self.session_id):
            self._note(f"(last turn: {end}; /retry asks again)")

    # The turn.

    async def _ready_link(self) -> "ChatLink":
        """Return a link on which a turn can begin, and wait until the model is known."""
        if isinstance(self._questions, TerminalQuestions):
            self._questions.note_typed()
        link = self._link
        if self._is_lost or link is None or link.is_over:
            await self._leave()
            link = await self._connect(self.session_id, self.named_agent)
        await self._await_choice()
        return link

    async def _run_turn(self, link: "ChatLink", events: AsyncIterator[Event]) -> Ended:
        """Return the end of the turn with these events, also of one that was left."""
        turn = self._running = asyncio.create_task(self._turn(link, events))
        try:
            with hear_ctrl_c(self._abort):
                return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                raise
            self._is_lost = True
            self.show(aborted := Ended("aborted"))
            return aborted
        finally:
            self._running = None
            await _cancel(*self._aborting)
            self._aborting.clear()
            self.show.rest()

    def _abort(self) -> None:
        """Abort the turn at the gateway. The second time, leave it: the gateway may not answer."""
        if self._running is None or self._link is None:
            return
        if self._aborting:
            self._running.cancel()
        else:
            self._aborting.append(asyncio.create_task(self._abort_turn(self._link, self._running)))

    async def _turn(self, link: "ChatLink", events: AsyncIterator[Event]) -> Ended:
        """Show the events of a turn, ask its questions, and return its end."""
        ended: Ended | None = None
        self._with_images.clear()
        try:
            async for event in events:
                self.show(event)
                match event:
                    case QuestionAsked(question=question):
                        self._asking[question.call_id, question.id] = asyncio.create_task(self._ask(link, question))
                    case CallFinished(id=call_id, envelope=envelope):
                        if self._shows_images and _IMAGE in envelope:
                            self._with_images.add(call_id)
                        # The call's questions are over, even if the link was down when they were closed.
                        await _cancel(*(self._asking.pop(key) for key in [*self._asking] if key[0] == call_id))
                    case Ended():
                        ended = event
        finally:
            await _cancel(*self._asking.values())
            self._asking.clear()
        if ended is None:
            self._is_lost = True
            self.show(ended := _CLOSED)
        if self._with_images:
            calls = frozenset(self._with_images)
            for name, data in await late.attachments.result_images(self.requests, self.session_id, calls):
                await self._show_image(name, data)
        return ended

    async def _ask(self, link: "ChatLink", question: Question) -> None:
        """Ask the person at this terminal, until the question is over: it may be answered elsewhere first."""
        asking = asyncio.create_task(self._ask_here(question))
        over = asyncio.create_task(link.closed(question.id))
        try:
            await asyncio.wait((asking, over), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                await link.give(question.id, asking.result())
        finally:
            await _cancel(asking, over)

    async def _ask_here(self, question: Question) -> Answer:
        """Ask the person at this terminal. Messages that come meanwhile are shown after the answer."""
        self._asked_here += 1
        try:
            with self.show.hold():
                return await ask_here(question, self._questions)
        finally:
            self._asked_here -= 1
            held, self._held = self._held, []
            for message in held:
                self.on_message(message)

    async def _show_image(self, name: str, data: bytes) -> None:
        try:
            self.show(ChatImage(name, await late.attachments.small_png(data)))
        except ToolError as error:
            self._note(f"(The image {name} can't be shown: {error.message})")

    async def _abort_turn(self, link: "ChatLink", turn: asyncio.Task[Ended]) -> None:
        """Abort the turn at the gateway, and tell the person when the gateway does not answer soon."""
        waiting = asyncio.get_running_loop().call_later(_WAIT_SECONDS, self._note, _NO_WORD)
        try:
            if not await link.abort():  # nothing runs at the gateway, whatever the task waits for
                turn.cancel()
        finally:
            waiting.cancel()

    # The session.

    async def _connect(self, session_id: str, agent: str) -> "ChatLink":
        """Open a link to this session. The link names its agent when it begins."""
        self.session_id, self.named_agent = session_id, agent
        opening = self.requests.chat(session_id, agent, self, self._kind)
        link = self._link = await self._opened.enter_async_context(opening)
        self.session_id, self._is_lost = link.session_id, False
        return link

    async def _leave(self) -> None:
        self._link = None
        await self._opened.aclose()

    def on_state(self, state: str) -> None:
        """Show that the link is lost, or there again."""
        is_up = state == "connected" or self._link is None  # the first connection is no news
        if is_up != self._was_up and state in ("connected", "reconnecting"):
            self._was_up = is_up
            self.show(LinkChanged(is_up))
            self.on_link(is_up)

    def on_message(self, message: ChannelMessage) -> None:
        """Show what an agent writes to the person, but not into a question."""
        if self._asked_here:
            self._held.append(message)
        else:
            self.write_above(lambda: self.show(message))

    def _note(self, text: str) -> None:
        self.show(ChatNote(text))

    # The model.

    async def _choose(self) -> ChosenModel:
        return await _choose(self.requests, self._model, self._agent.name, self.session_id)

    async def _await_choice(self) -> None:
        """Wait until the model is known, and say so if it is not the one that was shown."""
        if self._choosing is not None:
            choosing, self._choosing = self._choosing, None
            found = await choosing
            if found.model != self._chosen.model:
                self._note(f"Model: {found.why}")


async def _find_agent(requests: Requests, named: str | None, session: "SessionView | None") -> AgentView:
    try:
        return await find_agent(requests, named or (session.persona if session else ""))
    except RemoteRefused as refused:
        if named or session is None:
            raise
        text = f"{refused} The session was with that one: name another (--agent)."
        raise RemoteRefused(refused.status, text, refused.code) from None


async def _choose(requests: Requests, model: str, agent: str, session: str, *, at_once: bool = False) -> ChosenModel:
    of = {"model": model} if model else {"agent": agent, "session": session}
    return await requests.get("/api/models/which", ChosenModel, **of, at_once="true" if at_once else "")


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
