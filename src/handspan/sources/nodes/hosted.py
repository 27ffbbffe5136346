"""An MCP server that this node runs, as other nodes use it: it runs their calls, each once (SPEC K2).

The relay works as for a device: it remembers the calls that came, and repeats their answers until they are
acknowledged. In place of a device's connection there is the server on this node. When this node gives the server away,
calls that come later are not run, and their callers get a message that says so: another node may run them. A call whose
caller's node is gone runs on: the node that takes the call over asks for it under the same id, and gets its answer.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.artifacts import Artifacts
from handspan.core.bounded import BoundedDict
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.nodes import SHARED
from handspan.core.principals import Principal
from handspan.core.questions import Answer, ToolQuestion
from handspan.core.results import Success
from handspan.core.values import Arguments, Json
from handspan.sources.nodes.messages import (
    ASK,
    GONE,
    CallAnswer,
    CallQuestion,
    ClientLost,
    ToClient,
    encode,
    is_large,
    read_head,
    refuse_question,
)
from handspan.sources.nodes.relay import Relay, RelayHost
from handspan.sources.ws.calls import LostCall, RemoteCall, RemoteCalls
from handspan.wire.ws import decode_server
from handspan.wire.ws_frames import CallRequest, CancelFrame, FailureFrame, MediaPart, ProgressFrame, ResultFrame

RunNamed: TypeAlias = Callable[[str, Arguments, ToolContext], Awaitable[Json | Success]]
"""Runs a tool, which has the name that the server itself gives it. Raises `ToolError`."""
_SLACK_SECONDS: Final = 2.0
"""Seconds after a call's deadline. The calling node ends the call at the deadline; this node only if that is missed."""
_MAX_ENDED: Final = 10_000
_ENDED: Final = "This call has ended, and another node has its result."
_NEVER_CAME: Final = "The MCP server lost the node of the caller"


class HostedServer:
    """One server that this node runs, from the beginning of its lease to the end."""

    def __init__(
        self, peer: str, epoch: int, run: RunNamed, host: RelayHost, artifacts: Artifacts, folder: Path
    ) -> None:
        """`peer` and `epoch` are those of the lease's row; `folder` is the workspace."""
        self.peer = peer
        self.owner = SHARED
        self.relay = Relay(peer, SHARED, RemoteCalls(frozenset()), self._take, host=host)
        self.relay.epoch = epoch
        self.is_over = False
        """Whether this node begins no new calls, because it gives the server away."""
        self._run_named = run
        self._host = host
        self._artifacts = artifacts
        self._folder = folder
        self._running: dict[str, asyncio.Task[ResultFrame | FailureFrame]] = {}
        """The calls that run, by id."""
        self._owners: dict[str, str] = {}
        """The owner of a call, while its frame goes through the relay to `_take`."""
        self._taken: dict[str, RemoteCall] = {}
        """Calls of lost nodes that this node has taken over."""
        self._ended: BoundedDict[str, None] = BoundedDict(_MAX_ENDED)
        """Calls whose answer is stored, or that this node has taken over: a late request for them runs nothing."""
        self._asked = 0
        """How many questions were asked: makes their ids."""
        self._questions: dict[str, tuple[CallQuestion, asyncio.Future[CallAnswer]]] = {}
        """The open questions, by id."""

    @property
    def epoch(self) -> int:
        """The epoch of the server's lease."""
        return self.relay.epoch

    async def end(self) -> None:
        """Begin no new call, and wait until each call has its answer. The program has ended before."""
        self.is_over = True
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def callers(self) -> set[str]:
        """Return the other nodes for which calls run."""
        return {self.relay.carried[call].caller for call in self._running if call in self.relay.carried}

    def cancel_of(self, nodes: set[str]) -> None:
        """Cancel the calls of nodes that are gone."""
        for call_id, task in self._running.items():
            call = self.relay.carried.get(call_id)
            if call_id not in self._taken and (call is None or call.caller in nodes):
                task.cancel()

    # From other nodes.

    def deliver(self, message: ToClient, frame: bytes) -> None:
        """Take a frame of another node."""
        head = read_head(frame)
        if head.type == "result_acknowledged":
            self._remember_ended(head.ids or (head.id,))
        if head.type == "tool_call_request":
            if head.id in self._ended:
                self.relay.refuse(message.sender, FailureFrame(id=head.id, error=_ENDED, code="unknown_outcome"))
                return
            if self.is_over and head.id not in self.relay.carried:
                gone = ClientLost(SHARED, self.peer, self.epoch, not_run=head.id)
                self._host.link.send(message.sender, GONE, encode(gone))
                return
            self._owners[head.id] = message.caller
        self.relay.deliver(message, frame)
        self._owners.pop(head.id, None)

    def knows(self, call_id: str, sender: str) -> bool:
        """Return whether this call has come. Send its answer or its open questions once more."""
        for question, _ in self._questions.values():
            if question.call == call_id:
                self._host.link.send(sender, ASK, encode(question))
        return self.relay.knows(call_id, sender)

    def take_over(self, call: RemoteCall) -> None:
        """Give the answer to a call that this node took over from a lost node: now, or when the server has answered."""
        found = self.relay.release(call.id)
        self._remember_ended((call.id,))
        for question, waiting in self._questions.values():
            if question.call == call.id and not waiting.done():
                waiting.set_result(refuse_question(question))
        if not isinstance(found, bool):
            call.end(found)
        elif call.id in self._running:
            self._taken[call.id] = call
        else:
            call.end(LostCall(found, _NEVER_CAME))

    def _remember_ended(self, calls: Iterable[str]) -> None:
        self._ended.update(dict.fromkeys(calls))

    def receive_answer(self, answered: CallAnswer) -> None:
        """Pass the answer of a person to the call that has asked."""
        _, waiting = self._questions.get(answered.id, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)

    def _take(self, data: bytes) -> None:
        """Take a frame that the relay lets through: run a new call, or cancel a call."""
        match decode_server(data):
            case CallRequest() as request:
                task = asyncio.create_task(self._run(request, self._owners.get(request.id, "")))
                self._running[request.id] = task
                task.add_done_callback(partial(self._answer, request.id))
            case CancelFrame(id=call_id) if call_id in self._running:
                self._running[call_id].cancel()

    # One call.

    def _answer(self, call_id: str, done: "asyncio.Task[ResultFrame | FailureFrame]") -> None:
        """Answer a call that has ended. A cancelled call may not have begun, when its cancel came right behind it."""
        del self._running[call_id]
        cancelled = FailureFrame(id=call_id, error="The call was cancelled.", code="cancelled")
        answer = cancelled if done.cancelled() else done.result()
        taken = self._taken.pop(call_id, None)
        if taken is None:
            self.relay.take_answer(answer)
        else:
            taken.end(answer)

    async def _run(self, request: CallRequest, owner: str) -> ResultFrame | FailureFrame:
        """Run a call for its owner. Return its result or failure as a frame."""
        seconds = None if request.timeout_ms is None else request.timeout_ms / 1000 + _SLACK_SECONDS
        try:
            async with asyncio.timeout(seconds) as limit:
                person = _PersonElsewhere(self, request.id, limit)
                ctx = ToolContext(
                    request.id,
                    Principal(owner),
                    "",
                    None,
                    progress=lambda value: self._report(request.id, value),
                    artifacts=self._artifacts,
                    workspace=self._folder,
                    person=person,
                )
                answer = await self._run_named(request.name, request.args, ctx)
        except ToolError as error:
            return FailureFrame(id=request.id, error=error.message, code=error.code)
        except TimeoutError:
            return FailureFrame(id=request.id, error="The call took too long.", code="timeout")
        except Exception as error:  # a wrong answer of the server, or an error of its library
            return FailureFrame(id=request.id, error=str(error) or type(error).__name__, code="execution_failed")
        if not isinstance(answer, Success):
            return ResultFrame(id=request.id, output=answer)
        parts = [
            MediaPart(one.kind, one.media_type, b64encode(one.data).decode(), name=one.name)
            for one in answer.attachments
        ]
        return ResultFrame(id=request.id, output=answer.value, parts=parts)

    def _report(self, call_id: str, value: Json) -> None:
        self.relay.take_progress(ProgressFrame(id=call_id, value=value))

    async def ask(self, call_id: str, tool_question: ToolQuestion) -> CallAnswer:
        """Ask the person of the call, on the node of its caller. Return the answer. Raises `ToolError`."""
        self._asked += 1
        question_id = f"{self.peer}/{self._asked}"
        question = CallQuestion(self.peer, call_id, question_id, tool_question)
        if is_large(encode(question)):
            raise ToolError("execution_failed", "The question of the MCP server is too large to be sent between nodes.")
        waiting: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        self._questions[question_id] = (question, waiting)
        try:
            if call_id in self._taken:
                return refuse_question(question)
            call = self.relay.carried.get(call_id)
            if call is not None:
                self._host.link.send(call.caller, ASK, encode(question))
            return await waiting
        finally:
            del self._questions[question_id]


class _PersonElsewhere:
    """The person for whom a call runs, on another node. Implements `Person`."""

    def __init__(self, server: HostedServer, call_id: str, limit: asyncio.Timeout) -> None:
        self._server = server
        self._call_id = call_id
        self._limit = limit

    async def ask(self, tool_question: ToolQuestion) -> tuple[Answer, float]:
        """Ask the person. Return the answer, and the seconds by which the call's deadline moved on the person's node.

        While the person thinks, the time limit of the call stands still.
        """
        loop, end = asyncio.get_running_loop(), self._limit.when()
        began = loop.time()
        with contextlib.suppress(RuntimeError):  # the call is over
            self._limit.reschedule(None)
        try:
            answered = await self._server.ask(self._call_id, tool_question)
        finally:
            if end is not None:
                with contextlib.suppress(RuntimeError):
                    self._limit.reschedule(end + loop.time() - began)
        if answered.error:
            raise ToolError("execution_failed", answered.error)
        return answered.answer, answered.waited
