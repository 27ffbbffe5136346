"""A request as steps: what can be done at once ("and"), and what waits for the step before ("then")."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, final

from msgspec import Struct

from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.models.offline_arguments import Before, Filled, fill
from handspan.models.offline_clause import Clause
from handspan.models.offline_picking import Picked, pick
from handspan.models.offline_text import Piece, pieces_of
from handspan.models.offline_tools import KnownTool, Slot
from handspan.models.offline_words import plain_name, stems

_AND: Final = frozenset({"and", "also", "plus", "und", "sowie", "auch"})
_THEN: Final = frozenset({"then", "afterwards", "dann", "danach", "anschließend"})
_AND_MARKS: Final = frozenset(",;&")
_THEN_MARKS: Final = frozenset(".!?\n")
_MOST_CLAUSES: Final = 12
_SURE: Final = 5.75
"""The score from which a tool that can do no harm is called even though words are left over."""
_LISTED: Final = frozenset({"quoted", "path", "number"})
_BY_HAND: Final = r"/([^\W\d][\w-]*)(?:\s+|$)"
_POLITE: Final = (
    r"(?i)^\W*(?:hi|hello|hey|hallo|moin|servus|good (?:morning|day|evening|afternoon)|guten (?:tag|morgen|abend)"
    r"|please|bitte|thanks|thank you|many thanks|danke|cheers|great|ok|okay|well|nice|cool|yes|bye|goodbye)"
    r"\b[\w' ]{0,20}\W*$"
)


@final
class Task(Struct, frozen=True):
    """One clause, and the tool that it means."""

    clause: Clause
    picked: Picked | None = None
    inherited: "Task | None" = None
    """The task before, whose tool this one means too: the second file of `read a.txt and b.txt`."""
    waits: bool = False
    """It has to come after the one before."""
    unknown: str = ""
    """Why there is no tool, where one was called by a name."""

    def filled(self, before: Before, places: Mapping[str, str]) -> Filled:
        """The arguments, now that this is known."""
        assert self.picked is not None
        own = fill(self.picked.tool, self.clause, before, places)
        if self.inherited is None:
            return own
        merged: JsonObject = {**self.inherited.filled(before, places).arguments, **own.arguments}
        return Filled(merged, (), tuple(self.picked.tool.problems(merged)))


Step = tuple[Task, ...]


@final
class Reader:
    """Reads requests for one set of tools."""

    def __init__(self, tools: Sequence[KnownTool], places: Mapping[str, str]) -> None:
        self.tools = tuple(tools)
        self.places = places
        self._known = frozenset(word for tool in tools for word in tool.words)

    def steps(self, text: str) -> tuple[Step, ...]:
        """The steps of this request, in order; a task without a tool is one that was not understood."""
        by_hand = self._by_hand(text.strip())
        if by_hand:
            return ((by_hand,),)
        steps: list[list[Task]] = []
        for task in self._tasks(text):
            if task.waits or not steps:
                steps.append([])
            steps[-1].append(task)
        return tuple(map(tuple, steps))

    def task(self, clause: Clause) -> Task:
        """The clause with its tool, if it means one clearly enough."""
        picked = pick(clause, self.tools)
        if picked is None and clause.is_negated:
            return Task(clause, unknown="All right, I leave that alone.")
        if picked is None or self._is_clear(picked, clause):
            return Task(clause, picked)
        return Task(clause, unknown=_doubt(picked.tool) if picked.score > _SURE else "")

    def clause(self, text: str, pieces: Sequence[Piece] | None = None, end: int | None = None) -> Clause:
        """This stretch of a text; all of it by default."""
        return Clause(
            text, pieces_of(text) if pieces is None else pieces, len(text) if end is None else end, self._known
        )

    def _by_hand(self, text: str) -> Task | None:
        """The call that `/name …` writes out."""
        found = re.match(_BY_HAND, text)
        if not found:
            return None
        clause = self.clause(text[found.end() :])
        wanted = plain_name(found[1])
        tools = [tool for tool in self.tools if plain_name(tool.name) == wanted]
        tools = tools or [tool for tool in self.tools if plain_name(tool.own_name) == wanted]
        if tools:
            return Task(clause, Picked(tools[0], 0.0, True, True, others=tuple(tools[1:])))
        hint = did_you_mean(found[1], (tool.name for tool in self.tools))
        return Task(clause, unknown=f"There is no tool {found[1][:64]!r}.{hint}")

    def _tasks(self, text: str) -> list[Task]:
        tasks: list[Task] = []
        current: Task | None = None
        begun: list[Piece] = []
        for joint, waits, pieces, end in _segments(text):
            if re.match(_POLITE, text[pieces[0].start : end]) and not self.task(self.clause(text, pieces, end)).picked:
                continue
            task = self._joined(current, self.task(self.clause(text, pieces, end)), waits=waits)
            if current is not None and task is None:  # it belongs to the clause before
                begun += [*joint, *pieces]
                current = _with_clause(self.task(self.clause(text, begun, end)), current)
                continue
            if current is not None:
                tasks.append(current)
            current, begun = task, list(pieces)
        return [*tasks, current] if current is not None else tasks

    def _joined(self, current: Task | None, coming: Task, *, waits: bool) -> Task | None:
        """The coming task as one of its own; None when its words go on with the current one."""
        if current is None:
            return coming
        if coming.picked is not None:
            depends = coming.clause.has_pronoun or _touch_the_same(current, coming)
            return Task(coming.clause, coming.picked, None, waits or depends)
        if current.picked is None:
            return None
        filled = current.filled(Before(), self.places)
        if not waits and filled.is_complete and self._is_another_of(current, coming.clause):
            return Task(coming.clause, current.picked, current)
        goes_on = filled.takes_rest or not (waits or (filled.is_complete and _is_foreign(current.picked.tool, coming)))
        return None if goes_on else Task(coming.clause, waits=waits, unknown=coming.unknown)

    def _is_another_of(self, current: Task, clause: Clause) -> bool:
        """Just another file, page or city for the same tool."""
        assert current.picked is not None
        tool = current.picked.tool
        if len(clause.words) > 4 or any(piece.kind in ("quoted", "code", "json") for piece in clause.pieces):
            return False
        own = fill(tool, clause, Before(), self.places).arguments
        shared = [slot for slot in tool.slots if slot.kind in ("path", "url", "zone") and slot.name in own]
        return any(_is_said(slot, str(own[slot.name]), _places(clause), self.places) for slot in shared)

    def _is_clear(self, picked: Picked, clause: Clause) -> bool:
        """Whether it may be called, or asked about, for these words. What can destroy needs more than a likeness."""
        tool = picked.tool
        if picked.is_meant:
            return clause.is_order or not tool.spec.annotations.destructive
        filled = fill(tool, clause, Before({slot.name: "it" for slot in tool.required}, "it"), self.places)
        used = stems(" ".join(str(value) for value in filled.arguments.values()))
        has_stray = not picked.strange <= used
        if not (tool.spec.annotations.destructive or picked.is_doubtful):
            return picked.score > _SURE or not (
                filled.missing or clause.is_statement or (has_stray and not clause.is_request)
            )
        if filled.missing or not clause.is_order:
            return False
        return (bool(tool.required) and not filled.is_guessed) or (picked.is_whole and not has_stray)


def _doubt(tool: KnownTool) -> str:
    return (
        f"That may mean {tool.name}, which can change things, so I do not guess. "
        f"Say it plainly, or call it by hand: /{tool.name}"
    )


def _with_clause(longer: Task, shorter: Task) -> Task:
    """The longer clause; with the tool of the shorter one when the longer means none."""
    if longer.picked is None and shorter.picked is not None:
        return Task(longer.clause, shorter.picked, shorter.inherited, shorter.waits)
    return Task(longer.clause, longer.picked, None, shorter.waits)


def _is_foreign(tool: KnownTool, coming: Task) -> bool:
    """Whether these words have nothing to do with that tool."""
    if not tool.sorts.isdisjoint(("texts", "numbers")) and any(p.kind in _LISTED for p in coming.clause.pieces):
        return False  # another item of a list
    has = tool.alike | set(tool.named) | tool.described | tool.told
    return bool(coming.clause.terms) and all(has.isdisjoint(term.meanings) for term in coming.clause.terms)


def _touch_the_same(one: Task, other: Task) -> bool:
    """Both name the same file or page, and one of them may change it: then their order counts."""
    picked = [task.picked for task in (one, other) if task.picked is not None]
    if all(task.tool.spec.annotations.read_only for task in picked):
        return False
    return bool(_places(one.clause) & _places(other.clause))


def _places(clause: Clause) -> set[str]:
    return {piece.text for piece in clause.pieces if piece.kind in ("path", "host", "url")}


def _is_said(slot: Slot, value: str, literal: set[str], places: Mapping[str, str]) -> bool:
    if slot.kind == "zone":
        return value in places.values()
    return value.removeprefix("https://") in literal or value in literal


def _segments(text: str) -> list[tuple[list[Piece], bool, list[Piece], int]]:
    """The text between the joints: the joint before, whether it means "then", the pieces, and where they end."""
    found: list[tuple[list[Piece], bool, list[Piece], int]] = []
    joint, waits, pieces = list[Piece](), False, list[Piece]()
    for piece in pieces_of(text):
        is_then = _is(piece, _THEN, _THEN_MARKS)
        if not (is_then or _is(piece, _AND, _AND_MARKS)) or len(found) >= _MOST_CLAUSES:
            pieces.append(piece)
            continue
        if pieces:
            found.append((joint, waits, pieces, piece.start))
            joint, waits, pieces = [], False, []
        joint.append(piece)
        waits = waits or is_then
    if pieces:
        found.append((joint, waits, pieces, len(text)))
    return found


def _is(piece: Piece, words: frozenset[str], marks: frozenset[str]) -> bool:
    if piece.kind == "mark":
        return piece.text in marks
    return piece.kind == "word" and piece.text.lower() in words
