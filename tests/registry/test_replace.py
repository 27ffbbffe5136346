"""All tools of an origin are exchanged in one step (SPEC R2)."""

import pytest

from handspan.core.agents import GENERAL
from handspan.core.principals import GLOBAL
from handspan.core.tool import Handling
from handspan.registry.registry import Registry
from tests.registry.class_tools import ADA, FOR_ADA, GIT, IN_ONE, PHONE, PLUGIN, ClassTool


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(ClassTool("read_file"))
    registry.replace(GIT, [ClassTool("git__log"), ClassTool("git__diff")])
    return registry


def names(registry: Registry) -> list[str]:
    return [spec.name for spec in registry.toolbox(GENERAL, ADA).specs()]


def test_what_is_new_comes_what_is_changed_changes_and_what_is_missing_goes(registry: Registry) -> None:
    box = registry.toolbox(GENERAL, ADA)
    assert registry.replace(GIT, [ClassTool("git__log", version="2.0.0"), ClassTool("git__blame")]) == []
    assert [(spec.name, spec.version) for spec in box.specs()] == [
        ("git__blame", "1.0.0"),
        ("git__log", "2.0.0"),
        ("read_file", "1.0.0"),
    ]
    assert registry.count(GIT) == 2 and len(registry) == 3
    assert registry.replace(GIT, []) == []
    assert names(registry) == ["read_file"] and registry.count(GIT) == 0
    assert registry.unregister_by_source(GIT) == 0


def test_the_tools_of_others_stay_and_so_do_those_of_other_scopes(registry: Registry) -> None:
    registry.replace(PHONE, [ClassTool("phone__camera")], FOR_ADA)
    registry.replace(PHONE, [ClassTool("phone__torch")], IN_ONE)
    registry.replace(PHONE, [], IN_ONE)
    assert names(registry) == ["git__diff", "git__log", "phone__camera", "read_file"]
    assert registry.unregister_by_source(PHONE) == 1


def test_one_that_can_not_be_kept_is_told_and_the_others_are_there(registry: Registry) -> None:
    registry.register(ClassTool("weather"), PLUGIN)
    refused = registry.replace(
        GIT,
        [
            ClassTool("read_file"),
            ClassTool("weather"),
            ClassTool("not a name"),
            ClassTool("git__log", parameters={"type": "string"}),
            ClassTool("git__show"),
            ClassTool("git__show", version="2.0.0"),
        ],
    )
    assert [broken.where for broken in refused] == ["read_file", "weather", "not a name", "git__log", "git__show"]
    assert [
        next(part for part in broken.problem.split(", ") if "belongs" in part).split("' ")[1] for broken in refused[:2]
    ] == ["belongs to builtin", "belongs to plugin(weather)"]
    assert names(registry) == ["git__show", "read_file", "weather"]
    found = registry.toolbox(GENERAL, ADA).find("git__show")
    assert found is not None and found.spec.version == "1.0.0"


def test_it_is_one_change_that_is_told_once_and_with_its_owner() -> None:
    told: list[str] = []
    registry = Registry(changed=told.append)
    many = [ClassTool(f"git__{number}") for number in range(20)]
    registry.replace(GIT, many)
    registry.replace(PHONE, [ClassTool("phone__camera")], FOR_ADA)
    assert told == ["", "ada"]
    box = registry.toolbox(GENERAL, ADA)
    before = box.specs()
    assert box.specs() is before
    registry.replace(GIT, [])
    assert [spec.name for spec in box.specs()] == ["phone__camera"]


def test_the_source_says_how_the_calls_of_its_tools_are_handled(registry: Registry) -> None:
    registry.replace(GIT, [ClassTool("git__log")], GLOBAL, Handling("thread", "connection", outlives=True, longest=7.0))
    entry = registry.toolbox(GENERAL, ADA).find("git__log")
    assert entry is not None
    assert (entry.placement, entry.outlives, entry.timeout) == ("thread", True, 7.0)
    assert (entry.facts.answered_by, entry.facts.outlives, entry.starts_at_once) == ("connection", True, False)
