"""The house is put together in one place (CONTRIBUTING.md): what `make check` counts stays at none."""

import ast

from scripts.composition import count_all, long_calls, node_questions, unset_attributes


def test_no_file_departs_from_the_rules_of_composition() -> None:
    assert {rule: places for rule, places in count_all().items() if places} == {}


def test_the_counts_see_what_departs_from_the_rules() -> None:
    asks = ast.parse("if self.cluster is not None:\n    pass")
    unset = ast.parse("class A:\n    def __init__(self) -> None:\n        self.later: int")
    long = ast.parse("make(1, 2, 3, 4, 5, 6)")
    assert list(node_questions(asks)) == [(1, 1)]
    assert list(unset_attributes(unset, set())) == [(3, 1)]
    assert list(long_calls(long, {"make"})) == [(1, 2)]
