"""Whether a call may run at all (SPEC P4)."""

import pytest

from handspan.core.agents import Agent, Mode
from handspan.core.calls import ToolCall
from handspan.core.principals import OPERATOR
from handspan.core.tool import NO_CLAIMS, READ_ONLY, UNKNOWN_EFFECTS, Annotations, ToolSpec
from handspan.engine.caller import Caller
from handspan.engine.policy import ALLOW, Ask, Deny, ModePolicy, Verdict
from handspan.registry.registry import Registry

CALL = ToolCall("tool", {}, "call-1")


def decide(mode: Mode, annotations: Annotations) -> Verdict:
    agent = Agent("Clerk", mode=mode)
    spec = ToolSpec("tool", "A tool.", {"type": "object"}, annotations=annotations)
    return ModePolicy().decide(spec, CALL, Caller(OPERATOR, agent, Registry().toolbox(agent, OPERATOR)))


@pytest.mark.parametrize(
    ("mode", "annotations", "kind"),
    [
        ("automatic", UNKNOWN_EFFECTS, type(ALLOW)),
        ("ask_destructive", READ_ONLY, type(ALLOW)),
        ("ask_destructive", Annotations(), type(ALLOW)),
        ("ask_destructive", NO_CLAIMS, Ask),
        ("ask_destructive", UNKNOWN_EFFECTS, Ask),
        ("ask_always", READ_ONLY, Ask),
        ("ask_always", NO_CLAIMS, Ask),
        ("read_only", READ_ONLY, type(ALLOW)),
        ("read_only", NO_CLAIMS, Deny),
        ("read_only", UNKNOWN_EFFECTS, Deny),
    ],
)
def test_each_mode_decides_by_the_annotations(mode: Mode, annotations: Annotations, kind: type) -> None:
    assert type(decide(mode, annotations)) is kind


def test_the_reasons_name_tool_agent_and_mode() -> None:
    assert decide("read_only", NO_CLAIMS) == Deny(
        "This call of 'tool' may change things, and the agent 'Clerk' is read-only."
    )
    assert decide("ask_always", NO_CLAIMS) == Ask("The agent 'Clerk' asks before it uses 'tool' (mode 'ask_always').")
