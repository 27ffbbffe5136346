"""On whose behalf calls are made; and the first stations: the caller's tool, and its arguments (SPEC E1)."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.calls import AskingModel
from handspan.core.context import Progress, no_progress, not_elsewhere
from handspan.core.errors import ToolError, WireError
from handspan.core.principals import Principal
from handspan.core.questions import Question
from handspan.core.values import Arguments
from handspan.registry.entry import Entry
from handspan.registry.toolbox import Toolbox
from handspan.wire.strict_json import parse

QuestionListener: TypeAlias = Callable[[Question], None]
"""Is called with each question that a person is asked. The listener never blocks, and can't answer."""


def ignore_question(_: Question) -> None:
    """The listener of a caller that shows no questions."""


class Caller(Struct, frozen=True):
    """The person, agent, session and tools of a call. Made once for each session, not for each call."""

    who: Principal
    agent: Agent
    box: Toolbox
    session: str = ""
    progress: Progress = no_progress
    on_question: QuestionListener = ignore_question
    """Is called with each question that a call of this caller asks a person."""
    goes_on_elsewhere: Callable[[], bool] = not_elsewhere
    """Whether another process goes on with the caller's work. A call that is cancelled then stays open, if it can wait
    without this process."""
    is_turn: bool = False
    """Whether a turn makes the calls. When the gateway stops, the turn does not wait for clients that can come back."""
    asked_by: AskingModel | None = None
    """The model whose reply asks for the calls, if one does."""


def find_tool(name: str, caller: Caller) -> Entry:
    """Return the tool of this name that the caller may use. Raises `ToolError` with the reason when there is none."""
    entry = caller.box.find(name)
    if entry is None:
        raise caller.box.refusal(name)
    if entry.needs_turn and not caller.is_turn:
        text = f"Tool {name!r} works only in the turn of a conversation: say to an agent what it shall do with it."
        raise ToolError("tool_not_available", text)
    return entry


def recheck_approved(entry: Entry, caller: Caller) -> Entry:
    """Return the tool that a person approved, as it is now.

    Raises `ToolError` when the tool was removed or changed while the person decided.
    """
    now = find_tool(entry.spec.name, caller)
    if now is entry or (_identity(now) == _identity(entry)):
        return now
    text = f"Tool {entry.spec.name!r} changed while a person was asked about this call, so it did not run: call again."
    raise ToolError("tool_not_available", text)


def _identity(entry: Entry) -> tuple[str, str, str]:
    return entry.spec.fingerprint, entry.origin.kind, entry.origin.name


def read_arguments(entry: Entry, raw: Arguments | bytes | str) -> Arguments:
    """Return the arguments, parsed and valid by the tool's schema. Raises `ToolError` when they are not valid.

    Arguments that the schema refuses are read as their sender meant them, where that is clear (SPEC A6). Broken JSON is
    refused: nothing could say what was meant.
    """
    try:
        arguments = parse(raw or b"{}") if isinstance(raw, (bytes, str)) else raw
        if isinstance(arguments, dict):
            return arguments if entry.is_valid(arguments) else entry.validator.read(arguments)
    except (WireError, ValueError, RecursionError) as error:
        why = str(error).rstrip(".")
        raise ToolError("invalid_arguments", f"The arguments of {entry.spec.name!r} can't be read: {why}.") from None
    raise ToolError("invalid_arguments", f"The arguments of {entry.spec.name!r} must be a JSON object.")
