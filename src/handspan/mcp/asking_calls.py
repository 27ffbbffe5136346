"""Calls that ask the person at the client, in the newer era of the protocol (SPEC P6).

In that era (see `mcp/__init__.py`) a server can't ask a client. It answers the call with the question instead, and
the client repeats the call with the person's answer. The call itself goes on waiting meanwhile: an answer may
also come from elsewhere.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from handspan.core.bounded import BoundedDict
from handspan.core.errors import ToolError
from handspan.core.questions import Answer
from handspan.core.results import ToolResult
from handspan.core.values import Arguments, Json, JsonObject

_MAX_CALLS: Final = 1000
"""Calls that wait for their client. The oldest one beyond that is cancelled."""
_KEPT_SECONDS: Final = 600.0
"""How long the result of a call is kept for a client that does not come back."""


class ClientQuestion(Struct, frozen=True, eq=False):
    """A question to the person at the client: a text, and the schema of the answer."""

    text: str
    schema: JsonObject
    answer: "asyncio.Future[Answer]"


class AskingCall:
    """One call that may ask. `step` returns its result, or the questions that it waits for."""

    def __init__(self, client: str, name: str, arguments: Arguments, work: "CallWork") -> None:
        self.identity = (client, name, dict(arguments))
        """The client that made the call, and what it called: only an equal call of the same client can continue it."""
        self.show: Callable[[Json], None] = lambda _: None
        """Shows progress to the request that waits now."""
        self._questions: dict[str, ClientQuestion] = {}
        self._count = 0
        self._has_questions = asyncio.Event()
        self.task = asyncio.create_task(work(self))

    async def ask(self, text: str, schema: JsonObject) -> Answer:
        """Ask the person at the client. The wait is cancelled when the answer came from elsewhere."""
        self._count += 1
        key = f"question_{self._count}"
        question = ClientQuestion(text, schema, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        self._has_questions.set()
        try:
            return await question.answer
        finally:
            self._remove(key)

    def answer(self, answers: Mapping[str, Answer]) -> None:
        """Take the person's answers. A second answer to a question does not count."""
        for key, answer in answers.items():
            question = self._remove(key)
            if question is not None and not question.answer.done():
                question.answer.set_result(answer)

    async def step(self) -> ToolResult | Mapping[str, ClientQuestion]:
        """Wait until the call is over, or asks something. The call is cancelled with the request that waits."""
        while not self.task.done() and not self._questions:
            asked = asyncio.create_task(self._has_questions.wait())
            try:
                await asyncio.wait((self.task, asked), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                self.task.cancel()
                raise
            finally:
                asked.cancel()
        return self.task.result() if self.task.done() else dict(self._questions)

    def _remove(self, key: str) -> ClientQuestion | None:
        question = self._questions.pop(key, None)
        if not self._questions:
            self._has_questions.clear()
        return question


CallWork: TypeAlias = Callable[[AskingCall], Coroutine[Any, Any, ToolResult]]


class AskingCalls:
    """The calls whose clients have to come back with an answer, by states that can't be guessed: each is valid once."""

    def __init__(self, stamp: Callable[[str], str] | None = None) -> None:
        """`stamp` returns a state as clients get it: it may add the node on which the call waits."""
        self._calls: BoundedDict[str, AskingCall] = BoundedDict(_MAX_CALLS, lambda _, call: call.task.cancel())
        self._stamp = stamp

    def keep(self, call: AskingCall) -> str:
        """Keep the call until its client comes back. Return the state that the client has to bring."""
        made = secrets.token_urlsafe(32)
        state = made if self._stamp is None else self._stamp(made)
        self._calls[state] = call
        loop = asyncio.get_running_loop()
        call.task.add_done_callback(lambda _: loop.call_later(_KEPT_SECONDS, self._calls.pop, state, None))
        return state

    def take(self, state: str, client: str, name: str, arguments: Arguments) -> AskingCall:
        """Return the call of this state. Raises `ToolError` when this client has no such call with this state."""
        call = self._calls.get(state)
        if call is None or call.identity != (client, name, dict(arguments)):
            text = "This request state is unknown: the call is over, or it is another client's. Call the tool again."
            raise ToolError("invalid_arguments", text)
        return self._calls.pop(state)

    async def close(self) -> None:
        """Cancel all calls that wait."""
        waiting = [call.task for call in self._calls.values()]
        for task in waiting:
            task.cancel()
        self._calls.clear()
        await asyncio.gather(*waiting, return_exceptions=True)
