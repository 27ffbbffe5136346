"""Simple front matter is read without YAML, and means what YAML says it means."""

import random

import pytest
import yaml

from handspan.core.fast import IS_FAST
from handspan.skills.fast_front_matter import read_simple
from handspan.skills.text import WrittenValue

VALUES = [
    "a",
    "true",
    "True",
    "yes",
    "Off",
    "1.0.0",
    "1.2",
    "12.30.45",
    "a b, c",
    "it's (so) a/b.",
    "x-",
    "[a, b]",
    "[on, b]",
    "[a]",
    "[]",
    "null",
    "NULL",
    "a ",
    "a  b",
    "[y, n]",
    "a.",
    "e-3",
    "inf",
    "nan",
    "a;b",
    "a,b",
    "[a.b, c-d]",
    "a'",
    "=",
    "Y",
    "a)",
    "[a_, b-]",
    "a: b",
    "a #b",
    "'a'",
    "*a",
    "&a a",
    "!a",
    "",
]
KEYS = ["name", "description", "y", "a-b", "true", "version", "Null", "a.b", "no", "a_b"]
LETTERS = "abY1 ,.:'()/-_;#[]"


def texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    lines = [
        "\n".join(f"{rng.choice(KEYS)}: {rng.choice(VALUES)}" for _ in range(rng.randint(1, 3))) for _ in range(400)
    ]
    return lines + ["k: " + "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 6))) for _ in range(400)]


@pytest.mark.skipif(not IS_FAST, reason="YAML reads everything when the speed tricks are off")
@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_without_yaml_is_what_yaml_reads(seed: int) -> None:
    read = {text: found for text in texts(seed) if (found := read_simple(text, 2)) is not None}
    assert len(read) > 50
    for text, (values, _) in read.items():
        assert values == yaml.safe_load(text), text


@pytest.mark.skipif(not IS_FAST, reason="YAML reads everything when the speed tricks are off")
def test_each_value_is_known_with_its_line_and_letters() -> None:
    assert read_simple("name: a\nvariables: [b, c]\nuser-invocable: true\n", 2) == (
        {"name": "a", "variables": ["b", "c"], "user-invocable": True},
        {"name": WrittenValue(2, "a"), "variables": WrittenValue(3), "user-invocable": WrittenValue(4, "true")},
    )


@pytest.mark.parametrize(
    "text", ["a: b: c", "a: b #c", "a: 1.5", "a: yes", "no: a", "a: b\na: c", "a:\n  - b", "a: &b c", ""]
)
def test_anything_else_is_left_to_yaml(text: str) -> None:
    assert read_simple(text, 1) is None
