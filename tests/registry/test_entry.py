"""SPEC T3, E5, P1: what is worked out once, when a tool is registered."""

import math
import re
from collections.abc import Mapping

import pytest

from handspan.core.errors import DefinitionError
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, GLOBAL, Origin
from handspan.core.tool import READ_ONLY, Handling, Placement
from handspan.registry.entry import OWN_LIMIT, Entry
from tests.registry.class_tools import FOR_ADA, GIT, PHONE, PLUGIN, ClassTool, ThreadTool


def entry_of(thing: ClassTool, origin: Origin = PLUGIN, timeouts: Mapping[str, float | None] | None = None) -> Entry:
    return Entry(thing, origin, GLOBAL, timeouts or {})


@tool(isolated=True)
def isolated() -> None:
    """Nothing."""


class Placed(ClassTool):
    def __init__(self, placement: Placement) -> None:
        super().__init__("placed")
        self.handling = Handling(placement)


class AsksItself(ClassTool):
    handling = Handling(asks_itself=True)


@pytest.mark.parametrize(
    "parameters",
    [{"type": "string"}, {"$ref": "http://example.com/x"}, {"properties": {"a": {"pattern": "("}}}],
)
def test_a_tool_with_an_unusable_schema_is_refused_by_name(parameters: dict[str, object]) -> None:
    with pytest.raises(DefinitionError, match=r"^Tool 'bad' is refused: .{20}"):
        entry_of(ClassTool("bad", parameters=parameters))  # type: ignore[arg-type] # they are JSON


@pytest.mark.parametrize("timeout", [0, -1, math.nan, -math.inf])
def test_a_tool_that_gives_itself_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(DefinitionError, match=re.escape(f"its timeout must be above 0 seconds, not {timeout!r}")):
        entry_of(ClassTool("hasty", timeout=timeout))


def test_only_functions_can_be_isolated() -> None:
    with pytest.raises(DefinitionError, match="Tool 'placed' can't be isolated"):
        entry_of(Placed("process"))
    assert Entry(isolated, PLUGIN, GLOBAL, {}).placement == "process"


def test_an_async_tool_runs_on_the_loop_and_a_plain_one_on_a_thread_unless_they_say_otherwise() -> None:
    assert entry_of(ClassTool("quick")).placement == "loop"
    assert entry_of(ThreadTool("slow")).placement == "thread"
    assert entry_of(Placed("thread")).placement == "thread"


def test_settings_win_over_the_tools_own_limit_by_exact_name_then_by_the_longest_glob() -> None:
    limits: dict[str, float | None] = {"*": 1.0, "read_*": 2.0, "read_file": 3.0, "read_fil?": 4.0}
    assert entry_of(ClassTool("read_file"), timeouts=limits).timeout == 3.0
    assert entry_of(ClassTool("read_fill"), timeouts=limits).timeout == 4.0
    assert entry_of(ClassTool("read_all"), timeouts=limits).timeout == 2.0
    found = entry_of(ClassTool("write_file"), timeouts=limits)
    assert (found.timeout, found.timeout_source) == (1.0, "the setting tools.timeouts.*")


def test_without_a_setting_the_tools_own_limit_holds() -> None:
    found = entry_of(ClassTool("camera", timeout=7.0), timeouts={"read_file": 1.0})
    assert (found.timeout, found.timeout_source) == (7.0, OWN_LIMIT)


def test_a_setting_can_take_the_limit_away_and_give_one_to_a_tool_that_has_none() -> None:
    assert entry_of(ClassTool("camera"), timeouts={"camera": None}).timeout is None
    assert entry_of(ClassTool("camera", timeout=None), timeouts={"camera": 3.0}).timeout == 3.0


def test_permissions_of_builtins_count_as_granted_and_devices_ask_themselves() -> None:
    wants = ("geolocation",)
    assert entry_of(ClassTool("where", permissions=wants), PLUGIN).permissions_to_ask == wants
    assert entry_of(ClassTool("where", permissions=wants), GIT).permissions_to_ask == wants
    assert entry_of(ClassTool("where", permissions=wants), BUILTIN).permissions_to_ask == ()
    assert entry_of(AsksItself("where", permissions=wants), PHONE).permissions_to_ask == ()


def test_an_entry_knows_what_the_journal_needs_and_shows_its_name() -> None:
    found = Entry(ClassTool("camera", version="2.0.0", annotations=READ_ONLY), PHONE, FOR_ADA, {})
    assert (found.facts.origin, found.facts.version, found.facts.read_only) == (PHONE, "2.0.0", True)
    assert repr(found) == "<camera of device(phone) for owner 'ada'>"
    assert found.is_valid({})
