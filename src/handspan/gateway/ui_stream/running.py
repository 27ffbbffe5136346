"""A run that a request of the AI SDK's client follows, and its stream (SPEC F5, F6)."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from msgspec import UnsetType

from handspan.agent.result_marks import render_envelope
from handspan.core.errors import HandspanError
from handspan.core.events import Ended, RoundBegan
from handspan.core.messages import Message
from handspan.core.results import Attachment, Failure
from handspan.gateway.http.refusals import log_own_fault
from handspan.gateway.http.streams import EVENTS, HEARTBEAT_SECONDS, StreamedResponse
from handspan.gateway.runs.chats import ChatEnd
from handspan.gateway.runs.lines import LineReader, StreamLines
from handspan.gateway.runs.runs import RunPlace
from handspan.gateway.ui_stream.approvals import is_approval, open_questions
from handspan.gateway.ui_stream.refusals import error_line, refusal_of
from handspan.gateway.ui_stream.request import UiChat, UiRequest, answer_id
from handspan.gateway.ui_stream.seen import NOTHING_SEEN, read_seen
from handspan.gateway.ui_stream.stored import StoredCall, last_asked, replies_to_last, until_next_turn
from handspan.gateway.ui_stream.teller import UiTeller
from handspan.gateway.ui_stream.writer import MessageWriter
from handspan.wire.ui_stream import HEADERS

_FIRST_SECONDS: Final = 5.0
"""How long a stream waits for its first line, so that an error before it is an ordinary answer."""
_LONGEST_FILE: Final = 8 * 1024 * 1024
_log = logging.getLogger(__name__)


class RunningMessage:
    """One message of the assistant as it comes. Its run goes on when the client leaves."""

    def __init__(self, request: UiRequest, chat: UiChat, *, is_resumed: bool = False) -> None:
        """`is_resumed`: the client follows a turn that it has not asked for with this request."""
        self._request, self._chat, self._is_resumed = request, chat, is_resumed
        self.lines: StreamLines = request.door.open_streams.open(request.token, error_line)
        self._writer = MessageWriter(self.lines.put, chat.message_id)
        seen = NOTHING_SEEN if chat.going_on is None else read_seen(chat.going_on, is_last=chat.is_last)
        self._teller = UiTeller(self._writer, request.client, page=request.page, seen=seen)
        self._session = request.door.chats.session_for(request.client, chat.request)
        self._asked = chat.asked
        """The id of the person's message that is answered, or of its turn."""
        self._has_listened = False
        self.is_open = False
        """Whether the response has begun: from then on, an error is a chunk of the stream."""
        runs = request.parts.runs()
        self._task = runs.start(self._run())
        runs.start(self._write_end())

    def leave(self) -> None:
        """Note that the client is gone. The run goes on; what only follows it ends."""
        if self._is_resumed:
            self._task.cancel()

    async def _run(self) -> ChatEnd | Exception | None:
        """Return the end of the run, or what went wrong; None when there is nothing to follow."""
        chats, client, request = self._request.door.chats, self._request.client, self._chat.request
        try:
            if self._is_resumed:
                return await chats.follow(client, request, self._listen)
            if self._chat.going_on is not None:
                return await chats.follow(client, request, self._listen, also_over=True)
            return await chats.run(client, request, self._listen)
        except Exception as error:  # any error: the client gets it
            return error

    async def _listen(self, place: RunPlace) -> UiTeller:
        """Tell what the client lacks, and return the listener of the rest."""
        if self._has_listened:
            return self._teller
        self._has_listened = True
        self._session = place.session
        parts, client = self._request.parts, self._request.client
        questions = await open_questions(parts, client, place.session)
        if not place.resumes:
            waiting = [one for one in questions if is_approval(one, client.who)]
            if waiting and not self._chat.request.sends_all:  # the message joins a turn that waits for its person
                self._teller.say_waiting(waiting[0])
            return self._teller
        stored = await parts.store.conversations.load(place.session, owner=client.owner)
        calls = await self._stored_calls(stored)
        # From here on nothing waits: the caller listens right after this.
        live, messages = 0, stored
        session = parts.sessions.find(place.session, client.owner)
        if session is not None and session.turns and session.conversation is not None:
            messages = session.conversation.messages
            self._teller.follow(session.conversation)
            rounds: list[int] = []
            session.listeners.catch_up(
                lambda event, _: rounds.append(event.number) if isinstance(event, RoundBegan) else None
            )
            live = rounds[-1] if rounds else 0
        self._asked = last_asked(messages)
        if self._is_resumed:
            self._writer.message_id = answer_id(self._asked)
        self._teller.tell_stored(messages, calls, questions, live=live)
        return self._teller

    async def _stored_calls(self, messages: Sequence[Message]) -> dict[str, StoredCall]:
        """Return what the ledger has of the calls of the last answer."""
        request, found = self._request, dict[str, StoredCall]()
        for call in (call for reply, _ in replies_to_last(messages) for call in reply.calls):
            record = await request.parts.store.ledger.find(call.id)
            if record is None:
                continue
            is_own = request.client.runs(record)
            name = await request.parts.runs().own_name(request.client, record) if is_own else ""
            result = None if isinstance(record.result, UnsetType) else record.result
            status = result.code if isinstance(result, Failure) else "success"
            found[call.id] = StoredCall(name, "" if result is None else render_envelope(result), status)
        return found

    # The end.

    async def _write_end(self) -> None:
        """Write the end of the stream: that of the run, or that of what goes on without an answer of the person."""
        try:
            await self._until_end()
            if not self._task.done():
                await self._suspend()
            elif not self._task.cancelled():
                await self._finish(self._task.result())
        except Exception as error:  # any error: the client gets it
            self._fail(error)
        finally:
            self.lines.end()

    async def _until_end(self) -> None:
        """Wait for the end of the run, or until a person has to answer first."""
        suspended = self._teller.suspended
        while not self._task.done():
            waiting = asyncio.create_task(suspended.wait())
            await asyncio.wait([self._task, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if suspended.is_set() and not self._task.done():
                if self._teller.is_suspended:
                    return
                suspended.clear()

    async def _suspend(self) -> None:
        """End the stream: the client sends its person's answer with its next request.

        Calls of the client's own tools are told after that: a client that has results sends them by itself, also while
        its person has not answered, and would send them for ever.
        """
        self._teller.finish(Ended("pending"), await self._tell_rest())
        self.leave()

    async def _finish(self, end: ChatEnd | Exception | None) -> None:
        if isinstance(end, Exception):
            self._fail(end)
        elif end is not None:
            messages = await self._tell_rest()
            await self._tell_own_calls()
            self._teller.finish(end.ended, messages)

    async def _tell_rest(self) -> Sequence[Message]:
        """Tell what no event has told, and return the messages."""
        messages = await self._messages()
        self._teller.tell_rest(messages, await self._stored_calls(messages))
        for file in self._teller.files:
            await self._tell_file(file)
        return messages

    async def _tell_own_calls(self) -> None:
        asked = await self._request.door.chats.asked(self._request.client, self._session)
        self._teller.tell_own_calls([(one.id, one.name, one.arguments) for one in asked])

    async def _tell_file(self, file: Attachment) -> None:
        """Write a file of a result as a `data:` address: a page can't fetch it with its token."""
        data, ref = file.data, file.artifact
        if ref is not None and ref.size <= _LONGEST_FILE:
            try:
                data = await self._request.parts.artifacts.read(ref.id, owner=self._request.client.owner)
            except HandspanError:  # it was deleted meanwhile
                return
        if data:
            self._writer.file(f"data:{file.media_type};base64,{b64encode(data).decode()}", file.media_type)

    async def _messages(self) -> Sequence[Message]:
        """Return the messages of the chat up to the end of this answer."""
        parts, owner = self._request.parts, self._request.client.owner
        session = parts.sessions.find(self._session, owner)
        if session is not None and session.turns and session.conversation is not None:
            return until_next_turn(session.conversation.messages, self._asked)
        return until_next_turn(await parts.store.conversations.load(self._session, owner=owner), self._asked)

    def _fail(self, error: Exception) -> None:
        if not self.is_open and not self._writer.has_begun:
            self.lines.refuse(error)
            return
        refusal = refusal_of(error)
        log_own_fault(_log, "A run of the AI SDK's door failed", error, refusal)
        self._writer.fail(refusal.message)


async def stream(run: RunningMessage) -> StreamedResponse | None:
    """Return the response of a stream; None when there is nothing to tell. Raises what went wrong before it began."""
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            await run.lines.wait_for_first()
    except TimeoutError:
        pass
    run.is_open = True
    if run.lines.is_over and not run.lines.lines:
        return None
    return StreamedResponse(LineReader(run.lines), EVENTS, HEADERS, heartbeat=HEARTBEAT_SECONDS, on_leave=run.leave)
