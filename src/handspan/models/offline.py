"""The embedded default model: rules instead of a network, so that a new user sees every kind of tool work (SPEC M5).

It picks a tool by the words of the request, fills the arguments from the text, runs what "and" joins in parallel and
what "then" joins one after another, and tells the results in plain words. What it does depends on nothing but the
conversation and the tools it is given; it says once in a conversation that it is a stand-in.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, final

import msgspec
from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.calls import new_call_id
from handspan.core.messages import AssistantMessage, CallPart, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.kept_messages import KeptMessages, played
from handspan.models.model import ModelEvent, Projection
from handspan.models.offline_answers import answer_of, code_of, plain_text
from handspan.models.offline_arguments import Before
from handspan.models.offline_places import known_places
from handspan.models.offline_remarks import ASKING, about_a_tool, nothing_fits, remark_on, small_talk
from handspan.models.offline_steps import Reader, Step
from handspan.models.offline_tools import KnownTool

STAND_IN: Final = "I am the offline stand-in: rules that match words to tools, not a language model."
"""Said once in a conversation."""
HOW_TO_SET_A_MODEL: Final = (
    "For a real model set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or run Ollama, and start again; "
    "`handspan doctor` says which model is used and why."
)
_MOST_KNOWN: Final = 4096
_ABORTED: Final = frozenset(("cancelled", "interrupted"))
"""The codes of calls that end with their turn (SPEC A4)."""


@final
class Offline:
    """A deterministic model that needs no key and no network."""

    name: Final = "offline"

    def __init__(self, how_to_set_a_model: str = HOW_TO_SET_A_MODEL) -> None:
        self._note = f"{STAND_IN} {how_to_set_a_model}"
        self._known: dict[int, KnownTool] = {}
        self._places: Mapping[str, str] = {}

    def projection(self, instructions: str = "") -> KeptMessages:
        """An empty conversation. Rules have no use for instructions."""
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: Artifacts | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Calls while there are steps left, then an answer in words."""
        assert isinstance(projection, KeptMessages), "a projection belongs to the model that made it"
        tools = [self._tool(spec) for spec in specs]
        if not self._places and any("zone" in tool.sorts for tool in tools):
            self._places = await asyncio.to_thread(known_places)
        message = _answer(projection.messages, Reader(tools, self._places), self._note)
        for event in played(message):
            yield event

    def _tool(self, spec: ToolSpec) -> KnownTool:
        """The tool's words, made once for each spec. The entry holds the spec, so its id stays its own."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        known = self._known.get(id(spec))
        if known is None:
            known = self._known[id(spec)] = KnownTool(spec)
        return known


@final
class _Round(Struct, frozen=True):
    """Calls, and what came of them."""

    asked: AssistantMessage
    answered: ResultsMessage

    @property
    def has_failed(self) -> bool:
        return any(result.is_error for result in self.answered.results)

    @property
    def was_aborted(self) -> bool:
        """Whether the turn was ended here, so that a call was stopped or never begun."""
        return any(code_of(result) in _ABORTED for result in self.answered.results)

    @property
    def told(self) -> str:
        return answer_of(self.asked.calls, self.answered.results)

    @property
    def meant_by_it(self) -> Before:
        """What "it" is after this round."""
        texts = [plain_text(result) for result in self.answered.results if not result.is_error]
        try:
            arguments: JsonObject = msgspec.json.decode(self.asked.calls[-1].arguments or "{}", type=JsonObject)
        except ValueError:
            arguments = {}
        return Before(arguments, "\n".join(texts))


@final
class _Turn(Struct, frozen=True):
    """What the newest user message asks, and what was done about it so far."""

    text: str
    has_media: bool
    rounds: tuple[_Round, ...]
    earlier: tuple[_Round, ...]
    """Rounds of the same turn before that message: results that nobody has told yet. What was aborted is no part."""
    before: Before
    asked_with: str = ""
    """The user message before, when the last answer asked for more."""


def _answer(messages: Sequence[Message], reader: Reader, note: str) -> AssistantMessage:
    turn = _turn(messages)
    calls, told = _next(turn, reader)
    if calls:
        return AssistantMessage(calls, "calls", Offline.name)
    is_noted = any(type(message) is AssistantMessage and STAND_IN in message.text for message in messages)
    text = told if is_noted else f"{told}\n\n{note}"
    return AssistantMessage((Text(text),), "end", Offline.name)


def _next(turn: _Turn, reader: Reader) -> tuple[tuple[CallPart, ...], str]:
    """The calls of the next step; without any, the words of the answer."""
    if not turn.rounds and not turn.earlier:
        talk = small_talk(turn.text, reader.tools, has_media=turn.has_media) or about_a_tool(turn.text, reader.tools)
        if talk:
            return (), talk
    steps = _steps(turn, reader) if reader.tools or not turn.rounds else ()
    if not turn.rounds and not _means_a_tool(steps):
        unknown = [task.unknown for step in steps for task in step]
        return (), _told(turn, ["\n".join(filter(None, unknown)) or nothing_fits(turn.text, reader.tools)])
    remarks: list[str] = []
    for place, step in enumerate(steps):
        calls, remarked = _plan(step, _before(turn, place), reader)
        remarks += remarked
        is_done = place < len(turn.rounds)
        if not is_done and calls:
            return calls, ""
        if not is_done or turn.rounds[place].has_failed:
            return (), _told(turn, [*remarks, *_left(steps[place + 1 :])])
    return (), _told(turn, remarks)


def _steps(turn: _Turn, reader: Reader) -> tuple[Step, ...]:
    """The steps of the request; an answer to our own question is read together with what it was about."""
    steps = reader.steps(turn.text)
    if turn.asked_with and not _means_a_tool(steps):
        together = reader.steps(f"{turn.asked_with.rstrip('?!. ')} {turn.text}")
        return together if _means_a_tool(together) else steps
    return steps


def _means_a_tool(steps: Sequence[Step]) -> bool:
    return any(task.picked for step in steps for task in step)


def _plan(step: Step, before: Before, reader: Reader) -> tuple[tuple[CallPart, ...], list[str]]:
    calls: list[CallPart] = []
    remarks: list[str] = []
    for task in step:
        filled = task.filled(before, reader.places) if task.picked else None
        remark = remark_on(task, filled)
        if remark or task.picked is None or filled is None:
            remarks.append(remark)
        else:
            arguments = msgspec.json.encode(filled.arguments).decode()
            calls.append(CallPart(new_call_id(), task.picked.tool.name, arguments))
    return tuple(calls), remarks


def _before(turn: _Turn, place: int) -> Before:
    """What "it" is for the step at this place."""
    rounds = turn.rounds[:place]
    return rounds[-1].meant_by_it if rounds else turn.before


def _told(turn: _Turn, remarks: Sequence[str]) -> str:
    """The results, and what there is to say beside them."""
    told = [done.told for done in (*turn.earlier, *turn.rounds)]
    return "\n\n".join(filter(None, [*told, *remarks]))


def _left(steps: Sequence[Step]) -> list[str]:
    left = [task.clause.source for step in steps for task in step]
    return [f"So I did not go on with: {', then '.join(map(repr, left))}."] if left else []


def _turn(messages: Sequence[Message]) -> _Turn:
    """The newest user message and what the conversation holds about it; looks back no farther than needed."""
    newest = _last(messages, len(messages), lambda message: type(message) is UserMessage)
    if newest < 0:
        return _Turn("", False, (), (), Before())
    final = _last(messages, newest, _is_final)
    answered = _last(messages, newest, lambda message: type(message) is ResultsMessage)
    earlier = _rounds(messages[max(answered - 1, 0) : answered + 1])
    last = messages[newest - 1] if newest else None
    has_asked = type(last) is AssistantMessage and ASKING in last.text
    asked_with = _last(messages, newest, lambda message: type(message) is UserMessage) if has_asked else -1
    return _Turn(
        _text(messages[newest]),
        _has_media(messages[newest]),
        tuple(_rounds(messages[newest:])),
        _since_an_abort(_rounds(messages[final + 1 : newest])),
        earlier[0].meant_by_it if earlier else Before(),
        _text(messages[asked_with]) if asked_with >= 0 else "",
    )


def _last(messages: Sequence[Message], end: int, fits: Callable[[Message], bool]) -> int:
    """The place of the last such message before `end`; -1 when there is none."""
    return next((place for place in range(end - 1, -1, -1) if fits(messages[place])), -1)


def _is_final(message: Message) -> bool:
    return type(message) is AssistantMessage and not message.calls


def _rounds(messages: Sequence[Message]) -> list[_Round]:
    return [
        _Round(asked, answered)
        for asked, answered in pairwise(messages)
        if type(asked) is AssistantMessage and type(answered) is ResultsMessage
    ]


def _since_an_abort(rounds: Sequence[_Round]) -> tuple[_Round, ...]:
    """The rounds after the last one that a person stopped: nobody waits for what came of those."""
    stopped = [place for place, done in enumerate(rounds) if done.was_aborted]
    return tuple(rounds[stopped[-1] + 1 if stopped else 0 :])


def _text(message: Message) -> str:
    """What the person wrote. Half a surrogate pair, which JSON can't hold, becomes a replacement character."""
    parts = message.parts if type(message) is UserMessage else ()
    text = "\n".join(part.text for part in parts if type(part) is Text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _has_media(message: Message) -> bool:
    return type(message) is UserMessage and any(type(part) is Media for part in message.parts)
