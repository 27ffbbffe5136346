"""Every case of the graph API, by the real gateway over HTTP and WebSocket."""

from pathlib import Path

import msgspec
import pytest

from handspan.core.schema import Validator
from handspan.testing import running_gateway
from handspan.testing.spoken import Spoken
from tests.vectors.cases import PROTOCOL, Case, cases
from tests.vectors.graph_patterns import GraphPatterns
from tests.vectors.graph_player import METHODS, playing

CASES = dict(cases("graph"))
CLAUSES = (PROTOCOL / "graph.md").read_text(encoding="utf-8")
STEPS = frozenset((*METHODS, "socket", "restart"))


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_gateway_does_what_the_case_says(case: Case, tmp_path: Path) -> None:
    open_to = {"origins": ["http://page.example"]}
    async with running_gateway(tmp_path, model=Spoken(), gateway=open_to) as gateway, playing(gateway) as player:
        await player.walk(case)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_case_names_clauses_that_exist_and_known_steps(case: Case) -> None:
    assert case.clauses
    for clause in case.clauses:
        assert f"\n{clause} " in CLAUSES
    for step in case.steps:
        assert len(STEPS & step.keys()) == 1, step


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES.values()}) == len(CASES)


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ({"a": 1}, [], False),
        ({"a": 1}, {"a": True}, False),
        ([1, "$any"], [1, 2], True),
        ([1], [1, 2], False),
        ([1], {"a": 1}, False),
        ("$text", "x", True),
        ("$text", "", False),
        ("$number", 1.5, True),
        ("$number", True, False),
        ({"$contains": "ell"}, "hello", True),
        ({"$contains": "ell"}, ["ell"], False),
        ({"$has": [{"a": 1}]}, [{"b": 2}, {"a": 1, "c": 3}], True),
        ({"$has": [{"a": 1}]}, [{"b": 2}], False),
        ({"$has": [1]}, None, False),
        (None, None, True),
        (0, None, False),
        ({"a": "$set:x", "b": "$get:x"}, {"a": 7, "b": 7}, True),
        ({"a": "$set:x", "b": "$get:x"}, {"a": 7, "b": 8}, False),
    ],
)
def test_patterns_fit_as_the_readme_says(pattern: object, value: object, fits: bool) -> None:
    assert (GraphPatterns().differences(pattern, value) == []) is fits


def test_what_was_remembered_stands_in_paths_and_bodies() -> None:
    patterns = GraphPatterns()
    patterns.differences({"id": "$set:x"}, {"id": "t1"})
    assert patterns.filled(["/v1/threads/{x}/state", {"thread_id": "$get:x"}, "{x}"]) == [
        "/v1/threads/t1/state",
        {"thread_id": "t1"},
        "{x}",
    ]


def test_bodies_that_are_done_are_bodies_of_the_schema() -> None:
    names = {"/v1/graph/invoke": "invoke", "/v1/graph/stream": "invoke", "/v1/graph/setup": "setup"}
    for name, case in CASES.items():
        for step in case.steps:
            schema = names.get(step.get("post", ""))
            if schema and "body" in step and step.get("status", 200) == 200:
                found = (PROTOCOL / "schema" / "graph" / "request" / f"{schema}.json").read_bytes()
                assert Validator(msgspec.json.decode(found)).problems(step["body"]) == [], name
