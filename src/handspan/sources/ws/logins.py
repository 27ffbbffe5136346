"""Calls whose client wants a login: they wait while the person logs in, and are sent again (SPEC P6; ws.md 5.13)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.questions import Answer, QuestionAction, ToolQuestion
from handspan.core.values import strip_invisible
from handspan.sources.ws.calls import Outcome, RemoteCall, RemoteCalls
from handspan.wire.ws_frames import FailureFrame

AskLogin: TypeAlias = Callable[[ToolQuestion], Awaitable[Answer]]
"""Asks the person to log in, and waits for the answer."""
ReadDeadline: TypeAlias = Callable[[], Deadline | None]
"""Returns when the call times out, without the time that the person took."""

_HINT: Final = "Open the app, allow the access there, and say here that it is done."
_MOST_SHOWN: Final = 1000


async def await_login(
    answer: Outcome, call: RemoteCall, calls: RemoteCalls, tool: str, ask: AskLogin, deadline: ReadDeadline
) -> Outcome:
    """Return the answer that the client gives after the login; without a login, the client's error.

    The client may want another login after the first one: then the person is asked again.
    """
    while isinstance(answer, FailureFrame) and calls.wants_login(answer):
        calls.begin_login(call)
        if not await _ask(ask, login_question(answer, tool), call):
            return call.outcome.result() if call.outcome.done() else answer
        calls.retry(call, deadline())
        answer = await call.outcome
    return answer


async def _ask(ask: AskLogin, question: ToolQuestion, call: RemoteCall) -> bool:
    """Ask the person, and return whether the person has logged in; False at once when the call ends meanwhile."""
    asking = asyncio.ensure_future(ask(question))
    try:
        await asyncio.wait((asking, call.outcome), return_when=asyncio.FIRST_COMPLETED)
        return not call.outcome.done() and asking.result().decision == "allow"
    except ToolError:  # no person can be asked: the model gets the client's error
        return False
    finally:
        asking.cancel()


def login_question(refused: FailureFrame, tool: str) -> ToolQuestion:
    """Return the question that asks the person to log in."""
    error = refused.error if isinstance(refused.error, str) else ""
    hint = strip_invisible(refused.resolution_hint)[:_MOST_SHOWN] or _HINT
    subject = f"The tool {tool!r} needs a login: {strip_invisible(error)[:_MOST_SHOWN]}"
    action = QuestionAction(intent=strip_invisible(refused.authorize_intent)[:_MOST_SHOWN], hint=hint)
    return ToolQuestion("login", subject, action=action)
