"""What a request of a client that keeps its own history means for the session of its chat (SPEC F3)."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, UnsetType, structs

from handspan.agent.limits import TurnLimits
from handspan.agent.requests import NOTHING_TO_DO
from handspan.agent.sessions import Sessions
from handspan.agent.turn_events import AnsweredBefore, find_answer
from handspan.core.bounded import BoundedDict
from handspan.core.calls import CallRecord
from handspan.core.errors import HandspanError
from handspan.core.events import GATEWAY_LOST, GATEWAY_STOPPED, Ended
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.store import Store
from handspan.core.tasks import wait_for
from handspan.gateway.runs.asked import arguments_of
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.entries import (
    ChatEntry,
    is_same,
    last_results,
    new_messages,
    persons_messages,
    split_history,
    with_id,
)
from handspan.gateway.runs.known_chat import EndWatch, KnownChat, look_at_chat
from handspan.gateway.runs.results import GivenResult
from handspan.gateway.runs.runs import ListenTo, RunListener, RunPlace, Runs
from handspan.gateway.runs.wishes import RunWishes
from handspan.gateway.sessions.brief import BriefSessions

_NO_LIMITS: Final = TurnLimits(rounds=None)
_MOST_OWED: Final = 10_000
_LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at a turn whose end may come from elsewhere."""


class ChatRequest(Struct, frozen=True, kw_only=True):
    """One request of a chat."""

    wishes: RunWishes
    """What the client wants of the run; the session is chosen here."""
    entries: Sequence[ChatEntry]
    key: str = ""
    """The client's name of the chat; empty: the request is a conversation of its own."""
    request_id: str = ""
    """The client's own id of this request: the same request again gets the same answer."""
    sends_all: bool = False
    """Whether the client always sends the whole history."""
    session: str = ""
    """The session, where the client names one that it knows; else the key decides."""
    after: int = 0
    """In that session: how many messages stay. What follows them becomes a version."""
    is_version: bool | None = None
    """Whether the client asks for another answer to its last message (SPEC L8); None: its messages say so."""
    is_only_new: bool = False
    """Whether the client sends only what is new: nothing is compared."""
    response_id: str = ""
    """The id of the answer, where a client can ask for it again."""


class AskedTool(Struct, frozen=True):
    """A call that the client has to run."""

    id: str
    name: str
    """The client's own name of the tool."""
    arguments: str
    """A JSON object."""


class ChatEnd(Struct, frozen=True):
    """How a request ended."""

    session: str
    ended: Ended
    asked: Sequence[AskedTool] = ()
    """The calls that the client has to run: with the reason `pending`."""


class NothingSaid(HandspanError):
    """A request has no message of a person, and no result that a call waits for."""


class Chats:
    """Answers requests of chats. A chat with a key is one durable session; any other lasts as long as its request."""

    def __init__(self, runs: Runs, store: Store, sessions: Sessions, brief: BriefSessions) -> None:
        self._runs, self._store, self._sessions, self._brief = runs, store, sessions, brief
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Two requests of one chat are compared with its session one after the other."""
        self._owed: BoundedDict[str, None] = BoundedDict(_MOST_OWED)
        """Sessions whose client has left before the answer, and gets it with the same request again."""
        self.stop = runs.stop

    def session_of(self, client: RunClient, agent: str, key: str) -> str:
        """Return the session of the chat with this key: of this owner, this token and this agent."""
        named = msgspec.json.encode([client.owner, client.id, agent, key])
        return f"chat-{hashlib.sha256(named).hexdigest()[:32]}"

    def session_for(self, client: RunClient, request: ChatRequest) -> str:
        """Return the durable session of this request; empty: it has none."""
        if request.session or not request.key:
            return request.session
        return self.session_of(client, request.wishes.agent, request.key)

    async def follow(
        self, client: RunClient, request: ChatRequest, listen: ListenTo, *, also_over: bool = False
    ) -> ChatEnd | None:
        """Go on with the turn of this chat, without a new message of the person, and return its end.

        Results of the request are given first. None: no turn runs, waits or was cut off. `also_over`: one that is over
        is told, too. The run goes on when the caller is cancelled. Raises as `run` does.
        """
        chat = _Chat(self._runs, self._store, self._sessions, client=client, request=request, listen=listen)
        return await chat.resume() or await chat.follow(self.session_for(client, request), also_over=also_over)

    async def asked(self, client: RunClient, session: str) -> list[AskedTool]:
        """Return the calls that wait for the client."""
        return await asked_tools(self._runs, client, session)

    async def look(self, client: RunClient, session: str) -> Sequence[Message]:
        """Return the messages of this session as they are now; none if there is no such session."""
        known = await look_at_chat(self._store, self._sessions, session, client.owner)
        return () if known is None else known.messages

    def owe(self, client: RunClient, request: ChatRequest) -> None:
        """Note that the client of this chat has left before its answer: the same request again gets it (SPEC F6)."""
        if request.key:
            self._owed[self.session_of(client, request.wishes.agent, request.key)] = None

    async def run(self, client: RunClient, request: ChatRequest, listen: ListenTo) -> ChatEnd:
        """Answer a request, and return its end. The run goes on when its caller is cancelled by no one but `stop`.

        Raises `NothingSaid`, `ResultsRefused`, `OffersRefused` or `TurnRefused`.
        """
        wanted = self.session_for(client, request) or self._brief.new_id()
        lock = self._locks.setdefault(wanted, asyncio.Lock())
        await lock.acquire()
        unlocked = _Once(lock.release)

        async def listen_unlocked(place: RunPlace) -> RunListener:
            listener = await listen(place)
            asyncio.get_running_loop().call_soon(unlocked)  # once the request is in the session's queue
            return listener

        owed = wanted in self._owed
        chat = _Chat(
            self._runs,
            self._store,
            self._sessions,
            client=client,
            request=request,
            listen=listen_unlocked,
            is_owed=owed,
        )
        end: ChatEnd | None = None
        try:
            end = await chat.resume() or await chat.say(wanted, is_brief=self._brief.is_brief(wanted))
            self._owed.pop(wanted, None)
            return end
        finally:
            unlocked()
            session = chat.session or wanted
            if self._brief.is_brief(session) and (end is None or not end.asked):
                self._runs.start(self._brief.remove(session, client.owner))


class _Chat:
    """One request at work."""

    def __init__(
        self,
        runs: Runs,
        store: Store,
        sessions: Sessions,
        *,
        client: RunClient,
        request: ChatRequest,
        listen: ListenTo,
        is_owed: bool = False,
    ) -> None:
        self._runs, self._store, self._sessions, self._is_owed = runs, store, sessions, is_owed
        self._client, self._request, self._listen = client, request, listen
        self.session = ""
        """The session, once it is known."""

    # Results.

    async def resume(self) -> ChatEnd | None:
        """Give our calls their results, and go on with their run; None when no result is for a call of ours."""
        results = last_results(self._request.entries)
        found = [(given, await self._find_own(given)) for given in results]
        ours = [(given, record) for given, record in found if record is not None]
        if not ours:
            return None
        self.session = ours[0][1].session
        fresh = [given for given, record in ours if isinstance(record.result, UnsetType)]
        if not fresh:
            return await self._repeat(ours[0][1])
        ended = await self._runs.resume(self._client, self._wishes(), fresh, self._listen)
        said = new_messages(self._request.entries)
        if ended.reason == "pending" or not said:
            return await self._end(ended)
        return await self._say_new(said)

    async def _find_own(self, given: GivenResult) -> CallRecord | None:
        record = await self._store.ledger.find(given.call_id)
        return record if record is not None and self._client.runs(record) else None

    async def _repeat(self, record: CallRecord) -> ChatEnd | None:
        """Answer a client that repeats results: with the run that goes on, or with what came of it."""
        known = await self._look(record.session)
        return None if known is None else await self._join(known)

    # Messages.

    async def say(self, session: str, *, is_brief: bool) -> ChatEnd:
        """Answer the person's messages in this session."""
        entries = self._request.entries
        if not persons_messages(entries):
            text = "There is no message of a person: send one with the role 'user'."
            raise NothingSaid(text)
        self.session = session
        known = None if is_brief else await self._look(session)
        if known is None or not known.messages:
            history, message = split_history(entries)
            return await self._say(message, history=history)
        return await (self._say_after(known) if self._request.is_only_new else self._say_in(known))

    async def _say_after(self, known: KnownChat) -> ChatEnd:
        """Say all that the client sends, after the messages that stay."""
        said, after = persons_messages(self._request.entries), self._request.after
        places = [place for place, message in enumerate(known.messages, 1) if isinstance(message, UserMessage)]
        replaces = next((place for place in places if 0 < after < place), 0)
        if replaces:
            self._sessions.abort(known.id, self._client.owner)  # its answer is left behind
        return await self._say(said[-1], before=said[:-1], replaces=replaces)

    async def _look(self, session_id: str) -> KnownChat | None:
        return await look_at_chat(self._store, self._sessions, session_id, self._client.owner)

    async def _say_in(self, known: KnownChat) -> ChatEnd:
        """Compare the person's messages with those of the session, and say what is new, join, or begin a version."""
        said, stored = persons_messages(self._request.entries), persons_messages(known.messages)
        equal = 0
        while equal < min(len(said), len(stored)) and is_same(said[equal], stored[equal]):
            equal += 1
        if equal == len(stored) < len(said):
            return await self._say_new(said[equal:])
        if equal == 0 and len(said) == 1 and not self._request.sends_all:  # a client that sends only what is new
            return await self._say_new(said)
        if equal == len(stored) and not self._is_version(known):
            return await self._join(known)
        differs = min(equal, len(said) - 1)
        self._sessions.abort(known.id, self._client.owner)  # its answer is left behind
        places = [place for place, message in enumerate(known.messages, 1) if isinstance(message, UserMessage)]
        return await self._say(said[-1], before=said[differs:-1], replaces=places[differs])

    def _is_version(self, known: KnownChat) -> bool:
        """Whether the same messages again mean another answer: there is one, and this is another request."""
        if self._request.is_version is not None:
            return self._request.is_version
        asked = persons_messages(known.messages)[-1]
        is_repeated = bool(asked.id) and asked.id == with_id(asked, self._request.request_id).id
        return known.state == "idle" and known.has_answer and not is_repeated and not self._is_owed

    async def _say_new(self, said: Sequence[UserMessage]) -> ChatEnd:
        return await self._say(said[-1], before=said[:-1], join=len(said) == 1)

    async def _say(
        self,
        message: UserMessage,
        *,
        history: Sequence[UserMessage | AssistantMessage] = (),
        before: Sequence[UserMessage] = (),
        replaces: int = 0,
        join: bool = False,
    ) -> ChatEnd:
        """Run a turn with this message, after what is given of the conversation before, and return its end."""
        ended = await self._runs.say(
            self._client,
            self._wishes(),
            with_id(message, self._request.request_id),
            self._listen,
            history=history,
            before=[UserMessage(one.parts) for one in before],
            replaces=replaces,
            join=join,
        )
        return await self._end(ended)

    async def follow(self, session: str, *, also_over: bool) -> ChatEnd | None:
        """Go on with the last turn of this session. None when it is over, unless that has to be told, too."""
        self.session = session
        known = await self._look(session)
        if known is None or not known.messages:
            return None
        if known.state == "idle" and not await self._is_cut_off(known):
            return await self._tell_answer(known) if also_over else None
        return await self._join(known)

    async def _is_cut_off(self, known: KnownChat) -> bool:
        """Whether the last turn ended in the middle, because its process did."""
        ends = await self._store.conversations.ends(known.id, owner=self._client.owner)
        end = ends.get(len(known.messages))
        return not known.has_answer and (end is None or end.fault in (GATEWAY_LOST, GATEWAY_STOPPED))

    async def _join(self, known: KnownChat) -> ChatEnd:
        """Follow the turn that runs, go on with one that was cut off, or tell the answer again."""
        if known.state == "waiting" and (asked := await asked_tools(self._runs, self._client, self.session)):
            await self._listen(known.place)
            return ChatEnd(known.id, Ended("pending"), asked)
        if known.state == "idle":
            if known.has_answer:
                return await self._tell_answer(known)
            going_on = asyncio.create_task(self._runs.go_on(self._client, known.id, self._wishes(), self._listen))
            self._runs.hold(going_on)
            return await self._end(await asyncio.shield(going_on))
        return await self._end(await self._wait_for_rest(known.place, is_new=True))

    async def _tell_answer(self, known: KnownChat) -> ChatEnd:
        listener = await self._listen(known.place)
        return ChatEnd(known.id, await self._tell_stored(listener, known.messages))

    async def _tell_stored(self, listener: RunListener, messages: Sequence[Message]) -> Ended:
        """Tell the stored answer to the person's last message, and return its end."""
        ends = await self._store.conversations.ends(self.session, owner=self._client.owner)
        asked = persons_messages(messages)[-1]
        answered = find_answer(asked, messages, _NO_LIMITS, ends) or AnsweredBefore(NOTHING_TO_DO, "")
        listener.on_event(answered, asked.turn)
        return answered.ended

    # The end.

    async def _end(self, ended: Ended) -> ChatEnd:
        """Return the end of the request: a turn that waits for others than the client goes on first."""
        while ended.reason == "pending":
            await self._sessions.until_stored(self.session, self._client.owner)
            if asked := await asked_tools(self._runs, self._client, self.session):
                return ChatEnd(self.session, ended, asked)
            ended = await self._wait_for_rest(RunPlace(self.session, 0, resumes=True))
        return ChatEnd(self.session, ended)

    async def _wait_for_rest(self, place: RunPlace, *, is_new: bool = False) -> Ended:
        """Listen to a turn that began for another request, or goes on elsewhere, and return its end.

        `is_new`: the listener has heard nothing of the turn yet.
        """
        owner, watch = self._client.owner, EndWatch()
        listener, session = await self._listen(place), self._sessions.get(place.session, owner)
        unlisten = [session.listen(listener.on_event), session.listen(watch.on_event)]
        try:
            if is_new:
                session.listeners.catch_up(listener.on_event)
            while not await wait_for(_LOOK_SECONDS, watch.is_over):
                known = await self._look(place.session)
                if known is None:
                    return Ended("aborted")
                if known.state == "idle":  # the event of its end was lost
                    return await self._tell_stored(listener, known.messages)
                if known.state == "waiting" and await asked_tools(self._runs, self._client, self.session):
                    return Ended("pending")
            await self._sessions.until_stored(place.session, owner)
            return watch.ended
        finally:
            for end in unlisten:
                end()

    def _wishes(self) -> RunWishes:
        return structs.replace(self._request.wishes, session=self.session)


class _Once:
    """Calls a function once, however often it is called."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work

    def __call__(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()


async def asked_tools(runs: Runs, client: RunClient, session: str) -> list[AskedTool]:
    """Return the calls that wait for the client, by its own names of their tools."""
    found = []
    for record in await runs.open_calls(client, session):
        arguments = msgspec.json.encode(arguments_of(record)).decode()
        found.append(AskedTool(record.id, await runs.own_name(client, record), arguments))
    return found
