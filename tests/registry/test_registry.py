"""SPEC R1, R2, R3, R5, R9: who may bring which tool, and how it goes again."""

import re

import pytest

from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import DefinitionError, NameTaken
from handspan.core.principals import BUILTIN, GLOBAL, Origin, ToolScope
from handspan.registry.registry import Registry, RegistryRules
from tests.registry.class_tools import (
    ADA,
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


@pytest.fixture
def registry() -> Registry:
    """One built-in tool, one of a plugin."""
    registry = Registry()
    registry.register(ClassTool("read_file"))
    registry.register(ClassTool("weather"), PLUGIN)
    return registry


# Names.


@pytest.mark.parametrize("origin", [PLUGIN, Origin("plugin", "other"), PHONE])
def test_register_refuses_a_taken_name_and_names_its_holder(registry: Registry, origin: Origin) -> None:
    with pytest.raises(NameTaken, match=re.escape("Tool 'weather' is already registered by plugin(weather)")):
        registry.register(ClassTool("weather"), origin)


@pytest.mark.parametrize("scope", [GLOBAL, FOR_ADA, IN_ONE])
@pytest.mark.parametrize("origin", [PLUGIN, GIT, PHONE, CHAT, Origin("browser", "tab", "thread")])
def test_a_builtin_name_is_reserved_in_every_scope_for_everybody(
    registry: Registry, scope: ToolScope, origin: Origin
) -> None:
    for register in (registry.register, registry.register_or_replace):
        with pytest.raises(NameTaken) as taken:
            register(ClassTool("read_file"), origin, scope)
        assert "'read_file'" in str(taken.value)
    assert len(registry) == 2


def test_a_reserved_name_is_refused_with_the_way_out(registry: Registry) -> None:
    with pytest.raises(NameTaken, match=re.escape("list it in tools.allow_shadowing")):
        registry.register(ClassTool("read_file"), CHAT, IN_ONE)


def test_a_switched_off_builtin_keeps_its_name(registry: Registry) -> None:
    registry.disable("read_file")
    with pytest.raises(NameTaken):
        registry.register(ClassTool("read_file"), CHAT, IN_ONE)


def test_the_configuration_can_let_a_name_be_shadowed_and_only_that_one() -> None:
    registry = Registry(RegistryRules(allow_shadowing=("read_file",)))
    registry.register(ClassTool("read_file"))
    registry.register(ClassTool("write_file"))
    shadow = registry.register(ClassTool("read_file"), CHAT, IN_ONE)
    assert registry.toolbox(GENERAL, ADA, "one").find("read_file") is shadow
    assert registry.toolbox(GENERAL, ADA, "two").find("read_file") is not shadow
    with pytest.raises(NameTaken):
        registry.register(ClassTool("write_file"), CHAT, IN_ONE)


def test_the_name_of_a_builtin_that_is_gone_is_free(registry: Registry) -> None:
    assert registry.unregister("read_file")
    registry.register(ClassTool("read_file"), CHAT, IN_ONE)


def test_names_are_unique_per_scope_and_not_beyond(registry: Registry) -> None:
    for scope in (FOR_ADA, FOR_BOB, IN_ONE, IN_TWO):
        registry.register(ClassTool("camera"), CHAT, scope)
    assert len(registry) == 6
    with pytest.raises(NameTaken):
        registry.register(ClassTool("camera"), OTHER_CHAT, IN_ONE)


@pytest.mark.parametrize("name", ["readFile", "read-file", "git__log", "", "Weather"])
def test_our_own_and_plugins_names_are_snake_case(registry: Registry, name: str) -> None:
    for origin in (BUILTIN, PLUGIN):
        with pytest.raises(DefinitionError, match="snake_case"):
            registry.register(ClassTool(name), origin)


def test_names_from_outside_may_be_anything_that_every_model_takes(registry: Registry) -> None:
    registry.register(ClassTool("git__Log-All_2"), GIT)
    for name in ("take photo", "", "a" * 65, "9lives", "ünder"):
        with pytest.raises(DefinitionError, match=re.escape(f"{name!r} can't be a tool's name here")):
            registry.register(ClassTool(name), GIT)


@pytest.mark.parametrize("kind", ["owner", "session"])
def test_a_scope_without_an_id_is_refused(registry: Registry, kind: str) -> None:
    with pytest.raises(DefinitionError, match=f"has no {kind} to be for"):
        registry.register(ClassTool("camera"), CHAT, ToolScope(kind))  # type: ignore[arg-type] # both are kinds


# Replacing.


def test_an_origin_replaces_its_own_tool(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA)
    first = registry.register_or_replace(ClassTool("git__log"), GIT)
    assert box.find("git__log") is first
    second = registry.register_or_replace(ClassTool("git__log", version="2.0.0"), GIT)
    assert box.find("git__log") is second
    assert [spec.version for spec in box.specs() if spec.name == "git__log"] == ["2.0.0"]
    assert len(registry) == 3


def test_an_origin_replaces_only_its_own_tool_even_on_another_connection_of_the_same_session(
    registry: Registry,
) -> None:
    kept = registry.register(ClassTool("camera"), CHAT, IN_ONE)
    with pytest.raises(NameTaken, match=re.escape("belongs to remote(session-1), and remote(session-1) may replace")):
        registry.register_or_replace(ClassTool("camera"), OTHER_CHAT, IN_ONE)
    assert registry.toolbox(GENERAL, ADA, "one").find("camera") is kept


def test_a_replacement_that_can_not_be_kept_leaves_the_old_tool_in_its_place(registry: Registry) -> None:
    kept = registry.register(ClassTool("git__log"), GIT)
    with pytest.raises(DefinitionError):
        registry.register_or_replace(ClassTool("git__log", parameters={"type": "string"}), GIT)
    assert registry.toolbox(GENERAL, ADA).find("git__log") is kept
    assert registry.unregister_by_source(GIT) == 1


def test_a_tool_that_was_refused_leaves_nothing_behind(registry: Registry) -> None:
    with pytest.raises(DefinitionError):
        registry.register(ClassTool("bad", parameters={"type": "string"}), GIT)
    assert len(registry) == 2 and registry.unregister_by_source(GIT) == 0
    registry.register(ClassTool("bad"), GIT)


# Removing.


def test_unregister_says_whether_there_was_one(registry: Registry) -> None:
    assert registry.unregister("weather")
    assert not registry.unregister("weather")
    assert not registry.unregister("read_file", IN_ONE)
    assert registry.unregister_by_source(PLUGIN) == 0
    assert len(registry) == 1


def test_unregister_by_source_takes_all_of_that_origin_and_nothing_else(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA, "one")
    for number in range(3):
        registry.register(ClassTool(f"tool_{number}"), CHAT, IN_ONE)
    registry.register(ClassTool("mine"), CHAT, FOR_ADA)
    registry.register(ClassTool("other"), OTHER_CHAT, IN_ONE)
    assert len(box.specs()) == 7
    assert registry.unregister_by_source(CHAT) == 4
    assert [spec.name for spec in box.specs()] == ["other", "read_file", "weather"]
    assert box.find("tool_1") is None
    assert registry.unregister_by_source(CHAT) == 0


def test_names_of_a_closed_connection_are_free_at_once(registry: Registry) -> None:
    registry.register(ClassTool("camera"), CHAT, IN_ONE)
    registry.unregister_by_source(CHAT)
    again = registry.register(ClassTool("camera"), OTHER_CHAT, IN_ONE)
    assert registry.toolbox(GENERAL, ADA, "one").find("camera") is again


def test_a_tool_removed_by_name_is_not_counted_with_its_origin(registry: Registry) -> None:
    registry.register(ClassTool("one"), CHAT, IN_ONE)
    registry.register(ClassTool("two"), CHAT, IN_ONE)
    assert registry.unregister("one", IN_ONE)
    assert registry.unregister_by_source(CHAT) == 1


# Looking.


def test_iterating_shows_every_tool_of_every_scope_and_bears_changes_meanwhile(registry: Registry) -> None:
    registry.register(ClassTool("camera"), CHAT, IN_ONE)
    registry.register(ClassTool("torch"), CHAT, IN_ONE)
    registry.register(ClassTool("camera"), PHONE, FOR_ADA)
    seen = []
    for entry in registry:
        seen.append((entry.spec.name, str(entry.scope)))
        registry.unregister_by_source(CHAT)
    assert sorted(seen) == [
        ("camera", "owner 'ada'"),
        ("camera", "session 'one'"),
        ("read_file", "global"),
        ("torch", "session 'one'"),
        ("weather", "global"),
    ]
    assert len(registry) == 3


def test_schemas_are_found_by_globs_over_global_names(registry: Registry) -> None:
    for name in ("git__log", "git__show", "gut__log"):
        registry.register(ClassTool(name), GIT)
    registry.register(ClassTool("git__mine"), CHAT, IN_ONE)

    def found(*patterns: str) -> list[str]:
        return [spec.name for spec in registry.toolbox(Agent("globs", tools=patterns), ADA).specs()]

    assert found("git__*") == ["git__log", "git__show"]
    assert found("g?t__log", "read_file", "*_file") == ["git__log", "gut__log", "read_file"]
    assert found("git") == found() == found("[g]it__log") == []
    assert found("*") == ["git__log", "git__show", "gut__log", "read_file", "weather"]
    registry.disable("git__log")
    assert found("git__*") == ["git__show"]


# Switching off.


@pytest.mark.parametrize(
    ("pattern", "off"),
    [
        ("read_file", {"read_file"}),
        ("*_file", {"read_file"}),
        ("origin:builtin", {"read_file"}),
        ("origin:plugin", {"weather"}),
        ("origin:plugin(weather)", {"weather"}),
        ("origin:plugin(other)", set()),
        ("origin:mcp", {"git__log", "docs__find"}),
        ("origin:mcp(git)", {"git__log"}),
        ("origin:mcp(*)", {"git__log", "docs__find"}),
        ("origin:remote(session-1)", {"camera"}),
        ("origin:remot", set()),
        ("origin:", set()),
        ("origin", set()),
        ("", set()),
        ("*", {"read_file", "weather", "git__log", "docs__find", "camera"}),
    ],
)
def test_tools_are_switched_off_by_name_glob_or_origin(registry: Registry, pattern: str, off: set[str]) -> None:
    registry.register(ClassTool("git__log"), GIT)
    registry.register(ClassTool("docs__find"), Origin("mcp", "docs"))
    registry.register(ClassTool("camera"), CHAT, IN_ONE)
    box = registry.toolbox(GENERAL, ADA, "one")
    everything = {spec.name for spec in box.specs()}
    registry.disable(pattern)
    assert everything - {spec.name for spec in box.specs()} == off
    assert {entry.spec.name for entry in registry if registry.find_disabling(entry) == pattern} == off
    assert registry.enable(pattern)
    assert {spec.name for spec in box.specs()} == everything


def test_enable_takes_back_exactly_that_pattern(registry: Registry) -> None:
    registry.disable("read_*")
    assert not registry.enable("read_file")
    assert registry.toolbox(GENERAL, ADA).find("read_file") is None
    assert registry.enable("read_*")
    assert not registry.enable("read_*")
    assert registry.toolbox(GENERAL, ADA).find("read_file") is not None


def test_what_the_settings_switch_off_is_off_from_the_start_and_so_is_what_comes_later() -> None:
    registry = Registry(RegistryRules(disabled=("origin:mcp(git)",)))
    box = registry.toolbox(GENERAL, ADA)
    registry.register(ClassTool("git__log"), GIT)
    assert box.find("git__log") is None and box.specs() == ()


def test_the_rules_of_one_registry_are_not_those_of_another() -> None:
    first, second = Registry(), Registry()
    first.disable("*")
    second.register(ClassTool("read_file"))
    assert second.toolbox(GENERAL, ADA).find("read_file") is not None


def test_settings_limit_the_time_of_every_tool() -> None:
    registry = Registry(RegistryRules(timeouts={"git__*": 5.0}))
    assert registry.register(ClassTool("git__log"), GIT).timeout == 5.0
    assert registry.register_or_replace(ClassTool("git__log", timeout=1.0), GIT).timeout == 5.0
    assert registry.register(ClassTool("read_file")).timeout == 30.0
