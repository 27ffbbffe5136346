"""An MCP server that this node runs, as other nodes use it: it runs their calls, each once (SPEC K2).

The relay is that of a device: it remembers the calls that came, and repeats their answers until they are acknowledged.
In place of a connection there is the server here. When this node gives the server away, calls that come later are not
run, and their callers get a message that says so: another node may run them. A call whose caller's node is gone runs
on: the node that takes it over asks for it under the same id, and gets its answer.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.artifacts import Artifacts
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
"""Runs a tool by the server's own name. Raises `ToolError`."""
_SLACK_SECONDS: Final = 2.0
"""The calling node ends a call that takes too long. This one does so without such a message."""
_MAX_ENDED: Final = 10_000
_ENDED: Final = "This call has ended, and another node has its result."
_NEVER_CAME: Final = "The MCP server lost the node of the caller"


class HostedServer:
    """One server that this node runs, from its lease to the end of it."""

    def __init__(
        self, peer: str, epoch: int, run: RunNamed, host: RelayHost, artifacts: Artifacts, folder: Path
    ) -> None:
        """`peer` and `epoch` are those of the lease; `folder` is the workspace."""
        self.peer = peer
        self.relay = Relay(peer, SHARED, RemoteCalls(frozenset()), self._take, host)
        self.relay.epoch = epoch
        self.is_over = False
        """Whether this node runs no new calls of it: it gives the server away."""
        self._run_named = run
        self._host = host
        self._artifacts = artifacts
        self._folder = folder
        self._running: dict[str, asyncio.Task[ResultFrame | FailureFrame]] = {}
        self._owners: dict[str, str] = {}
        self._taken: dict[str, RemoteCall] = {}
        """Calls of lost nodes that this node has taken over."""
        self._ended: OrderedDict[str, None] = OrderedDict()
        """Calls whose answer is stored, or that this node has taken over: a request that comes late runs nothing."""
        self._asked = 0
        self._questions: dict[str, tuple[CallQuestion, asyncio.Future[CallAnswer]]] = {}

    @property
    def epoch(self) -> int:
        """The epoch of its lease."""
        return self.relay.epoch

    async def end(self) -> None:
        """Wait until each call has its answer: the program has ended, and no new call begins."""
        self.is_over = True
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def callers(self) -> set[str]:
        """Return the nodes whose calls run."""
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
        self.relay.deliver(message.sender, frame)
        self._owners.pop(head.id, None)

    def knows(self, call_id: str, sender: str) -> bool:
        """Whether this call has come. Its answer, or what it asks, is sent once more."""
        for question, _ in self._questions.values():
            if question.call == call_id:
                self._host.link.send(sender, ASK, encode(question))
        return self.relay.knows(call_id, sender)

    def take_over(self, call: RemoteCall) -> None:
        """Let this node have a call of a lost node: it gets its answer, now or when there is one."""
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
        while len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)

    def receive_answer(self, answered: CallAnswer) -> None:
        """Pass the answer of a person to the call that has asked."""
        _, waiting = self._questions.get(answered.id, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(answered)

    def _take(self, data: bytes) -> None:
        """Take a frame that the relay lets through: a new call, or the end of one."""
        match decode_server(data):
            case CallRequest() as request:
                task = asyncio.create_task(self._result(request, self._owners.get(request.id, "")))
                self._running[request.id] = task
                task.add_done_callback(partial(self._answer, request.id))
            case CancelFrame(id=call_id) if call_id in self._running:
                self._running[call_id].cancel()

    # One call.

    def _answer(self, call_id: str, done: "asyncio.Task[ResultFrame | FailureFrame]") -> None:
        """Answer a call that has ended. One that was cancelled may not have begun: its cancel came right behind it."""
        del self._running[call_id]
        cancelled = FailureFrame(id=call_id, error="The call was cancelled.", code="cancelled")
        answer = cancelled if done.cancelled() else done.result()
        taken = self._taken.pop(call_id, None)
        if taken is None:
            self.relay.take_answer(answer)
        else:
            taken.end(answer)

    async def _result(self, request: CallRequest, owner: str) -> ResultFrame | FailureFrame:
        seconds = None if request.timeout_ms is None else request.timeout_ms / 1000 + _SLACK_SECONDS
        try:
            async with asyncio.timeout(seconds) as limit:
                person = _PersonElsewhere(self, request.id, limit)
                ctx = ToolContext(
                    request.id,
                    Principal(owner),
                    "",
                    None,
                    lambda value: self._report(request.id, value),
                    self._artifacts,
                    self._folder,
                    person,
                )
                answer = await self._run_named(request.name, request.args, ctx)
        except ToolError as error:
            return FailureFrame(id=request.id, error=error.message, code=error.code)
        except TimeoutError:
            return FailureFrame(id=request.id, error="The call took too long.", code="timeout")
        except Exception as error:  # code and answers of the server
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

    async def ask(self, call_id: str, asked: ToolQuestion) -> CallAnswer:
        """Ask the person of the call, at the node of its caller."""
        self._asked += 1
        question_id = f"{self.peer}/{self._asked}"
        question = CallQuestion(self.peer, call_id, question_id, asked)
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
    """The person for whom a call runs, at another node. It implements `Person`."""

    def __init__(self, server: HostedServer, call_id: str, limit: asyncio.Timeout) -> None:
        self._server = server
        self._call_id = call_id
        self._limit = limit

    async def ask(self, asked: ToolQuestion) -> tuple[Answer, float]:
        """Return the answer. The time of the person does not count."""
        loop, end = asyncio.get_running_loop(), self._limit.when()
        began = loop.time()
        with contextlib.suppress(RuntimeError):  # the call is over
            self._limit.reschedule(None)
        try:
            answered = await self._server.ask(self._call_id, asked)
        finally:
            if end is not None:
                with contextlib.suppress(RuntimeError):
                    self._limit.reschedule(end + loop.time() - began)
        if answered.error:
            raise ToolError("execution_failed", answered.error)
        return answered.answer, answered.waited
