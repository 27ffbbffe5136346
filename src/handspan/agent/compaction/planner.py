"""Decides what of a conversation has to become shorter: a pure function of sizes, marks and limits (SPEC L1).

Results first, which costs nothing; then older messages, for a summary; then results of the last turn that alone are too
much. A cut stands between two messages that are no call and its results. The last turn is never summarised, so the
person's message and calls that are open are always there.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from handspan.agent.compaction.sizes import MessageSizes
from handspan.core.messages import Message, ResultsMessage, UserMessage
from handspan.core.records import ContextMarks
from handspan.models.estimate import characters_of, count_words

_LEAST_ROOM: Final = 100
"""Tokens of a result that are worth to be shown."""
_OF_CUT: Final = 120
"""Tokens of what stands around a result that was cut."""


class PlanLimits(Struct, frozen=True):
    """How many tokens messages may have, beside instructions and tools."""

    most: int
    """With more than this the marks move."""
    target: int
    """So many are left then, if possible."""
    summary: int = 0
    """The tokens of a summary; 0: none is made."""
    request: int = 0
    """The tokens that a request for a summary can have."""


class Plan(Struct, frozen=True):
    """What to do."""

    marks: ContextMarks
    """The marks from now on, without a new summary."""
    summarize: int = 0
    """First a summary is needed of the messages up to this one, and then another plan; 0: none."""
    too_much: int = 0
    """How many tokens too many the messages have whatever is done; 0: they fit."""


def visible_size(sizes: MessageSizes, marks: ContextMarks, count: int) -> int:
    """Return about how many tokens the first `count` messages have with these marks."""
    size = sizes.whole[count] - sizes.whole[marks.short] + sizes.short[marks.short] - sizes.short[marks.summarized]
    if marks.summarized:
        size += count_words(marks.summary)
    if marks.room:
        for place in range(marks.short, min(marks.made, count)):
            whole, short = sizes.of(place)
            size -= max(0, whole - short - marks.room // characters_of(1) - _OF_CUT) if whole > short else 0
    return size


def plan(
    messages: Sequence[Message], sizes: MessageSizes, marks: ContextMarks, limits: PlanLimits, *, moves: bool = False
) -> Plan:
    """Return what to do before the next request. `moves`: the marks move already, so they go on to the target."""
    count = sizes.follow(messages)
    if visible_size(sizes, marks, count) <= (limits.target if moves else limits.most):
        return Plan(marks)
    turn = start_of_last_turn(messages)
    with_short = _shorten_up_to(turn, sizes, marks, limits.target, count=count)
    if visible_size(sizes, with_short, count) <= limits.target:
        return Plan(with_short)
    if limits.summary and turn > marks.summarized:
        return Plan(marks, summarize=_find_cut(messages, sizes, marks, limits, turn=turn))
    if visible_size(sizes, with_short, count) <= limits.most:
        return Plan(with_short)
    return _shorten_last_turn(messages, sizes, with_short, limits)


def start_of_last_turn(messages: Sequence[Message]) -> int:
    """Return how many messages come before the last turn, which has every message that is not answered yet."""
    place = len(messages) - 1
    while place > 0 and type(messages[place]) is not UserMessage:
        place -= 1
    while place > 0 and _is_of_same_turn(messages, place):
        place -= 1
    return max(place, 0)


def _is_of_same_turn(messages: Sequence[Message], place: int) -> bool:
    """Whether the message before this one belongs to the turn of the person's message that follows."""
    if type(messages[place - 1]) is UserMessage:
        return True
    message = messages[place]
    if type(message) is not UserMessage:
        return True
    earlier = (messages[before] for before in range(place - 1, -1, -1))
    asked = next((one for one in earlier if type(one) is UserMessage), None)
    return bool(message.turn) and asked is not None and asked.turn == message.turn


def _shorten_up_to(last: int, sizes: MessageSizes, marks: ContextMarks, target: int, *, count: int) -> ContextMarks:
    """Return marks with as few short results as reach the target, and none behind the message `last`."""
    first = max(marks.short, marks.summarized)
    if last <= first:
        return structs.replace(marks, short=first)
    whole, moved = structs.replace(marks, made=count, room=0), range(first, last + 1)
    place = bisect_left(moved, -target, key=lambda short: -visible_size(sizes, _with_short(whole, short), count))
    return _with_short(whole, moved[min(place, len(moved) - 1)])


def _with_short(marks: ContextMarks, short: int) -> ContextMarks:
    return structs.replace(marks, short=short)


def _find_cut(
    messages: Sequence[Message],
    sizes: MessageSizes,
    marks: ContextMarks,
    limits: PlanLimits,
    *,
    turn: int,
) -> int:
    """Return the last message that the next summary stands for: one before a person's, if possible."""
    count, first = len(messages), marks.summarized + 1
    rest = limits.summary + sizes.whole[count] - sizes.whole[turn] + sizes.short[turn]
    enough = bisect_left(sizes.short, rest - limits.target, lo=first, hi=turn)
    before = sizes.short[marks.summarized] - count_words(marks.summary) + limits.request
    readable = [cut for cut in range(first, turn + 1) if sizes.short[cut] <= before and not _parts_calls(messages, cut)]
    if not readable:  # a single round is more than a request can have: it is cut in the request
        return next(cut for cut in range(first, turn + 1) if not _parts_calls(messages, cut))
    at_turns = [cut for cut in readable if type(messages[cut]) is UserMessage]
    return next((cut for cut in at_turns if cut >= enough), (at_turns or readable)[-1])


def _parts_calls(messages: Sequence[Message], cut: int) -> bool:
    return type(messages[cut]) is ResultsMessage


def _shorten_last_turn(
    messages: Sequence[Message], sizes: MessageSizes, marks: ContextMarks, limits: PlanLimits
) -> Plan:
    """Return a plan that makes the last turn shorter: first all results but those that came last.

    A person's message that was refused for its length must not stand in the way of what the person says next, so it is
    shortened, too. The very last message of the person never is.
    """
    count = len(messages)
    last, asked = _last_place(messages, ResultsMessage), _last_place(messages, UserMessage)
    shorter = _shorten_up_to(max(last, marks.short), sizes, marks, limits.target, count=count)
    if visible_size(sizes, shorter, count) <= limits.most:
        return Plan(shorter)
    if asked > last and _gain(sizes, last + 1, asked):
        shorter = _shorten_up_to(asked, sizes, marks, limits.target, count=count)
        if visible_size(sizes, shorter, count) <= limits.most:
            return Plan(shorter)
    end = max(asked if asked == count - 1 else count, shorter.short)
    bare = visible_size(sizes, structs.replace(shorter, short=end), count)
    many = sum(whole > short for whole, short in map(sizes.of, range(shorter.short, end))) or 1
    room = (limits.most - bare) // many - _OF_CUT
    if room >= _LEAST_ROOM:
        return Plan(structs.replace(shorter, made=count, room=characters_of(room)))
    return Plan(structs.replace(shorter, short=end, made=count), too_much=max(0, bare - limits.most))


def _last_place(messages: Sequence[Message], kind: type[ResultsMessage] | type[UserMessage]) -> int:
    """Return the place of the last message of this kind, from 0; also 0 if there is none."""
    return next((place for place in range(len(messages) - 1, 0, -1) if type(messages[place]) is kind), 0)


def _gain(sizes: MessageSizes, first: int, end: int) -> int:
    """Return how many tokens fewer the messages from `first` to before `end` have when they are short."""
    return sizes.whole[end] - sizes.whole[first] - sizes.short[end] + sizes.short[first]
