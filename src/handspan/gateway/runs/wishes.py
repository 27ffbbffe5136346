"""What a client wants of a run, and a turn that has it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, structs

from handspan.agent.conversation import Conversation
from handspan.agent.final_answer import REMINDER, ModelWithFinalAnswer
from handspan.agent.limits import TurnLimits
from handspan.core.records import SessionKind
from handspan.gateway.runs.json_answers import JsonAnswer
from handspan.models.wishes import ANY_TOOL, NO_WISHES, ReplyWishes, with_wishes
from handspan.sources.graph import GraphTool
from handspan.wire.graph.requests import OfferedTool

_NO_ROUNDS: Final = 0


class RunWishes(Struct, frozen=True, kw_only=True):
    """What a client wants of a run."""

    session: str = ""
    """Empty: a new one; for results, that of their calls."""
    agent: str = ""
    kind: SessionKind = "chat"
    """What a new session is."""
    tools: Sequence[OfferedTool] | None = None
    """The client's tools from now on; None: they stay as they are."""
    most_rounds: int | None = None
    """How many rounds the run may have, if its agent allows as many."""
    instructions: str = ""
    """Instructions that are laid on top of the agent's."""
    reply: ReplyWishes = NO_WISHES
    """What the client wishes of the model's replies. `reply.tool` is the client's own name of a tool."""
    answer: JsonAnswer | None = None
    """The form that the answer has to have."""
    is_bare: bool = False
    """Whether the model answers alone: without tools, and without the agent's instructions."""


@contextmanager
def turn_as_wished(conversation: Conversation, wishes: RunWishes, tools: Mapping[str, GraphTool]) -> Iterator[None]:
    """Open a block in which the turn has the limits, the model and the instructions that the client wishes.

    `tools`: the client's tools by their names for models.
    """
    before = (conversation.limits, conversation.model, conversation.caller, conversation.added_instructions)
    conversation.limits = _limits(conversation.limits, wishes)
    conversation.model = with_wishes(conversation.model, _with_names_for_models(wishes.reply, tools))
    texts = [wishes.instructions]
    if wishes.answer is not None:
        conversation.model = ModelWithFinalAnswer(conversation.model)
        texts.append(REMINDER)
    conversation.added_instructions = "\n\n".join(filter(None, texts))
    if wishes.is_bare:
        bare = structs.replace(conversation.caller.agent, instructions="")
        conversation.caller = structs.replace(conversation.caller, agent=bare)
    try:
        yield
    finally:
        conversation.limits, conversation.model, conversation.caller, conversation.added_instructions = before


def _limits(limits: TurnLimits, wishes: RunWishes) -> TurnLimits:
    most = _NO_ROUNDS if wishes.is_bare else wishes.most_rounds
    if most is None:
        return limits
    return structs.replace(limits, rounds=most if limits.rounds is None else min(limits.rounds, most))  # SPEC H1


def _with_names_for_models(wishes: ReplyWishes, tools: Mapping[str, GraphTool]) -> ReplyWishes:
    """Return the wishes with the model's name of the wished tool; without it if the client has no such tool."""
    if wishes.tool in ("", ANY_TOOL):
        return wishes
    return structs.replace(wishes, tool=next((name for name in tools if tools[name].own_name == wishes.tool), ""))
