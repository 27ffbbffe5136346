"""SPEC R4, R7, R8: what a toolbox lists is what it can call, and it has no tools of other owners or sessions."""

import gc
import sys
import weakref
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ErrorCode, NameTaken
from handspan.core.names import matches
from handspan.core.principals import BUILTIN, GLOBAL, Origin, Principal, ToolScope
from handspan.core.tool import NO_CLAIMS, READ_ONLY
from handspan.registry.entry import ScopedTools
from handspan.registry.registry import Registry
from handspan.registry.selection import Reason
from handspan.registry.toolbox import Toolbox
from tests.registry.class_tools import (
    ADA,
    BOB,
    CHAT,
    FOR_ADA,
    FOR_BOB,
    GIT,
    IN_ONE,
    IN_TWO,
    OTHER_CHAT,
    PHONE,
    PLUGIN,
    ClassTool,
)
from tests.thoroughness import examples

Who: TypeAlias = tuple[Agent, Principal, str]


@pytest.fixture
def registry() -> Registry:
    """Built-ins, an MCP server, Ada's phone, and a chat in session one."""
    registry = Registry()
    for name in ("read_file", "write_file", "spawn"):
        registry.register(ClassTool(name, annotations=READ_ONLY if name == "read_file" else NO_CLAIMS))
    registry.register(ClassTool("git__log"), GIT)
    registry.register(ClassTool("phone__camera"), PHONE, FOR_ADA)
    registry.register(ClassTool("torch"), CHAT, IN_ONE)
    return registry


def names(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.specs()]


def refusal(box: Toolbox, name: str) -> tuple[ErrorCode, str]:
    assert box.find(name) is None
    error = box.refusal(name)
    return error.code, error.message


# Whose tools.


def test_tools_of_another_owner_or_session_are_not_seen(registry: Registry) -> None:
    common = ["git__log", "read_file", "spawn", "write_file"]
    assert names(registry.toolbox(GENERAL, ADA, "one")) == sorted([*common, "phone__camera", "torch"])
    assert names(registry.toolbox(GENERAL, ADA, "two")) == sorted([*common, "phone__camera"])
    assert names(registry.toolbox(GENERAL, BOB, "two")) == common
    assert names(registry.toolbox(GENERAL, BOB)) == common
    hidden = registry.toolbox(GENERAL, BOB, "two")
    for name in ("phone__camera", "torch"):
        code, message = refusal(hidden, name)
        assert code == "tool_not_found" and "phone" not in message.partition("no such tool")[2]


def test_the_nearest_scope_wins(registry: Registry) -> None:
    box, elsewhere = registry.toolbox(GENERAL, ADA, "one"), registry.toolbox(GENERAL, BOB, "two")
    middle = registry.register(ClassTool("look"), PHONE, FOR_ADA)
    assert box.find("look") is middle
    near = registry.register(ClassTool("look"), CHAT, IN_ONE)
    assert box.find("look") is near
    assert names(box).count("look") == 1
    assert elsewhere.find("look") is None
    registry.unregister("look", IN_ONE)
    assert box.find("look") is middle


def test_a_nearer_tool_that_is_switched_off_does_not_uncover_the_one_behind_it(registry: Registry) -> None:
    registry.register(ClassTool("look"), PHONE, FOR_ADA)
    registry.register(ClassTool("look"), CHAT, IN_ONE)
    box = registry.toolbox(GENERAL, ADA, "one")
    registry.disable("origin:remote")
    assert box.find("look") is None and "look" not in names(box)
    assert refusal(box, "look")[0] == "tool_disabled"
    assert registry.toolbox(GENERAL, ADA, "two").find("look") is not None


def test_the_same_question_gets_the_same_toolbox_and_another_one_does_not(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA, "one")
    assert registry.toolbox(Agent(), Principal("ada", ("chat",)), "one") is box
    assert registry.toolbox(GENERAL, ADA, "two") is not box
    assert registry.toolbox(GENERAL, BOB, "one") is not box
    assert registry.toolbox(Agent(tools=()), ADA, "one") is not box


def test_what_a_toolbox_lists_is_in_order_and_the_same_until_something_changes(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA, "one")
    listed = box.specs()
    assert [spec.name for spec in listed] == sorted(spec.name for spec in listed)
    assert box.specs() is listed
    registry.register(ClassTool("elsewhere"), OTHER_CHAT, IN_TWO)
    registry.register(ClassTool("elsewhere"), OTHER_CHAT, FOR_BOB)
    assert box.specs() is listed
    registry.unregister("spawn")
    assert box.specs() is not listed


# The agent's rules.


@pytest.mark.parametrize(
    ("tools", "deny", "usable"),
    [
        (None, (), ["git__log", "read_file", "spawn", "write_file"]),
        ((), (), []),
        (("*",), (), ["git__log", "read_file", "spawn", "write_file"]),
        (("*_file",), (), ["read_file", "write_file"]),
        (("read_file", "git__*"), (), ["git__log", "read_file"]),
        (None, ("write_*", "spawn"), ["git__log", "read_file"]),
        (("*_file",), ("write_file",), ["read_file"]),
        (("write_file",), ("write_file",), []),
        (None, ("*",), []),
        (("nothing_like_this",), (), []),
    ],
)
def test_allow_and_deny_globs_choose_and_deny_wins(
    registry: Registry, tools: tuple[str, ...] | None, deny: tuple[str, ...], usable: list[str]
) -> None:
    box = registry.toolbox(Agent("picky", tools, deny), BOB)
    assert names(box) == usable
    assert [name for name in ("git__log", "read_file", "spawn", "write_file") if box.find(name)] == usable


# Refusals.


def test_an_unknown_tool_is_not_found_with_a_hint_from_what_this_agent_may_use(registry: Registry) -> None:
    assert refusal(registry.toolbox(GENERAL, ADA), "raed_file") == (
        "tool_not_found",
        "Tool 'raed_file' is not available: there is no such tool. Did you mean 'read_file' or 'write_file'?",
    )
    assert refusal(registry.toolbox(Agent("picky", ("spawn",)), ADA), "raed_file") == (
        "tool_not_found",
        "Tool 'raed_file' is not available: there is no such tool. There is only 'spawn'.",
    )


def test_a_tool_that_the_agent_may_not_use_is_not_available_to_it(registry: Registry) -> None:
    text = "Tool 'spawn' is not available to the agent 'picky'."
    for agent in (Agent("picky", ("read_*",)), Agent("picky", None, ("spawn",)), Agent("picky", ())):
        assert refusal(registry.toolbox(agent, ADA), "spawn") == ("tool_not_available", text)


def test_a_tool_that_is_switched_off_is_disabled_with_the_pattern(registry: Registry) -> None:
    registry.disable("origin:mcp(git)")
    assert refusal(registry.toolbox(GENERAL, ADA), "git__log") == (
        "tool_disabled",
        "Tool 'git__log' is not available: it is switched off for all owners ('origin:mcp(git)').",
    )


def test_not_available_comes_before_disabled(registry: Registry) -> None:
    registry.disable("spawn")
    assert refusal(registry.toolbox(Agent("picky", ()), ADA), "spawn")[0] == "tool_not_available"


@pytest.mark.parametrize("name", ["x" * 1_000_000, "", "\ud800", "a\nb", "Tool 'x' is fine'"])
def test_whatever_a_model_calls_a_tool_the_refusal_is_one_short_line(registry: Registry, name: str) -> None:
    code, message = refusal(registry.toolbox(GENERAL, ADA), name)
    assert code == "tool_not_found" and len(message) < 300 and "\n" not in message
    assert message.encode()
    assert len(registry.toolbox(GENERAL, ADA).explain(name)[0].text) < 300


def test_names_that_a_model_invents_without_end_are_not_kept(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA)
    assert all(box.find(f"invented_{number}") is None for number in range(5000))
    held = [found for found in vars(box).values() if isinstance(found, dict) and "invented_1" in found]
    assert len(held) == 1 and len(held[0]) < 2000
    assert box.find("read_file") is not None


# Why.


def test_why_names_every_reason(registry: Registry) -> None:
    registry.disable("s*")
    box = registry.toolbox(Agent("picky", ("read_*", "git__*"), ("*awn", "spaw?"), "read_only"), ADA)
    assert [(reason.ok, reason.text) for reason in box.explain("spawn")] == [
        (True, "It exists: builtin, scope global, version 1.0.0."),
        (False, "The tool list of the agent 'picky' does not name it: 'read_*', 'git__*'."),
        (False, "The agent's deny list names it: '*awn', 'spaw?'."),
        (False, "It is switched off by 's*'."),
        (False, "Mode 'read_only' refuses it: it is not read-only."),
    ]


def test_why_says_yes_when_nothing_is_in_the_way(registry: Registry) -> None:
    reasons = registry.toolbox(Agent("reader", ("read_*",), mode="read_only"), ADA).explain("read_file")
    assert all(reason.ok for reason in reasons)
    assert [reason.text for reason in reasons[1:]] == [
        "The tool list of the agent 'reader' names it.",
        "No deny rule names it.",
        "It is switched on.",
        "Mode 'read_only' permits it.",
    ]
    assert registry.toolbox(GENERAL, ADA).explain("phone__camera")[:2] == [
        Reason(True, "It exists: device(phone), scope owner 'ada', version 1.0.0."),
        Reason(True, "The agent 'General' may use all tools."),
    ]


def test_why_of_a_tool_that_is_not_there_names_the_near_ones_of_this_session_only(registry: Registry) -> None:
    (reason,) = registry.toolbox(GENERAL, ADA).explain("phone_camera")
    assert (reason.ok, reason.text) == (
        False,
        "There is no tool 'phone_camera' in any scope of this session. Did you mean 'phone__camera'?",
    )
    (reason,) = registry.toolbox(GENERAL, BOB).explain("phone_camera")
    assert "phone__camera" not in reason.text


def test_an_empty_tool_list_is_said_to_be_empty(registry: Registry) -> None:
    assert registry.toolbox(Agent("idle", ()), ADA).explain("spawn")[1].text == (
        "The tool list of the agent 'idle' does not name it: it is empty."
    )


# Freed.


def scoped_tools_of(scope: ToolScope) -> int:
    gc.collect()
    return sum(isinstance(thing, ScopedTools) and thing.scope == scope for thing in gc.get_objects())


def test_a_toolbox_without_references_is_freed_with_its_empty_scopes(registry: Registry) -> None:
    scope = ToolScope("session", "short-lived")
    box = registry.toolbox(GENERAL, Principal("passer-by"), scope.id)
    assert names(box) and scoped_tools_of(scope) == 1
    gone = weakref.ref(box)
    del box
    gc.collect()
    assert gone() is None and scoped_tools_of(scope) == 0


def test_a_scope_with_tools_stays_and_an_emptied_one_is_freed(registry: Registry) -> None:
    scope = ToolScope("session", "short-lived")
    registry.register(ClassTool("camera"), CHAT, scope)
    assert scoped_tools_of(scope) == 1
    assert registry.toolbox(GENERAL, ADA, scope.id).find("camera") is not None
    registry.unregister_by_source(CHAT)
    assert scoped_tools_of(scope) == 0


def test_a_toolbox_keeps_up_with_a_session_whose_tools_went_and_came_again(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA, "one")
    assert box.find("torch") is not None
    registry.unregister_by_source(CHAT)
    assert box.find("torch") is None
    gc.collect()
    again = registry.register(ClassTool("torch"), OTHER_CHAT, IN_ONE)
    assert box.find("torch") is again


def test_a_removed_tool_is_let_go(registry: Registry) -> None:
    thing = ClassTool("camera")
    gone = weakref.ref(thing)
    box = registry.toolbox(GENERAL, ADA, "one")
    registry.register(thing, OTHER_CHAT, IN_ONE)
    assert box.find("camera") is not None
    del thing
    registry.unregister_by_source(OTHER_CHAT)
    assert box.find("camera") is None
    gc.collect()
    assert gone() is None


def test_lists_of_toolboxes_that_are_gone_take_no_memory(registry: Registry) -> None:
    registry.register(ClassTool("search_tools"))

    def list_tools(times: int) -> int:
        before = sys.getallocatedblocks()
        for _ in range(times):
            assert "torch" in names(registry.toolbox(GENERAL, ADA, "one"))
        return sys.getallocatedblocks() - before

    gc.collect()  # this empties Python's lists of tuples for reuse, too
    list_tools(10)
    assert list_tools(400) < 200  # a tuple for each list stayed: one of a generator is cut to its length


# Everything at once.

NAMES = ["camera", "torch", "look", "read_file"]
ORIGINS = [BUILTIN, PLUGIN, GIT, PHONE, CHAT, OTHER_CHAT]
SCOPES = [GLOBAL, FOR_ADA, FOR_BOB, IN_ONE, IN_TWO]
PATTERNS = ["camera", "*o*", "origin:mcp", "origin:remote(session-1)", "origin:plugin"]
WATCHERS: list[Who] = [
    (agent, who, session)
    for agent in (GENERAL, Agent("picky", ("camera", "l*"), ("look",)))
    for who, session in ((ADA, "one"), (ADA, "two"), (BOB, "two"), (BOB, ""))
]


class Changes(RuleBasedStateMachine):
    """Tools come and go in any order; a plain dict knows what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.kept: dict[tuple[ToolScope, str], Origin] = {}
        self.off: set[str] = set()
        self.boxes = [self.registry.toolbox(*watcher) for watcher in WATCHERS[::2]]  # these live all the time

    @rule(
        name=st.sampled_from(NAMES),
        origin=st.sampled_from(ORIGINS),
        scope=st.sampled_from(SCOPES),
        replace=st.booleans(),
    )
    def register(self, name: str, origin: Origin, scope: ToolScope, replace: bool) -> None:
        if origin == BUILTIN:
            scope = GLOBAL
        holder = self.kept.get((scope, name))
        of_all = self.kept.get((GLOBAL, name))
        is_reserved = of_all is not None and of_all.rank < origin.rank
        is_free = holder is None or holder.rank > origin.rank or (replace and holder == origin)
        may = not is_reserved and is_free
        register = self.registry.register_or_replace if replace else self.registry.register
        try:
            register(ClassTool(name), origin, scope)
        except NameTaken:
            assert not may
        else:
            assert may
            if scope == GLOBAL:  # SPEC R5: tools of a lower rank lose the name
                outranked = [key for key, other in self.kept.items() if key[1] == name and other.rank > origin.rank]
                for key in outranked:
                    del self.kept[key]
            self.kept[scope, name] = origin

    @rule(name=st.sampled_from(NAMES), scope=st.sampled_from(SCOPES))
    def unregister(self, name: str, scope: ToolScope) -> None:
        assert self.registry.unregister(name, scope) == (self.kept.pop((scope, name), None) is not None)

    @rule(origin=st.sampled_from(ORIGINS))
    def close(self, origin: Origin) -> None:
        gone = [key for key, holder in self.kept.items() if holder == origin]
        assert self.registry.unregister_by_source(origin) == len(gone)
        for key in gone:
            del self.kept[key]

    @rule(pattern=st.sampled_from(PATTERNS))
    def disable(self, pattern: str) -> None:
        self.registry.disable(pattern)
        self.off.add(pattern)

    @rule(pattern=st.sampled_from(PATTERNS))
    def enable(self, pattern: str) -> None:
        assert self.registry.enable(pattern) == (pattern in self.off)
        self.off.discard(pattern)

    @invariant()
    def every_toolbox_lists_what_it_finds_and_finds_what_it_should(self) -> None:
        for watcher in WATCHERS:
            box = self.registry.toolbox(*watcher)
            found = {name: box.find(name) for name in NAMES}
            listed = {spec.name for spec in box.specs()}
            assert listed == {name for name, entry in found.items() if entry is not None}
            assert {name: entry.origin for name, entry in found.items() if entry} == self._expected(watcher)
            assert all(all(reason.ok for reason in box.explain(name)) == (name in listed) for name in NAMES)

    @invariant()
    def the_registry_holds_exactly_what_was_kept(self) -> None:
        assert {(entry.scope, entry.spec.name): entry.origin for entry in self.registry} == self.kept
        assert len(self.registry) == len(self.kept)

    def _expected(self, watcher: Who) -> dict[str, Origin]:
        agent, who, session = watcher
        nearest: dict[str, Origin] = {}
        for scope in (GLOBAL, ToolScope("owner", who.owner), ToolScope("session", session)):
            nearest |= {name: origin for (kept_in, name), origin in self.kept.items() if kept_in == scope}
        return {
            name: origin
            for name, origin in nearest.items()
            if (agent.tools is None or any(matches(glob, name) for glob in agent.tools))
            and not any(matches(glob, name) for glob in agent.deny)
            and not any(
                matches(pattern, name) or pattern in (f"origin:{origin.kind}", f"origin:{origin}")
                for pattern in self.off
            )
        }


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


TAB = Origin("browser", "tab", "thread")


def test_what_is_for_a_sessions_turns_is_seen_there_and_nowhere_else() -> None:
    registry = Registry()
    registry.register(ClassTool("weather"), PHONE, FOR_ADA)
    inside, beside = (registry.toolbox(GENERAL, ADA, "one", in_turn=in_turn) for in_turn in (True, False))
    other = registry.toolbox(GENERAL, ADA, "two", in_turn=True)
    registry.register(ClassTool("weather"), TAB, ToolScope("turn", "one"))
    registry.register(ClassTool("look"), TAB, ToolScope("turn", "one"))
    found = inside.find("weather")
    assert found is not None and found.origin == TAB
    assert [spec.name for spec in inside.specs()] == ["look", "weather"]
    for box in (beside, other):
        found = box.find("weather")
        assert found is not None and found.origin == PHONE
        assert box.find("look") is None
        assert not box.explain("look")[0].ok
    registry.unregister_by_source(TAB)
    assert [spec.name for spec in inside.specs()] == ["weather"]
