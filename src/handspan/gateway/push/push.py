"""Who is notified of what: of questions that wait for an answer, and of messages that no page shows (SPEC J4).

A notification names the agent and the tool, never arguments or texts. Its two buttons carry tokens: each is good for
one answer to one question, with these arguments, from this browser.
"""

import asyncio
import hmac
import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct, field, structs

from handspan.config.push_settings import PushSettings
from handspan.core.bounded import BoundedDict
from handspan.core.bus import MessageShown, QuestionEnded, QuestionOpened
from handspan.core.channels import OutgoingMessage
from handspan.core.errors import StoreError
from handspan.core.nodes import Nodes
from handspan.core.principals import Principal
from handspan.core.question_rights import person, push_person
from handspan.core.questions import Answer, Question
from handspan.core.records import PushSubscription
from handspan.core.store import Store
from handspan.core.tasks import Tasks, wait_for
from handspan.core.values import clip
from handspan.gateway.entry.tokens import PAGE_SECONDS
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.net.guard import NetGuard
from handspan.wire.rest.push import Notice, PushAnswer

if TYPE_CHECKING:
    from handspan.gateway.push.sender import PushSender, SendOutcome

_log = logging.getLogger(__name__)

_SENDER: Final = "handspan.gateway.push.sender"
"""Loaded with the first browser that is subscribed: its library for encryption takes 30 ms."""
_MOST_QUESTIONS: Final = 10_000
_MOST_WAITING: Final = 64
"""Notifications of one owner that are on their way; further ones are dropped."""
_SHOWN_SECONDS: Final = 2.0
"""Seconds that another node may take to say that a page there shows a question."""
_MESSAGE_SECONDS: Final = 24 * 3600.0
_TEST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 28 * 24 * 3600.0
_LONGEST_NAME: Final = 64
_DECISIONS: Final[tuple[Literal["allow", "deny"], ...]] = ("allow", "deny")

InView: TypeAlias = Callable[[str, str], bool]
"""Whether this owner can see questions of this session on this node: on a page in view, in a terminal, in a chat."""


class _Asked(Struct):
    """A question that was opened on this node."""

    shown: asyncio.Event = field(default_factory=asyncio.Event)
    """A client of the person shows it."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Push:
    """Notifies the browsers of owners, and takes the answers that they give."""

    def __init__(
        self,
        store: Store,
        questions: AwaitedQuestions,
        nodes: Nodes,
        guard: NetGuard,
        *,
        settings: PushSettings,
        is_in_view: InView,
    ) -> None:
        self._store = store
        self._book = store.push
        self._questions = questions
        self._nodes = nodes
        self._guard = guard
        self._settings = settings
        self._is_in_view = is_in_view
        self._loaded: PushSender | None = None
        self._asked: BoundedDict[str, _Asked] = BoundedDict(_MOST_QUESTIONS)
        """Open questions of this node, by their ids."""
        self._on_their_way: Counter[str] = Counter()
        """How many notifications of each owner are being sent."""
        self._tasks = Tasks()
        self._is_open = False

    def open(self) -> None:
        """Begin to notify. A gateway inside a command does not: its person sits at the terminal."""
        self._is_open = True
        bus = self._nodes.bus
        bus.subscribe(QuestionOpened, self._on_opened)
        bus.subscribe(MessageShown, self._on_shown)
        bus.subscribe(QuestionEnded, self._on_ended)

    async def close(self) -> None:
        """Send nothing more."""
        await self._tasks.close()

    # Subscriptions.

    async def public_key(self) -> str:
        """Return the key that browsers bind their subscriptions to."""
        return (await self._sender()).public_key

    async def subscriptions(self, owner: str) -> Sequence[PushSubscription]:
        """Return the owner's browsers. One that was signed in so long ago that it has to sign in again is none."""
        oldest = time.time() - PAGE_SECONDS
        return [one for one in await self._book.all(owner=owner) if one.token_seen > oldest]

    async def add(self, given: PushSubscription) -> str:
        """Store a subscription and return its id; empty if the owner has too many.

        Raises `WireError` or `ToolError` for keys and addresses to which nothing can be sent.
        """
        (await self._sender()).check(given)
        return await self._book.add(given, self._settings.subscriptions)

    async def test(self, subscription_id: str, owner: str) -> "SendOutcome | None":
        """Send a notification to one browser, and return what came of it; None if the owner has no such browser."""
        found = [one for one in await self.subscriptions(owner) if one.id == subscription_id]
        text = "Notifications from your agents come here."
        notice = Notice(kind="test", title="Handspan", body=text, url="#/devices", tag="test")
        return await self._send(found[0], notice, _TEST_SECONDS, is_urgent=True) if found else None

    # Questions.

    def _on_opened(self, event: QuestionOpened) -> None:
        question, is_here = event.question, not self._nodes.bus.is_remote
        is_in_view = self._is_in_view(event.owner, question.session)
        if not is_here:
            if is_in_view:
                self._nodes.bus.publish(MessageShown(event.owner, question.id))
            return
        if question.device or question.id in self._asked:  # a device asks its own person
            return
        asked = self._asked[question.id] = _Asked()
        if is_in_view:
            asked.shown.set()
        self._tasks.start(self._tell_question(event.owner, question.id, asked))

    def _on_shown(self, event: MessageShown) -> None:
        if asked := self._asked.get(event.id):
            asked.shown.set()

    def _on_ended(self, event: QuestionEnded) -> None:
        if asked := self._asked.pop(event.id, None):
            asked.ended.set()

    async def _tell_question(self, owner: str, question_id: str, asked: _Asked) -> None:
        """Notify the owner's browsers of a question; where a client shows it, only if it is not answered there soon."""
        if not await self.subscriptions(owner):
            return
        if not asked.shown.is_set():
            await self._nodes.pause(_SHOWN_SECONDS, asked.shown)
        if asked.shown.is_set():
            await wait_for(self._settings.after, asked.ended)
        found = [one for one in await self._questions.open_for(owner=owner) if one.id == question_id]
        if not found:
            return
        sender, question = await self._sender(), found[0]

        def notice_for(one: PushSubscription) -> Notice | None:
            if not person(Principal(one.owner, one.scopes)).may_answer(question):
                return None
            return _question_notice(question, one.id, sender)

        await self._tell(owner, notice_for, question.expires_in, is_urgent=True)

    async def answer(self, given: PushAnswer) -> bool:
        """Give the answer of a notification's button.

        Return False when its token is wrong, or the question is not open any more: that includes a token used before.
        """
        found = await self._book.find(given.subscription)
        if found is None or found.id not in {one.id for one in await self.subscriptions(found.owner)}:
            return False
        who = push_person(found.owner)
        question = next((one for one in await self._questions.visible_to(who) if one.id == given.question), None)
        if question is None:
            return False
        expected = (await self._sender()).answer_token(found.id, question, given.decision)
        if not hmac.compare_digest(expected, given.token):
            return False
        return await self._questions.answer(question.id, Answer(given.decision), who)

    # Messages.

    async def tell_message(self, message: OutgoingMessage) -> bool:
        """Notify the owner's browsers that an agent has written. Return whether a push service has accepted it."""
        if not self._is_open:
            return False
        session = message.session and await self._store.conversations.find(message.session, owner=message.owner)
        who = _name(session.agent if session else "")
        url = f"#/chat/{quote(message.session, safe='')}" if session else "#/chat"
        title, tag = f"{who} has a message for you", f"message {message.session}"
        notice = Notice(kind="message", title=title, body="Open the page to read it.", url=url, tag=tag)
        return await self._tell(message.owner, lambda _: notice, _MESSAGE_SECONDS, is_urgent=False) > 0

    # Sending.

    async def _tell(
        self,
        owner: str,
        notice_for: Callable[[PushSubscription], Notice | None],
        seconds: float,
        *,
        is_urgent: bool,
    ) -> int:
        """Send each of the owner's browsers its notice, if it has one. Return how many were accepted."""
        if self._on_their_way[owner] >= _MOST_WAITING:
            _log.warning("A notification was dropped: %d others of %r are on their way", _MOST_WAITING, owner)
            return 0
        self._on_their_way[owner] += 1
        try:
            wanted = [(one, notice) for one in await self.subscriptions(owner) if (notice := notice_for(one))]
            sending = (self._send(one, notice, seconds, is_urgent=is_urgent) for one, notice in wanted)
            return sum(not outcome.problem for outcome in await asyncio.gather(*sending))
        finally:
            self._on_their_way[owner] -= 1
            if not self._on_their_way[owner]:
                del self._on_their_way[owner]

    async def _send(self, to: PushSubscription, notice: Notice, seconds: float, *, is_urgent: bool) -> "SendOutcome":
        """Send a notice to one browser. A browser that its push service does not know any more is forgotten."""
        sender = await self._sender()
        outcome = await sender.send(to, notice, ttl=min(seconds, _LONGEST_SECONDS), is_urgent=is_urgent)
        try:
            if outcome.is_forgotten:
                await self._book.remove(to.id, owner=to.owner)
            elif not outcome.problem:
                await self._book.note_success(to.id)
        except StoreError as error:  # the next notification tells the same
            _log.error("What came of a notification could not be stored: %s", error)
        return outcome

    async def _sender(self) -> "PushSender":
        """Return the sender. The first caller loads its module and makes it."""
        if self._loaded is None:
            secret = await self._book.secret()  # the same for all callers: the sender of any of them may stay
            make: type[PushSender] = importlib.import_module(_SENDER).PushSender
            self._loaded = make(secret, self._guard, self._settings)
        return self._loaded


def _question_notice(question: Question, subscription: str, sender: "PushSender") -> Notice:
    """Return what is told of a question; with buttons, if they are enough to answer it."""
    title, body = _words(question)
    is_in_chat = question.session and not question.for_admin
    url = f"#/chat/{quote(question.session, safe='')}" if is_in_chat else "#/questions"
    notice = Notice(kind="question", title=title, body=body, url=url, tag=question.id)
    if not push_person(question.owner).may_answer(question):
        return notice
    allow, deny = (sender.answer_token(subscription, question, decision) for decision in _DECISIONS)
    return structs.replace(notice, question=question.id, subscription=subscription, allow=allow, deny=deny)


def _words(question: Question) -> tuple[str, str]:
    """Return title and text. The subject of a question may have arguments or text of the model: it is left out."""
    who, tool = _name(question.agent), clip(question.tool, _LONGEST_NAME)
    match question.kind:
        case "permission" | "approval":
            return f"{who} asks", f"May it use {tool}?"
        case "input":
            return f"{who} has a question", "Open the page to answer it."
        case "login":
            return f"{who} needs a sign-in", f"It is for {tool}. Open the page to begin."
        case "trust":
            return "A tool needs your trust", f"Open the page to look at {tool}."


def _name(agent: str) -> str:
    return clip(agent, _LONGEST_NAME) or "Your agent"
