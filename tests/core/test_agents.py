"""SPEC P4, R7: which mode asks and which refuses, by what a tool claims about itself."""

import pytest

from handspan.core.agents import GENERAL, Agent, Mode, limit_agent, mode_asks, mode_refuses, most_careful
from handspan.core.tool import NO_CLAIMS, READ_ONLY, UNKNOWN_EFFECTS, Annotations

DESTRUCTIVE = Annotations(destructive=True)


@pytest.mark.parametrize(
    ("mode", "annotations", "asks", "refuses"),
    [
        ("automatic", DESTRUCTIVE, False, False),
        ("automatic", UNKNOWN_EFFECTS, False, False),
        ("automatic", READ_ONLY, False, False),
        ("ask_destructive", DESTRUCTIVE, True, False),
        ("ask_destructive", UNKNOWN_EFFECTS, True, False),
        ("ask_destructive", NO_CLAIMS, True, False),
        ("ask_destructive", Annotations(), False, False),
        ("ask_destructive", READ_ONLY, False, False),
        ("ask_always", READ_ONLY, True, False),
        ("ask_always", DESTRUCTIVE, True, False),
        ("read_only", READ_ONLY, False, False),
        ("read_only", NO_CLAIMS, False, True),
        ("read_only", DESTRUCTIVE, False, True),
        ("read_only", UNKNOWN_EFFECTS, False, True),
    ],
)
def test_each_mode_asks_and_refuses_by_the_claims(
    mode: Mode, annotations: Annotations, asks: bool, refuses: bool
) -> None:
    assert (mode_asks(mode, annotations), mode_refuses(mode, annotations)) == (asks, refuses)


def test_a_foreign_tool_that_says_nothing_counts_as_destructive_and_not_read_only() -> None:
    assert UNKNOWN_EFFECTS.destructive and not UNKNOWN_EFFECTS.read_only


def test_the_built_in_agent_may_use_all_tools_and_asks_no_person() -> None:
    assert (GENERAL.tools, GENERAL.deny, GENERAL.mode) == (None, (), "automatic")


def test_agents_with_the_same_rules_are_the_same() -> None:
    assert Agent(tools=("a*",)) == Agent(tools=("a*",))
    assert hash(Agent(tools=("a*",))) == hash(Agent(tools=("a*",)))
    assert Agent(tools=()) != Agent(tools=None)


def test_an_agent_that_no_person_has_begun_asks_others_only_if_its_tools_are_not_limited() -> None:
    agent = Agent("Boss", may_ask=("reader",))
    assert limit_agent(agent, ("read_file", "ask_agent"), "automatic").may_ask == ()
    assert limit_agent(agent, None, "automatic").may_ask == ("reader",)


def test_the_most_careful_mode_is_that_which_needs_a_person_most() -> None:
    assert most_careful(("automatic", "ask_always", "ask_destructive")) == "ask_always"
    assert most_careful(Agent("reader", asker_modes=("ask_destructive",)).modes) == "ask_destructive"
