"""Which tool a clause means: its words against each tool's name, description and parameters."""

import math
from collections.abc import Sequence
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from handspan.models.offline_clause import Clause, Term
from handspan.models.offline_tools import KnownTool, SlotKind
from handspan.models.offline_words import WEAK_STEMS, plain_name, stems

_IN_NAME: Final = 3.0
_LIKE_NAME: Final = 2.0
_IN_NAMESPACE: Final = 2.0
_IN_DESCRIPTION: Final = 1.5
_IN_PARAMETERS: Final = 0.75
_BY_INTENT: Final = 2.5
_WHOLE_NAME: Final = 2.0
_OWN: Final = 0.75
"""For a tool without a namespace: the house's own before those that do the same elsewhere."""
_FITTING_LITERAL: Final = 1.0
_STRANGE_LITERAL: Final = -0.5
_UNFILLED: Final = -1.0
_STRANGE_VERB: Final = -3.0
_STRANGE_WORD: Final = -0.4
_ENOUGH: Final = 3.75
_TIE: Final = 0.05
_NAMED: Final = 100.0

_TAKEN_BY: Final[dict[str, tuple[SlotKind, ...]]] = {
    "url": ("url",),
    "host": ("url", "path"),
    "path": ("path", "texts", "zone"),
    "number": ("number", "numbers"),
    "code": ("command", "text", "query"),
    "quoted": ("text", "query", "path", "texts", "command"),
}
"""Kind of literal → kinds of slots that it can fill."""
_NEEDS: Final[dict[SlotKind, tuple[str, ...]]] = {
    "url": ("url", "host"),
    "path": ("path", "quoted", "host"),
    "number": ("number",),
    "numbers": ("number",),
    "texts": ("quoted", "path"),
}
"""Kind of slot → kinds of literals without which it stays empty."""
_NAMING: Final = frozenset({"call", "use", "invoke", "tool", "using"})


@final
class Picked(Struct, frozen=True):
    """The tool that a clause means."""

    tool: KnownTool
    score: float
    is_meant: bool = False
    """The sentence is of the very form that the tool is for, or the tool was called by hand."""
    is_whole: bool = False
    """All words of its name were said."""
    strange: frozenset[str] = frozenset()
    """Words of the clause that the tool does not have."""
    is_doubtful: bool = False
    """It was found by a short word that may be no typo at all."""
    others: tuple[KnownTool, ...] = ()
    """Tools of other namespaces that fit as well: the person has to say which."""


@final
class _Evidence(Struct, frozen=True):
    """What of a clause is found in a tool."""

    score: float
    in_name: frozenset[str]
    is_intended: bool
    is_doubtful: bool
    strange: frozenset[str]


def pick(clause: Clause, tools: Sequence[KnownTool]) -> Picked | None:
    """The tool that is meant; None when none is, or when it is not clear enough for what the tool could do."""
    if clause.is_negated:
        return None
    named = _named(clause, tools)
    if named:
        strange = frozenset(term.stem for term in clause.terms) - stems(named[0].name) - {plain_name(named[0].name)}
        return _first_of(named, Picked(named[0], _NAMED, is_whole=True, strange=strange - WEAK_STEMS))
    rarity = _rarity(clause, tools)
    judged = [(found, tool) for tool in tools if (found := _judge(clause, tool, rarity)) and found.score >= _ENOUGH]
    if not judged:
        return None
    best = max(found.score for found, _ in judged) - _TIE
    found, chosen = next((found, tool) for found, tool in judged if found.score >= best)
    equals = [tool for other, tool in judged if other.score >= best and tool.own_name == chosen.own_name]
    is_whole = len(found.in_name) == len(chosen.core)
    is_meant = found.is_intended and not found.is_doubtful
    return _first_of(equals, Picked(chosen, found.score, is_meant, is_whole, found.strange, found.is_doubtful))


def _first_of(tools: list[KnownTool], picked: Picked) -> Picked:
    """Our own before those of a namespace; several of those are a question."""
    own = [tool for tool in tools if not tool.namespace]
    chosen = own[0] if own else tools[0]
    others = () if own else tuple(tool for tool in tools if tool is not chosen)
    return replace(picked, tool=chosen, others=others)


def _named(clause: Clause, tools: Sequence[KnownTool]) -> list[KnownTool]:
    """The tools that the clause calls by their name as it is written in a list of tools."""
    said = {plain_name(piece.text): place for place, piece in enumerate(clause.pieces) if piece.kind == "word"}
    full = [tool for tool in tools if plain_name(tool.name) in said and _is_a_name(tool.name, said, clause)]
    own = [
        tool
        for tool in tools
        if tool.namespace
        and plain_name(tool.own_name) in said
        and _is_a_name(tool.own_name, said, clause, at_start=False)
    ]
    return full or [tool for tool in own if tool.namespace & {term.stem for term in clause.terms}] or own


def _is_a_name(name: str, said: dict[str, int], clause: Clause, *, at_start: bool = True) -> bool:
    """A word that nobody uses but for a tool; or an ordinary one after "call", "use" …, or at the beginning."""
    place = said[plain_name(name)]
    if "_" in name.strip("_") or "-" in name:
        return True
    before = [word for word in clause.words[:place] if word not in ("the", "please", "tool", "and", "then", "my")]
    return before[-1] in _NAMING if before else at_start


def _rarity(clause: Clause, tools: Sequence[KnownTool]) -> dict[str, float]:
    """How much each word tells: a word that many tools have tells little."""
    wanted = {meaning for term in clause.terms for meaning in term.meanings}.union(clause.intent)
    counts = {word: sum(word in tool.alike or word in tool.described for tool in tools) for word in wanted}
    return {word: 1 / (1 + 0.25 * math.log(count)) if count else 1.0 for word, count in counts.items()}


def _judge(clause: Clause, tool: KnownTool, rarity: dict[str, float]) -> _Evidence | None:
    score, said, in_name, strange, is_doubtful = 0.0, 0, set[str](), set[str](), False
    for place, term in enumerate(clause.terms):
        worth, word = _worth(term, tool, rarity)
        if worth:
            score += worth
            said += worth >= _IN_DESCRIPTION / 2
        else:
            score += _cost(term, is_verb=place == 0 and clause.has_strong_verb)
            strange.add(term.stem)
        if word in tool.core:
            in_name.add(word)
            is_doubtful = is_doubtful or term.is_doubtful
    is_intended = _is_intended(clause, tool)
    if is_intended:
        if clause.has_strong_verb and clause.terms[0].stem in strange:
            score -= _STRANGE_VERB
        meant = [word for word in clause.intent if word in tool.core]
        score += _BY_INTENT * sum(rarity[word] for word in meant)
        in_name.update(meant)
    if not in_name and said < 2:
        return None
    score += 0.0 if tool.namespace else _OWN
    score += _WHOLE_NAME * len(in_name) / len(tool.core) + _fit(clause, tool)
    return _Evidence(score, frozenset(in_name), is_intended, is_doubtful, frozenset(strange) - WEAK_STEMS)


def _worth(term: Term, tool: KnownTool, rarity: dict[str, float]) -> tuple[float, str]:
    """The most that one meaning of the word is worth for this tool, and which one."""
    best, which = 0.0, ""
    for word in term.meanings:
        if word in tool.core:
            worth = _IN_NAME
        elif word in tool.alike:
            worth = _LIKE_NAME
        elif word in tool.described:
            worth = _IN_DESCRIPTION
        elif word in tool.namespace:
            worth = _IN_NAMESPACE
        elif word in tool.told:
            worth = _IN_PARAMETERS
        else:
            continue
        worth *= rarity[word] * (1.0 if word == term.stem else 0.9)
        if worth > best or (worth == best and word < which):
            best, which = worth, word
    return best, which


def _cost(term: Term, *, is_verb: bool) -> float:
    """What a word costs that the tool does not have."""
    if term.stem in WEAK_STEMS:
        return 0.0
    return _STRANGE_VERB if is_verb else _STRANGE_WORD


def _is_intended(clause: Clause, tool: KnownTool) -> bool:
    has = {*tool.named, *tool.described, *tool.told}
    return bool(clause.intent) and has.issuperset(clause.intent) and any(word in tool.core for word in clause.intent)


def _fit(clause: Clause, tool: KnownTool) -> float:
    """Whether the literals of the clause are of the kinds that the tool takes, and the other way round."""
    pieces, score = clause.pieces, 0.0
    kinds = {piece.kind for piece in pieces}
    for kind in kinds & _TAKEN_BY.keys():
        score += _FITTING_LITERAL if tool.sorts.intersection(_TAKEN_BY[kind]) else _STRANGE_LITERAL
    keys = {plain_name(piece.text) for piece in pieces if piece.kind == "pair"}
    score += sum(plain_name(slot.name) in keys for slot in tool.slots)
    if "json" in kinds or clause.has_pronoun:  # anything may be in there
        return score
    needed = [
        slot
        for slot in tool.required
        if slot.kind in _NEEDS and not slot.is_for_folders and plain_name(slot.name) not in keys
    ]
    return score + _UNFILLED * sum(not kinds.intersection(_NEEDS[slot.kind]) for slot in needed)
