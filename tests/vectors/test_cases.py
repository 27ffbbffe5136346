"""The vectors themselves: their frames are frames, their steps are steps."""

from typing import Any

import pytest

from handspan.core.schema import Validator
from tests.vectors.cases import PROTOCOL, Case, FramePatterns, cases, schema

BOTH = {**dict(cases("device")), **{f"gateway {name}": case for name, case in cases("gateway")}}
GATEWAY_STEPS = frozenset(
    (
        "open",
        "refused",
        "client",
        "text",
        "expect",
        "until",
        "closed",
        "link",
        "goodbye",
        "call",
        "ends",
        "abort",
        "login",
        "ask",
        "answered",
        "listed",
        "grace",
        "quiet",
    )
)
ROWS_OF_THE_GATEWAY = set("abcefgklmn")
CLAUSES = (PROTOCOL / "ws.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", BOTH.values(), ids=BOTH.keys())
def test_every_frame_that_is_sent_is_one_of_the_protocol(case: Case) -> None:
    for step in case.steps:
        for side, word in (("client", "client"), ("server", "gateway")):
            frame: Any = step.get(word)
            if isinstance(frame, dict) and (PROTOCOL / "schema" / side / f"{frame['type']}.json").exists():
                assert Validator(schema(side, frame["type"])).problems(frame) == []


@pytest.mark.parametrize("case", BOTH.values(), ids=BOTH.keys())
def test_every_case_names_clauses_that_exist(case: Case) -> None:
    assert case.clauses
    for clause in case.clauses:
        assert f"\n{clause} " in CLAUSES


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in BOTH.values()}) == len(BOTH)


def test_cases_of_the_gateway_have_known_steps_and_cover_its_rows() -> None:
    found = [case for _, case in cases("gateway")]
    assert {next(iter(step)) for case in found for step in case.steps} <= GATEWAY_STEPS
    assert {row for case in found for row in case.rows} == ROWS_OF_THE_GATEWAY


def test_a_pattern_matches_exactly_but_for_its_placeholders() -> None:
    matching = FramePatterns()
    assert matching.matches({"a": "$any", "b": {"$has": [1]}, "c": "$text"}, {"a": None, "b": [2, 1], "c": "x"})
    assert matching.matches({"id": "$set:id"}, {"id": "c1"})
    assert matching.matches({"id": "$get:id"}, {"id": "c1"})
    assert not matching.matches({"id": "$get:id"}, {"id": "c2"})
    assert not matching.matches({"a": 1}, {"a": 1, "b": 2})
    assert not matching.matches({"a": 1}, {"a": True})
    assert not matching.matches({"a": "$text"}, {"a": ""})
    assert not matching.matches([1, 2], [1])
    assert matching.matches({"a": 1, "b": "$optional"}, {"a": 1})
    assert matching.matches({"a": 1, "b": "$optional"}, {"a": 1, "b": None})
    assert not matching.matches({"b": "$optional"}, {"c": 1})
    assert matching.matches({"a": {"$lacks": [1]}}, {"a": [2]})
    assert not matching.matches({"a": {"$lacks": [1]}}, {"a": [2, 1]})
