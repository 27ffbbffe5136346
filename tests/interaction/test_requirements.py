"""The list of promises and the tests hold each other."""

import ast
import re
from pathlib import Path

import pytest

from tests.interaction.requirements import REQUIREMENTS

TESTS = Path(__file__).parents[1]
CITED = re.compile(r"SPEC ([A-Z]\d*(?:[,–-] ?[A-Z]?\d+)*)")


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_promise_names_tests_that_are_there(requirement: str) -> None:
    assert REQUIREMENTS[requirement].tests
    for test in REQUIREMENTS[requirement].tests:
        file, _, name = test.partition("::")
        assert name in names_in(TESTS / file), f"{requirement}: there is no {test}"


def test_every_id_that_a_test_cites_is_a_promise_of_the_list() -> None:
    unknown = {
        f"{path.relative_to(TESTS)}: {found}"
        for path in TESTS.rglob("test_*.py")
        for cited in CITED.findall(path.read_text(encoding="utf-8"))
        for found in re.findall(r"[A-Z]\d+", cited)
        if found not in REQUIREMENTS
    }
    assert not unknown
