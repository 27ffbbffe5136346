"""SPEC C2, A3: internal tools are hidden, not absent, until a skill that is on names them."""

import pytest

from handspan.core.agents import GENERAL, Agent, SkillTools
from handspan.core.principals import GLOBAL
from handspan.core.tool import Handling
from handspan.registry.registry import Registry
from handspan.registry.selection import why_unusable
from handspan.registry.toolbox import Toolbox
from tests.registry.class_tools import ADA, GIT, ClassTool


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(ClassTool("read_file"))
    registry.replace(GIT, [ClassTool("git__log"), ClassTool("git__push")], GLOBAL, Handling(internal=True))
    return registry


def names(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.specs()]


@pytest.mark.parametrize("agent", [GENERAL, Agent(tools=("*",)), Agent(tools=("git__log",))])
def test_no_agent_sees_or_calls_them_even_if_its_own_list_names_them(registry: Registry, agent: Agent) -> None:
    box = registry.toolbox(agent, ADA)
    assert "git__log" not in names(box) and box.find("git__log") is None
    refusal = box.refusal("git__log")
    assert refusal.code == "tool_not_available"
    assert refusal.message == (
        "Tool 'git__log' is not available: it is internal, and hidden until a skill that is on names it."
    )
    assert [reason.text for reason in box.explain("git__log") if not reason.ok] == [
        "It is internal, and hidden until a skill that is on names it."
    ]
    assert len(registry) == 3, "they are listed"


def test_a_skill_shows_those_that_its_globs_match(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA, skill_tools=SkillTools(("logs",), ("git__l*",)))
    assert names(box) == ["git__log"] and box.find("git__log") is not None
    assert all(reason.ok for reason in box.explain("git__log"))
    assert {reason.text for reason in box.explain("git__log")} >= {
        "A skill that is on names it.",
        "It is internal, and a skill that is on shows it.",
    }
    for hidden in ("git__push", "read_file"):
        assert box.find(hidden) is None and box.refusal(hidden).code == "tool_not_available"
        assert "The skills that are on ('logs') do not name it: 'git__l*'." in [one.text for one in box.explain(hidden)]
    assert names(registry.toolbox(GENERAL, ADA)) == ["read_file"], "elsewhere nothing has changed"


def test_the_deny_list_wins_over_a_skill(registry: Registry) -> None:
    box = registry.toolbox(Agent(deny=("*push",)), ADA, skill_tools=SkillTools(("logs",), ("git__*",)))
    assert names(box) == ["git__log"]


def test_an_internal_tool_says_why_no_agent_can_use_it(registry: Registry) -> None:
    (entry,) = [one for one in registry if one.spec.name == "git__log"]
    assert why_unusable(entry) == "it is internal, and hidden until a skill that is on names it"
