"""SPEC W2, E2: ids of calls are in UUID form, unique, and not to be guessed."""

import os
import subprocess
import sys
import uuid
from threading import Thread

import msgspec
import pytest

from handspan.core.calls import ToolFacts, decode_facts, new_call_id
from handspan.core.principals import Origin, OriginKind
from handspan.core.tool import AnsweredBy


def test_ten_thousand_ids_are_all_different() -> None:
    assert len({new_call_id() for _ in range(10_000)}) == 10_000


def test_an_id_is_a_random_uuid_in_its_usual_form() -> None:
    for _ in range(600):  # more than one draw of random bytes
        drawn = new_call_id()
        parsed = uuid.UUID(drawn)
        assert (str(parsed), parsed.version, parsed.variant) == (drawn, 4, uuid.RFC_4122)


def test_every_free_digit_of_an_id_takes_many_values() -> None:
    drawn = [new_call_id() for _ in range(50_000)]
    fixed = {8, 13, 14, 18, 19, 23}  # hyphens, version, variant
    assert all(len({one[place] for one in drawn}) == 16 for place in range(36) if place not in fixed)


def test_ids_that_follow_each_other_share_nothing_that_would_tell_one_from_the_other() -> None:
    drawn = [new_call_id() for _ in range(500)]
    for part in (slice(0, 8), slice(9, 13), slice(15, 18), slice(20, 23), slice(24, 36)):  # 120 of the 122 random bits
        digits = [one[part] for one in drawn]
        assert all(len({one[place] for one in digits}) == 16 for place in range(len(digits[0])))
        assert len(set(digits)) > 400
    assert {one[19] for one in drawn} == set("89ab")  # the other two
    assert len({one[:18] for one in drawn}) == len({one[19:] for one in drawn}) == 500


def test_many_threads_draw_ids_without_a_double() -> None:
    drawn: list[str] = []
    threads = [Thread(target=lambda: drawn.extend([new_call_id() for _ in range(5_000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(drawn)) == len(drawn) == 20_000


@pytest.mark.outside
def test_a_forked_child_does_not_use_the_parents_ids() -> None:
    new_call_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_call_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert theirs and theirs not in {new_call_id() for _ in range(300)}


@pytest.mark.outside
def test_another_process_draws_other_ids() -> None:
    script = "from handspan.core.calls import new_call_id\nfor _ in range(300): print(new_call_id())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    theirs = set(done.stdout.split())
    assert len(theirs) == 300
    assert not theirs & {new_call_id() for _ in range(300)}


# What a record says of its tool.


@pytest.mark.parametrize(
    ("kind", "answered_by"),
    [
        ("builtin", "tool"),
        ("plugin", "tool"),
        ("mcp", "tool"),
        ("remote", "connection"),
        ("device", "connection"),
        ("browser", "request"),
    ],
)
def test_a_record_of_an_earlier_version_tells_by_its_origin_what_answers_it(
    kind: OriginKind, answered_by: AnsweredBy
) -> None:
    stored = f'{{"origin":{{"kind":"{kind}","name":"x","connection":"c"}},"version":"1","read_only":true}}'
    assert decode_facts(stored.encode()) == ToolFacts(Origin(kind, "x", "c"), "1", True, answered_by=answered_by)


@pytest.mark.parametrize(
    "facts",
    [
        ToolFacts(None, "", False),
        ToolFacts(Origin("mcp", "x"), "1", False, True, "connection"),
        ToolFacts(Origin("device", "x"), "1", False, False, "request"),
    ],
)
def test_what_a_record_says_itself_of_its_tool_counts(facts: ToolFacts) -> None:
    assert decode_facts(msgspec.json.encode(facts)) == facts
