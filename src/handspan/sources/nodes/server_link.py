"""An MCP server that another node runs, as this node uses it: calls, progress, cancel and questions (SPEC K2, P6).

A call travels like a call to a device: it has one answer, which comes again until it is acknowledged, and the probes
notice what was lost. When the node of the server is gone, the outcome of a call that may have come there is unknown; a
call that certainly did not come there runs at the next node. When the node of the caller is gone, the call goes on: the
node that takes it over asks for it under the same id.
"""

import asyncio
import time
from base64 import b64decode
from typing import Final

import msgspec

from handspan.core.bounded import BoundedDict
from handspan.core.context import ToolContext
from handspan.core.errors import ERROR_TYPES, ErrorCode, ToolError
from handspan.core.nodes import NodeLink
from handspan.core.results import Attachment, Success
from handspan.core.values import Arguments, Json
from handspan.sources.mcp.sharing import NotRun, ServerSnapshot
from handspan.sources.nodes.messages import ANSWER, CallAnswer, CallQuestion, encode, refuse_question
from handspan.sources.nodes.mirror import Mirror, MirrorHost
from handspan.sources.ws.calls import IdleTimeout, LostCall, Outcome, RemoteCall
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame

CAPABILITIES: Final = ("cancel", "deadline", "progress")
"""What a node can do with the calls of a server, in the words of ws.md."""
_MAX_ANSWERS: Final = 1000
_snapshot: Final = msgspec.json.Decoder(ServerSnapshot)


def encode_snapshot(snapshot: ServerSnapshot) -> bytes:
    """Return the snapshot as the row of a server holds it."""
    return msgspec.json.encode(snapshot)


class NodeServerLink:
    """The link to a server that another node runs. Implements `ServerElsewhere`."""

    def __init__(self, mirror: Mirror, host: MirrorHost) -> None:
        self.changed = asyncio.Event()
        """Set with each new snapshot; the connection that reads it clears it."""
        self.lost = asyncio.Event()
        """Set when the other node does not run the server any more."""
        self.snapshot = ServerSnapshot()
        """What the server offers, as its row said last; empty until the row was read."""
        self.mirror = mirror
        self._host = host
        self._contexts: dict[str, ToolContext] = {}
        """The contexts of waiting calls, by the call's id: the server may ask the person of each."""
        self._asking: dict[str, list[asyncio.Task[None]]] = {}
        """The tasks that ask the persons, by the call's id."""
        self._answers: BoundedDict[str, CallAnswer | None] = BoundedDict(_MAX_ANSWERS)
        """The questions that came, by id, with their answers; None while there is none. A question may come again."""

    @property
    def id(self) -> str:
        """The id of the lease with which the other node runs the server."""
        return self.mirror.id

    def read(self) -> None:
        """Take the snapshot that the row has now. Raises `msgspec.DecodeError` when a newer version wrote it."""
        self.snapshot = _snapshot.decode(self.mirror.record.tools)
        self.changed.set()
        if self.snapshot.is_leaving:
            self.lost.set()

    async def call(self, own_name: str, arguments: Arguments, ctx: ToolContext) -> Success:
        """Run a tool on the other node. Raises `ToolError` when the tool fails, and `NotRun` when it did not begin."""
        calls = self.mirror.calls
        asked = (ctx.call_id, own_name, arguments, ctx.deadline)
        call = RemoteCall(*asked, report=ctx.progress, outcome=calls.new_outcome(), owner=ctx.who.owner)
        self._contexts[call.id] = ctx
        try:
            calls.ask(call)
            answer = await call.outcome
            if isinstance(answer, LostCall) and not self.mirror.may_have_come(call.id):
                raise NotRun("The call was not run.")
        except asyncio.CancelledError:
            if ctx.stays_open():
                raise
            is_late = ctx.deadline is not None and ctx.deadline.at <= time.monotonic()
            calls.cancel(call, "timeout" if is_late else "aborted")
            raise
        finally:
            del self._contexts[call.id]
            for asking in self._asking.pop(call.id, ()):
                asking.cancel()
            self.mirror.forget(call)
        return _read(answer, self.mirror.record.label)

    def resume_calls(self) -> None:
        """Ask for the outcome of calls that a lost node had sent to this server."""
        for served in self.snapshot.tools:
            self.mirror.calls.resume_tool(served.spec.name, served.own_name)

    # Questions.

    def receive_question(self, question: CallQuestion) -> None:
        """Ask the person of a call. A question that comes again gets the first answer again."""
        ctx = self._contexts.get(question.call)
        if question.id in self._answers:
            answer = self._answers[question.id]
            if answer is not None:  # else the person is still asked
                self._send(answer)
        elif ctx is not None:
            self._answers[question.id] = None
            asking = asyncio.create_task(self._ask(question, ctx))
            self._asking.setdefault(question.call, []).append(asking)
        elif question.call in self.mirror.calls.open:
            self._send(refuse_question(question))

    async def _ask(self, question: CallQuestion, ctx: ToolContext) -> None:
        """Ask the person of a call, and send the answer to the node of the server."""
        try:
            answer, waited = await ctx.person.ask(question.asked)
            if ctx.deadline is not None:
                ctx.deadline = ctx.deadline.later(waited)
            answered = CallAnswer(question.peer, question.call, question.id, answer, waited=waited)
        except ToolError as error:
            answered = refuse_question(question, error.message)
        self._answers[question.id] = answered
        self._send(answered)

    def _send(self, answered: CallAnswer) -> None:
        link: NodeLink = self._host.link
        link.send(self.mirror.record.node, ANSWER, encode(answered))


def _read(answer: Outcome, server: str) -> Success:
    """Return the result of a call on another node. Raises `ToolError`, or `NotRun` when another node may run it."""
    match answer:
        case ResultFrame(output=output, parts=parts):
            return Success(output, tuple(map(_attachment, parts)))
        case FailureFrame(error=error, code=code):
            raise ToolError(_code(code), str(error))
        case LostCall(was_sent=True):
            text = (
                f"The node that ran the MCP server {server!r} was lost while it ran this call: the outcome is unknown."
            )
            raise ToolError("unknown_outcome", f"{text} Look before you call it again.")
        case LostCall():
            raise NotRun("The call was not run.")
        case IdleTimeout():
            raise ToolError("timeout", f"The MCP server {server!r} did not answer in time.")


def _code(code: Json) -> ErrorCode:
    """Return the code of a failure, if this version knows it."""
    return next((known for known in ERROR_TYPES if known == code), "execution_failed")


def _attachment(part: MediaPart) -> Attachment:
    return Attachment(part.kind, part.media_type, b64decode(part.data), name=part.name)
