"""SPEC T5: a tool that is not what a person agreed to is told, and does not run unasked."""

import pytest

from handspan.core.agents import GENERAL
from handspan.core.principals import GLOBAL
from handspan.core.values import JsonObject
from handspan.registry.entry import Entry
from handspan.registry.pins import PinnedSpecs, PinPolicy
from handspan.registry.registry import Registry
from handspan.registry.selection import Reason
from tests.registry.class_tools import ADA, FOR_ADA, FOR_BOB, GIT, PHONE, ClassTool


def offer(registry: Registry, *tools: ClassTool, policy: PinPolicy = "blocks") -> None:
    assert registry.replace(GIT, tools, pins=policy) == []


def names(registry: Registry) -> list[str]:
    return [spec.name for spec in registry.toolbox(GENERAL, ADA).specs()]


def entry_of(registry: Registry, name: str) -> Entry:
    return next(entry for entry in registry if entry.spec.name == name)


def reason(registry: Registry, name: str) -> Reason:
    """The last reason that is given, which is about the definition."""
    return registry.toolbox(GENERAL, ADA).explain(name)[-1]


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    offer(registry, ClassTool("git__log"), ClassTool("git__diff"))
    return registry


def test_the_first_list_is_taken_as_it_is(registry: Registry) -> None:
    assert names(registry) == ["git__diff", "git__log"]
    assert all(entry.change is None and entry.starts_at_once for entry in registry)


def test_a_changed_definition_is_not_available_until_it_is_accepted_and_the_others_go_on(registry: Registry) -> None:
    offer(registry, ClassTool("git__log", version="2.0.0"), ClassTool("git__diff"))
    assert names(registry) == ["git__diff"]
    box = registry.toolbox(GENERAL, ADA)
    assert box.find("git__log") is None
    refusal = box.refusal("git__log")
    assert refusal.code == "tool_not_available"
    assert "its definition is not the one that a person agreed to" in refusal.message
    assert not reason(registry, "git__log").ok
    entry = entry_of(registry, "git__log")
    assert entry.change is not None and entry.change.was is not None
    assert (entry.change.was.version, entry.spec.version) == ("1.0.0", "2.0.0"), "both can be shown side by side"
    assert registry.accept("git__log", entry.spec.fingerprint)
    assert names(registry) == ["git__diff", "git__log"]
    offer(registry, ClassTool("git__log", version="2.0.0"), ClassTool("git__diff"))
    assert names(registry) == ["git__diff", "git__log"]


def test_only_what_the_person_saw_is_accepted(registry: Registry) -> None:
    seen = ClassTool("git__log", version="2.0.0").spec.fingerprint
    offer(registry, ClassTool("git__log", version="3.0.0"), ClassTool("git__diff"))
    assert not registry.accept("git__log", seen)
    assert not registry.accept("git__diff", ClassTool("git__diff").spec.fingerprint), "nothing is to be accepted"
    assert not registry.accept("git__none", seen)
    assert names(registry) == ["git__diff"]


def test_one_that_goes_and_comes_back_changed_has_changed_and_one_that_is_as_before_has_not(registry: Registry) -> None:
    offer(registry, ClassTool("git__diff"))
    offer(registry, ClassTool("git__diff"), ClassTool("git__log", version="2.0.0"))
    assert names(registry) == ["git__diff"]
    offer(registry, ClassTool("git__diff"), ClassTool("git__log"))
    assert names(registry) == ["git__diff", "git__log"]
    assert entry_of(registry, "git__log").change is None


def test_one_that_comes_later_is_new_can_be_called_and_asks_first_until_it_is_accepted(registry: Registry) -> None:
    for _ in range(2):  # seeing it again does not make it known
        offer(registry, ClassTool("git__log"), ClassTool("git__push"))
        assert names(registry) == ["git__log", "git__push"]
        entry = entry_of(registry, "git__push")
        assert entry.is_new and entry.asks_first and not entry.starts_at_once
        assert reason(registry, "git__push") == Reason(True, "It is new: a person is asked before its first call.")
    assert registry.toolbox(GENERAL, ADA).accept(entry)
    assert not entry.is_new and not entry.asks_first and entry.starts_at_once


def test_where_changes_are_only_recorded_they_are_shown_and_nothing_is_blocked() -> None:
    registry = Registry()
    offer(registry, ClassTool("git__log"), policy="records")
    offer(registry, ClassTool("git__log", version="2.0.0"), ClassTool("git__push"), policy="records")
    assert names(registry) == ["git__log", "git__push"]
    changed, new = entry_of(registry, "git__log"), entry_of(registry, "git__push")
    assert changed.change is not None and not changed.change.blocks and changed.starts_at_once
    assert (
        reason(registry, "git__log").ok and "not the one that a person agreed to" in reason(registry, "git__log").text
    )
    assert new.change is None
    assert registry.accept("git__log", changed.spec.fingerprint) and changed.change is None


def test_without_a_policy_nothing_is_compared() -> None:
    registry = Registry()
    registry.replace(GIT, [ClassTool("git__log")])
    registry.replace(GIT, [ClassTool("git__log", version="2.0.0")])
    assert entry_of(registry, "git__log").change is None


def test_what_was_agreed_to_outlives_the_registry_and_every_connection_and_is_each_owners_own() -> None:
    pins = PinnedSpecs()
    first = Registry(pinned=pins)
    first.replace(PHONE, [ClassTool("phone__camera")], FOR_ADA, pins="blocks")
    first.replace(GIT, [ClassTool("git__log")], GLOBAL, pins="blocks")
    second = Registry(pinned=pins)
    again = type(PHONE)("device", "phone", "connection-9")
    second.replace(again, [ClassTool("phone__camera", version="2.0.0")], FOR_ADA, pins="blocks")
    second.replace(GIT, [ClassTool("git__log")], GLOBAL, pins="blocks")
    assert names(second) == ["git__log"]
    second.replace(PHONE, [ClassTool("phone__camera", version="2.0.0")], FOR_BOB, pins="blocks")
    assert [entry.change is None for entry in second if entry.scope == FOR_BOB] == [True], "the first list of Bob's"


def test_an_acceptance_is_told() -> None:
    told: list[str] = []
    registry = Registry(changed=told.append)
    offer(registry, ClassTool("git__log"))
    offer(registry, ClassTool("git__log", version="2.0.0"))
    registry.accept("git__log", ClassTool("git__log", version="2.0.0").spec.fingerprint)
    assert told == ["", "", ""]


def test_permissions_and_timeout_of_the_settings_are_no_change_of_the_tool(registry: Registry) -> None:
    offer(registry, ClassTool("git__log", timeout=60.0, permissions=("network",)), ClassTool("git__diff"))
    assert names(registry) == ["git__diff", "git__log"]
    assert all(entry.change is None for entry in registry)
    assert entry_of(registry, "git__log").timeout == 60.0


def test_a_definition_that_was_stored_with_invisible_characters_has_not_changed() -> None:
    def schema(description: str) -> JsonObject:
        return {"type": "object", "properties": {"p": {"type": "string", "description": description}}}

    registry = Registry()
    offer(registry, ClassTool("git__log", parameters=schema("a\u202eb")))
    offer(registry, ClassTool("git__log", parameters=schema("ab")))
    assert entry_of(registry, "git__log").change is None
    offer(registry, ClassTool("git__log", parameters=schema("abc")))
    assert entry_of(registry, "git__log").change is not None
