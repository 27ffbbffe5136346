"""The offline model: reads the conversation, plans the next step, and reports the results in plain words (SPEC M5)."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.names import did_you_mean, split_name
from handspan.core.schema import join_problems
from handspan.core.tool import SEARCH_TOOLS, ToolSpec
from handspan.core.values import Json
from handspan.models.json_values import json_object
from handspan.models.kept_messages import KeptMessages, message_events
from handspan.models.model import ModelEvent, Projection
from handspan.models.offline.arguments import FilledCall, LastCall, decode_json, known_zones, read_slots
from handspan.models.offline.match import (
    Clause,
    KnownTool,
    TextPiece,
    find_absent,
    find_named,
    plain_name,
    split_pieces,
)

STAND_IN: Final = "I am the offline stand-in: rules that match words to tools, not a language model."
HOW_TO_SET_A_MODEL: Final = (
    "For a real model choose one on the page of `handspan serve` under Models; or set OPENAI_API_KEY, "
    "ANTHROPIC_API_KEY or GEMINI_API_KEY, or run Ollama, and start again; `handspan doctor` says which model is used "
    "and why."
)
_ASKING: Final = "I still need to know"  # in every question: the next message is read as an answer
_STOPPED: Final = r'"code":\s*"(?:cancelled|interrupted)"'  # in results that are not reported later
_MAX_CLAUSES: Final = 12
_MAX_CANDIDATES: Final = 8
_MAX_ITEMS: Final = 50
_MAX_ANSWER: Final = 4000
_ENOUGH: Final = 2.0  # the score from which a tool is meant
_EXAMPLES: Final = {
    "What time is it in Tokyo?": {"get_current_time"},
    "list the files here": {"list_directory"},
    "write 'hi' to notes.txt then read notes.txt": {"write_file", "read_file"},
}
"""What a person may say, and the tools that it needs."""
_FILES: Final = ", and I do not read the files that came with it"
_ONLY_READ: Final = (
    " I get no tool that changes things here: the agent's mode or its list of tools may hide some "
    "(`handspan tools why TOOL`)."
)
_BY_HAND: Final = "Any tool can be called by hand: /name {json} or /name key=value."
_LINE: Final = 90
"""Characters of a description that fit on a line."""
_DIRECT: Final = r"\s*/([^\W\d][\w-]*)(?:\s+|$)"
_MAX_QUERY: Final = 400
_Round: TypeAlias = tuple[AssistantMessage, ResultsMessage]
_SMALL_TALK: Final = r"(?i)\W*(?:hi|hello|good (?:morning|day)|/?help|what can you do|who are you|thanks|ok|bye)?\W*"


class Offline:
    """A deterministic model that needs no key and no network."""

    name: Final = "offline"

    def __init__(self, how_to_set_a_model: str = HOW_TO_SET_A_MODEL) -> None:
        self._note = f"{STAND_IN} {how_to_set_a_model}"

    def projection(self, instructions: str = "") -> KeptMessages:
        """Return an empty conversation. Rules have no use for instructions."""
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Yield calls while there are steps left, then an answer in words."""
        assert isinstance(projection, KeptMessages), "a projection belongs to the model that made it"
        request, tools = _Request(projection.messages), [KnownTool(spec) for spec in specs]
        if not request.is_small_talk and any("zone" in str(spec.parameters.get("properties")) for spec in specs):
            await asyncio.to_thread(known_zones)
        calls, text = _decide(request, tools)
        is_noted = any(type(one) is AssistantMessage and STAND_IN in one.text for one in projection.messages)
        text = text if is_noted else f"{text}\n\n{self._note}"
        answer = AssistantMessage(calls or (Text(text),), "calls" if calls else "end", self.name)
        for event in message_events(answer):
            yield event


def _read_call(last: _Round | None) -> LastCall:
    """Return what "it" means after this round of calls and results."""
    arguments = decode_json(last[0].calls[-1].arguments) if last else {}
    texts = [_render_value(decode_json(one.envelope)) for one in last[1].results if not one.is_error] if last else []
    return LastCall(json_object(arguments), "\n".join(texts))


class _Request:
    """The newest message of the person, and what was done about it so far."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.text, is_asking = "", False
        self.earlier = ""  # the message before, when the last answer was a question
        self.rounds = list[_Round]()
        self.unreported = list[_Round]()  # rounds of the same turn before the newest message
        self.last: _Round | None = None
        self.has_files = self.has_searched = False  # files of the person; a search for tools that were not sent
        for message, following in pairwise([*messages, None]):
            if type(message) is UserMessage:
                for done in self.rounds:
                    is_stopped = any(re.search(_STOPPED, result.envelope) for result in done[1].results)
                    self.unreported = [] if is_stopped else [*self.unreported, done]
                self.earlier, self.rounds, is_asking = self.text if is_asking else "", [], False
                text = "\n".join(part.text for part in message.parts if type(part) is Text)
                self.text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON has no surrogates
                self.has_files = any(type(part) is Media for part in message.parts)
                self.has_searched = False
            elif type(message) is AssistantMessage and type(following) is ResultsMessage and self._searches(message):
                self.has_searched = True
            elif type(message) is AssistantMessage and type(following) is ResultsMessage:
                self.last = message, following
                self.rounds = [*self.rounds, self.last]
            elif type(message) is AssistantMessage:
                self.rounds, self.unreported, is_asking = [], [], _ASKING in message.text
        self.is_small_talk = re.fullmatch(_SMALL_TALK, self.text[:80]) is not None

    @property
    def names_search(self) -> bool:
        """Whether the person names `search_tools`: then it is called like any other tool."""
        return SEARCH_TOOLS in self.text

    def _searches(self, message: AssistantMessage) -> bool:
        return not self.names_search and all(call.name == SEARCH_TOOLS for call in message.calls)


def _decide(request: _Request, tools: Sequence[KnownTool]) -> tuple[tuple[CallPart, ...], str]:
    """Return the calls of the next step; without any, the answer in words."""
    rounds, told = request.rounds, [_render_round(done) for done in (*request.unreported, *request.rounds)]
    if not told and request.is_small_talk:
        return (), _list_abilities(tools)
    if not request.names_search:
        if searches := _search(request, tools):
            return searches, ""
        tools = [tool for tool in tools if tool.name != SEARCH_TOOLS]
    steps = _plan(request.text, tools) if tools else []
    if request.earlier and not any(task.tool for step in steps for task in step):
        steps = _plan(f"{request.earlier.rstrip('?!. ')} {request.text}", tools)
    if not rounds and not any(task.tool or task.remark for step in steps for task in step):
        found_none = f"I found no tool that does {request.text[:80]!r}{_FILES if request.has_files else ''}."
        return (), "\n\n".join([*told, f"{found_none}{_explain_hidden(tools)} {_list_abilities(tools)}"])
    for place, step in enumerate(steps):
        calls, remarks = _make_calls(step, _read_call(request.last))
        if place >= len(rounds) and calls:
            return calls, ""
        told += remarks
        if place >= len(rounds) or any(result.is_error for result in rounds[place][1].results):
            left = ", then ".join(repr(task.clause.source) for later in steps[place + 1 :] for task in later)
            told += [f"So I did not go on with: {left}."] if left else []
            break
    return (), "\n\n".join(told)


def _search(request: _Request, tools: Sequence[KnownTool]) -> tuple[CallPart, ...]:
    """Return a search for each part of the request, if there are tools that were not sent."""
    if request.has_searched or request.rounds or all(tool.name != SEARCH_TOOLS for tool in tools):
        return ()
    if direct := re.match(_DIRECT, request.text):
        queries = [] if any(plain_name(tool.name) == plain_name(direct[1]) for tool in tools) else [direct[1]]
    else:
        queries = [clause.source for _, clause in _split_clauses(request.text)]
    texts = [msgspec.json.encode({"query": query[:_MAX_QUERY]}).decode() for query in queries if query.strip()]
    return tuple(CallPart(new_call_id(), SEARCH_TOOLS, text) for text in texts)


class _Task(Struct, frozen=True):
    """One part of the request and the tool that it means; without a tool, `remark` says why."""

    clause: Clause
    tool: KnownTool | None = None
    remark: str = ""


def _make_calls(step: Sequence[_Task], last: LastCall) -> tuple[tuple[CallPart, ...], list[str]]:
    """Return the calls of a step, and a sentence for each task that becomes no call."""
    calls, remarks = list[CallPart](), list[str]()
    for task in step:
        filled = FilledCall(task.tool, task.clause, last) if task.tool else None
        if task.tool is None or filled is None:
            remarks.append(task.remark or f"I found no tool that does {task.clause.source[:80]!r}.")
        elif filled.missing or filled.problems:
            remarks.append(_ask(task.tool, filled))
        else:
            calls.append(CallPart(new_call_id(), task.tool.name, msgspec.json.encode(filled.arguments).decode()))
    return tuple(calls), remarks


def _plan(text: str, tools: Sequence[KnownTool]) -> list[list[_Task]]:
    """Return the steps of the request. "and" joins what runs at once; "then" begins a new step."""
    if direct := re.match(_DIRECT, text):
        return [[_read_direct_call(direct[1], text[direct.end() :], tools)]]
    steps = list[list[_Task]]()
    for waits, clause in _split_clauses(text):
        task, last = _find_task(clause, tools), steps[-1][-1] if steps else None
        if task.tool is None and not last and re.fullmatch(_SMALL_TALK, clause.source[:80]):
            continue
        if last and task.tool is None and not task.remark and _goes_on(last, waits=waits):
            longer = _find_task(Clause(text, (*last.clause.pieces, *clause.pieces)), tools)
            steps[-1][-1] = longer if longer.tool else _Task(longer.clause, last.tool, last.remark)
            continue
        if not steps or waits or _depends(task, steps[-1]):
            steps.append([])
        steps[-1].append(task)
    return steps


def _split_clauses(text: str) -> Iterator[tuple[bool, Clause]]:
    """Yield each part between "and", "then" and marks, and whether it waits for the part before."""
    part, count, waits = list[TextPiece](), 0, False
    for piece in split_pieces(text):
        word = piece.text.lower() if piece.kind in ("word", "mark") else ""
        if word not in ("and", "then", "also", ",", ";", ".", "!", "?", "\n") or count >= _MAX_CLAUSES:
            part.append(piece)
            continue
        if part:
            yield waits, Clause(text, part)
            part, count, waits = [], count + 1, False
        waits = waits or word in ("then", ".", "!", "?", "\n")
    if part:
        yield waits, Clause(text, part)


def _read_direct_call(name: str, rest: str, tools: Sequence[KnownTool]) -> _Task:
    """Return the call that `/name {json}` or `/name key=value` writes out."""
    given, wanted = decode_json(rest), plain_name(name)
    clause = Clause("", (), given) if isinstance(given, dict) else Clause(rest, split_pieces(rest))
    named = [tool for tool in tools if tool.name == name]
    named = named or [tool for tool in tools if plain_name(tool.name) == wanted]
    named = named or [tool for tool in tools if plain_name(tool.own_name) == wanted]
    return _check_direct(_choose(clause, named)) if named else _Task(clause, None, _no_tool(name, tools))


def _no_tool(name: str, tools: Sequence[KnownTool]) -> str:
    hint = did_you_mean(name, (tool.name for tool in tools)) or " Say 'help' to see some that there are."
    away = " now: its server or device may be away" if split_name(name)[0] else ""
    return f"There is no tool {name[:64]!r}{away}.{hint}{_explain_hidden(tools)}"


def _explain_hidden(tools: Sequence[KnownTool]) -> str:
    """Return why tools that a person looks for may be missing, when none of these changes anything here."""
    known = [tool.spec.annotations for tool in tools]
    return _ONLY_READ if known and all(one.read_only or one.open_world for one in known) else ""


def _check_direct(task: _Task) -> _Task:
    """Return the task, or the reason why its call can't be read whole: nothing that the person wrote is left out."""
    if task.tool is None or task.clause.given:
        return task
    if task.clause.source.startswith("{"):
        return _Task(task.clause, None, f"I can't call {task.tool.name} like that: no JSON. {_by_hand(task.tool)}")
    filled = FilledCall(task.tool, task.clause)
    is_written = any(piece.kind == "pair" for piece in task.clause.pieces)
    left = filled.left if is_written else filled.unused
    if filled.missing or filled.problems or not left:
        return task
    unread = ", ".join(repr(text[:80]) for text in left[:8])
    return _Task(
        task.clause, None, f"I can't call {task.tool.name} like that: I can't read {unread}. {_by_hand(task.tool)}"
    )


def _choose(clause: Clause, tools: Sequence[KnownTool]) -> _Task:
    """Return the task with its tool; where several devices have the tool, the person has to choose."""
    own = [tool for tool in tools if not tool.namespace]
    if own or len(tools) == 1:
        return _Task(clause, (own or tools)[0])
    return _Task(clause, None, f"{_ASKING} which one you mean: {' or '.join(tool.name for tool in tools[:8])}?")


def _find_task(clause: Clause, tools: Sequence[KnownTool]) -> _Task:
    """Return the clause with its tool. An exact name wins; else the words and the arguments decide."""
    if clause.is_negated:
        return _Task(clause, None, "All right, I leave that alone.")
    if absent := find_absent(clause, tools):
        return _Task(clause, None, _no_tool(absent, tools))
    named = find_named(clause, tools)
    likely = named or sorted(tools, key=lambda tool: -tool.score(clause.counted))[:_MAX_CANDIDATES]
    filled = [(tool, FilledCall(tool, clause)) for tool in likely]
    rated = [(tool.score(clause.counted) - call.lack, tool, call) for tool, call in filled]
    ranked = sorted((rate for rate in rated if named or rate[0] >= _ENOUGH), key=lambda rate: -rate[0])
    clear = [(points, tool) for points, tool, call in ranked if _is_clear(clause, tool, call)]
    if clear:
        best, first = clear[0]
        return _choose(clause, [tool for points, tool in clear if points == best and tool.own_name == first.own_name])
    if not ranked or (not named and ranked[0][0] < 2 * _ENOUGH):
        return _Task(clause)
    tool = ranked[0][1]
    return _Task(clause, None, f"That may mean {tool.name}, so I do not guess: it can change things. {_by_hand(tool)}")


def _is_clear(clause: Clause, tool: KnownTool, filled: FilledCall) -> bool:
    """Whether the tool may be called for this. One that can change things needs an order without an unused word."""
    if tool.is_harmless:
        known = sum(map(tool.knows, clause.counted)) + clause.is_question
        return known > len(filled.unused) and not clause.is_statement
    is_whole_name = tool.name_words - {"file"} <= tool.find_in_name(clause.counted)
    is_sure = not filled.unused and (is_whole_name or not filled.takes_words)
    return clause.is_order and (is_sure or bool(filled.missing))


def _goes_on(last: _Task, *, waits: bool) -> bool:
    """Whether words without a tool belong to the task before: it takes free text, or lacks something."""
    if last.tool is None:
        return not last.remark
    filled = FilledCall(last.tool, last.clause, LastCall())
    has_list = any(slot.kind == "json" and slot.is_required for slot in read_slots(last.tool))
    return filled.takes_words or (not waits and (has_list or bool(filled.missing)))


def _depends(task: _Task, step: Sequence[_Task]) -> bool:
    """Whether the task has to wait: it says "it", or names a file that another task of the step may change."""
    files = {piece.text for piece in task.clause.pieces if piece.kind in ("path", "url")}
    shared = [other for other in step if files.intersection(piece.text for piece in other.clause.pieces)]
    both = [tool for one in (task, *shared) if (tool := one.tool)]
    return bool(task.tool) and (task.clause.has_pronoun or bool(shared and not all(tool.is_harmless for tool in both)))


def _first_words(description: str) -> str:
    """Return the first sentence of a description; of a long one as many whole words as fit on a line."""
    sentence = description.partition(". ")[0].rstrip(".")
    return f"{sentence}." if len(sentence) <= _LINE else f"{sentence[:_LINE].rpartition(' ')[0]} …"


def _list_abilities(tools: Sequence[KnownTool]) -> str:
    if not tools:
        return "There is no tool at hand, so I can do nothing."
    names = {tool.name for tool in tools}
    examples = [f"- {said}" for said, needed in _EXAMPLES.items() if needed <= names]
    lines = [f"- /{tool.name}: {_first_words(tool.spec.description)}" for tool in tools[:8]]
    head = f"I have {len(tools)} tool{'s' if len(tools) != 1 else ''}; try for example:"
    return "\n".join([head, *examples, *lines, "", _BY_HAND])  # the empty line ends the list of Markdown


def _ask(tool: KnownTool, filled: FilledCall) -> str:
    """Return the question for the missing arguments, or what is wrong with those that were given."""
    wanted = "; ".join(f"{slot.name} ({slot.description})".replace(" ()", "") for slot in filled.missing)
    wrong = f"I can't call {tool.name} like that: {join_problems(filled.problems)}"
    return f"{wrong if filled.problems else f'For {tool.name} {_ASKING}: {wanted}.'} {_by_hand(tool)}"


def _by_hand(tool: KnownTool) -> str:
    """Return how a person writes a call of this tool."""
    slots = read_slots(tool)
    named = [slot for slot in slots if slot.is_required] or slots[:1]
    values = {slot.name: next(iter(slot.choices), "…") for slot in named}
    return f"By hand: /{tool.name} {msgspec.json.encode(values).decode()}"


def _render_round(done: _Round) -> str:
    """Return all results of a round, each with its tool's name where there are several or where it failed."""
    lines, results = list[str](), done[1].results
    for result in results:
        text = _render_value(decode_json(result.envelope))
        more = f"\n… ({len(text) - _MAX_ANSWER} more characters)" if len(text) > _MAX_ANSWER else ""
        label = f"{result.name}{' failed' if result.is_error else ''}: "
        lines.append(f"{label if result.is_error or len(results) > 1 else ''}{text[:_MAX_ANSWER]}{more}")
        lines += [f"With it came: {item.kind} ({item.media_type})." for item in result.attachments]
    return "\n".join(lines)


def _render_value(value: Json) -> str:
    """Return a result in readable words. The cases with field names are the results of the built-in tools."""
    match value:
        case {"status": "success", "result": inner} | {"status": "error", "message": inner}:
            return _render_value(inner)
        case None | "":
            return "Done." if value is None else "(empty)"
        case str():
            moment = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)[\d.]*(Z|[+-]\d\d:\d\d)", value)
            return f"{moment[2]} on {moment[1]} (UTC{moment[3]})" if moment else value
        case {"entries": list() as found} | {"results": list() as found} | {"matches": list() as found}:
            return _render_value(found)
        case {"exit_code": 0, "stdout": str(text)} | {"markdown": str(text)} | {"content": str(text)} if text:
            return text
        case {"message": str(text)} | {"head": str(text)}:
            return text
        case dict():
            return "\n".join(f"{name}: {_render_item(item)}" for name, item in list(value.items())[:_MAX_ITEMS])
        case list():
            more = [f"- … and {len(value) - _MAX_ITEMS} more"] if len(value) > _MAX_ITEMS else []
            return "\n".join([*(f"- {_render_item(one)}" for one in value[:_MAX_ITEMS]), *more]) or "Nothing was found."
    return _render_item(value)


def _render_item(value: Json) -> str:
    label = value.get("name") if isinstance(value, dict) and "is_dir" in value else value
    return label if isinstance(label, str) else msgspec.json.encode(value).decode()
