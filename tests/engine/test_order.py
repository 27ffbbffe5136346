"""The order of SPEC E1: a call that would fail at two neighbouring stations shows the earlier one's error."""

import asyncio
import itertools
import time
from collections.abc import Mapping
from typing import Any

import pytest

from handspan.core.agents import Agent
from handspan.core.calls import ToolCall
from handspan.core.context import Deadline
from handspan.core.principals import Origin
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.tool import Annotations, ToolSpec
from handspan.engine.caller import Caller
from handspan.engine.hooks import CancelCall, HookedCall, Hooks, ModifyCall, NamedHook
from handspan.engine.policy import Ask, Deny, Verdict
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit

pytestmark = pytest.mark.anyio

PLUGIN = Origin("plugin", "test")


class Stations:
    """Notes in which order the stations are passed, and lets each of them fail if it shall."""

    def __init__(self, *fails: str) -> None:
        self.fails = set(fails)
        self.passed: list[str] = []

    async def before(self, call: HookedCall) -> Any:
        self.passed.append("before-hooks")
        return CancelCall("no") if "before-hooks" in self.fails else None

    async def after(self, call: HookedCall, result: ToolResult) -> Any:
        self.passed.append("after-hooks")
        if "after-hooks" in self.fails:
            raise LookupError("after")
        return Success("y" * 100_000) if "size" in self.fails else None

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        station = "permissions" if question.kind == "permission" else "approval"
        self.passed.append(station)
        return Answer("deny") if station in self.fails else Answer("allow")

    def decide(self, spec: ToolSpec, call: ToolCall, who: Caller) -> Verdict:
        return Deny("no") if "policy" in self.fails else Ask("first")

    async def run(self, number: int) -> str:
        """The tool."""
        self.passed.append("run")
        if "run" in self.fails:
            await asyncio.Event().wait()
        return "x" * 100_000 if "size" in self.fails else "done"

    def kit(self, make_kit: MakeKit) -> EngineKit:
        kit = make_kit(questions=self, hooks=Hooks([NamedHook("stations", self)]), policy=self)
        kit.add(
            self.run,
            PLUGIN,
            name="tool",
            permissions=("camera",),
            annotations=Annotations(destructive=True),
            timeout=0.02,
        )
        if "enabled" in self.fails:
            kit.registry.disable("tool")
        return kit

    async def call(self, make_kit: MakeKit) -> ToolResult:
        kit = self.kit(make_kit)
        agent = Agent("Clerk", deny=("tool",) if "available" in self.fails else ())
        name = "unknown" if "find" in self.fails else "tool"
        arguments: Mapping[str, Any] = {} if "arguments" in self.fails else {"number": 1}
        result = await kit.call(name, arguments, caller=kit.caller(agent))
        assert isinstance(result, Success | Failure)
        assert kit.last().result == result  # the journal comes after everything else
        return result


ORDER = {
    "find": "tool_not_found",
    "available": "tool_not_available",
    "enabled": "tool_disabled",
    "arguments": "invalid_arguments",
    "before-hooks": "hook_cancelled",
    "policy": "policy_denied",
    "permissions": "permission_denied",
    "approval": "approval_denied",
    "run": "timeout",
    "after-hooks": "internal_error",
}
STATIONS = list(ORDER)


@pytest.mark.parametrize("station", STATIONS)
async def test_each_station_fails_with_its_own_error(make_kit: MakeKit, station: str) -> None:
    result = await Stations(station).call(make_kit)
    assert isinstance(result, Failure)
    assert result.code == ORDER[station]


# A tool that timed out gets to the after-hooks all the same, and their error is the later word.
PAIRS = [pair for pair in itertools.pairwise(STATIONS) if pair != ("run", "after-hooks")]


@pytest.mark.parametrize(("earlier", "later"), PAIRS)
async def test_of_two_neighbours_that_fail_the_earlier_one_is_shown(
    make_kit: MakeKit, earlier: str, later: str
) -> None:
    result = await Stations(earlier, later).call(make_kit)
    assert isinstance(result, Failure)
    assert result.code == ORDER[earlier]


@pytest.mark.parametrize("station", STATIONS)
async def test_when_everything_after_a_station_fails_too_that_station_is_shown(make_kit: MakeKit, station: str) -> None:
    later = STATIONS[STATIONS.index(station) :]
    result = await Stations(*later).call(make_kit)
    assert isinstance(result, Failure)
    assert result.code == (ORDER[station] if station != "run" else "internal_error")


async def test_all_stations_are_passed_in_order(make_kit: MakeKit) -> None:
    stations = Stations()
    result = await stations.call(make_kit)
    assert isinstance(result, Success) and result.value == "done"
    assert stations.passed == ["before-hooks", "permissions", "approval", "run", "after-hooks"]


async def test_the_run_comes_before_the_after_hooks_which_see_that_it_timed_out(make_kit: MakeKit) -> None:
    stations = Stations("run", "after-hooks")
    kit = stations.kit(make_kit)
    result = await kit.failure("tool", {"number": 1}, caller=kit.caller(Agent("Clerk", mode="ask_always")))
    assert result.code == "internal_error" and "did run" in result.message
    true = kit.last().true_result
    assert isinstance(true, Failure) and true.code == "timeout"
    assert stations.passed[-2:] == ["run", "after-hooks"]


async def test_the_size_limit_comes_after_the_after_hooks_and_before_the_journal(make_kit: MakeKit) -> None:
    stations = Stations("size")
    result = await stations.call(make_kit)  # the hook saw the whole result, and its own was cut
    assert isinstance(result, Success) and isinstance(result.value, str)
    assert result.value.startswith("yyy") and "bytes left out" in result.value
    failing = Stations("size", "after-hooks")
    assert isinstance(await failing.call(make_kit), Failure)


async def test_no_station_is_asked_when_the_one_before_it_refuses(make_kit: MakeKit) -> None:
    for station, passed in (
        ("arguments", []),
        ("before-hooks", ["before-hooks"]),
        ("policy", ["before-hooks"]),
        ("permissions", ["before-hooks", "permissions"]),
        ("approval", ["before-hooks", "permissions", "approval"]),
    ):
        stations = Stations(station)
        await stations.call(make_kit)
        assert stations.passed == passed


async def test_a_changed_call_goes_through_find_and_arguments_again_before_policy(make_kit: MakeKit) -> None:
    class Changing(Stations):
        def __init__(self, changed: ModifyCall) -> None:
            super().__init__("policy")
            self._changed = changed

        async def before(self, call: HookedCall) -> Any:
            return self._changed

    for changed, code in (
        (ModifyCall("unknown", {"number": 1}), "tool_not_found"),
        (ModifyCall("tool", {"number": "x"}), "invalid_arguments"),
        (ModifyCall("tool", {"number": 2}), "policy_denied"),
    ):
        result = await Changing(changed).call(make_kit)
        assert isinstance(result, Failure) and result.code == code


async def test_a_deadline_that_has_passed_is_noticed_at_run_and_not_before(make_kit: MakeKit) -> None:
    over = Deadline(time.monotonic() - 1, "the caller's deadline")
    stations = Stations("approval")
    kit = stations.kit(make_kit)
    caller = kit.caller(Agent("Clerk", mode="ask_always"))
    assert (await kit.failure("tool", {"number": 1}, caller=caller, deadline=over)).code == "approval_denied"
    stations.fails.clear()
    assert (await kit.failure("tool", {"number": 1}, caller=caller, deadline=over)).code == "timeout"
    assert "run" not in stations.passed
